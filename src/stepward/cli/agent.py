"""``stepward agent``: watches a node, or with ``--watch`` the jobs of a cluster."""

from typing import Annotated

import typer

from stepward.agent.plan import INTERVAL_S

app = typer.Typer()


@app.command("agent")
def agent_command(
    *,
    cluster: Annotated[str | None, typer.Option(help="Cluster; that of Slurm's configuration by default.")] = None,
    node: Annotated[str | None, typer.Option(help="Node, as the cluster calls it; the host's name by default.")] = None,
    interval: Annotated[float, typer.Option(help="Seconds between two samples.")] = INTERVAL_S,
    scrape: Annotated[
        list[str] | None, typer.Option(metavar="URL", help="Prometheus exporter to scrape; repeatable.")
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Watch the cluster's jobs instead of a node.")] = False,
) -> None:
    """Watch this node: heartbeat, readings, Slurm jobs, health checks, kernel log; until it is stopped."""
    if watch:
        from stepward.agent.watcher import watch as watch_jobs

        raise typer.Exit(watch_jobs(cluster=cluster))
    from stepward.agent.plan import Options
    from stepward.agent.run import run_agent

    raise typer.Exit(run_agent(Options(cluster=cluster, node=node, interval_s=interval, scrape=tuple(scrape or ()))))
