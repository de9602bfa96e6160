"""``stepward run``: a command, supervised and recorded, without a change to its code."""

from typing import Annotated

import typer

from stepward.launch.plan import GRACE_S, Options

app = typer.Typer()


@app.command("run", context_settings={"allow_interspersed_args": False})
def run_command(
    command: Annotated[list[str], typer.Argument(metavar="-- CMD", help="The command and its arguments.")],
    *,
    name: Annotated[str | None, typer.Option(help="Name of the run, for people.")] = None,
    project: Annotated[str | None, typer.Option("--project", "-p", help="Project of the run.")] = None,
    run: Annotated[str | None, typer.Option(help="Run id, or any key that always means the same run.")] = None,
    ranks: Annotated[int | None, typer.Option(min=1, help="Start this many ranks on this node.")] = None,
    restarts: Annotated[int, typer.Option(min=0, help="Attempts after a bad end.")] = 0,
    grace: Annotated[
        float, typer.Option(min=0.0, help="Seconds between SIGTERM and SIGKILL when another rank ended badly.")
    ] = GRACE_S,
) -> None:
    """Run a command: keep its output, how it ends, and what the node did meanwhile."""
    from stepward.launch.run import launch

    options = Options(
        command=command, name=name, project=project, run=run, ranks=ranks, restarts=restarts, grace_s=grace
    )
    raise typer.Exit(launch(options))
