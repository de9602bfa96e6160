"""``stepward nodes``: the nodes of the clusters, whether each lives, and what is wrong with it."""

import time
from typing import Annotated

import typer

from stepward.cli.connection import connect
from stepward.cli.figures import ago, figure
from stepward.cli.table import Column, Format, FormatOption, show, terminal, write_csv, write_json, write_table
from stepward.cli.text import safe
from stepward.client.api import Client
from stepward.errors import Conflict, NotFound
from stepward.model.nodes import Node, NodeChanged, NodeCheck, NodeJob

app = typer.Typer(invoke_without_command=True)
ClusterOption = Annotated[str | None, typer.Option("--cluster", "-C", help="Only this cluster.")]
NodeArgument = Annotated[str, typer.Argument(metavar="NODE", help="Name of a node.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")]

_COLOURS = {"live": "green", "lost": "bold red", "stopped": "yellow", "unknown": "yellow"}
_RESULTS = {"ok": "green", "bad": "bold red", "unknown": "yellow"}


@app.callback()
def list_nodes(context: typer.Context, *, cluster: ClusterOption = None, output: FormatOption = Format.TABLE) -> None:
    """List the nodes: heartbeat, what Slurm says, bad checks, load, jobs."""
    if context.invoked_subcommand is None:
        found = connect().nodes(cluster=cluster)
        show(output, columns(time.time()), found, empty="no node has been heard: run `stepward agent` on each")


@app.command("show")
def show_node(
    node: NodeArgument,
    *,
    cluster: ClusterOption = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """Show a node: heartbeat, checks, newest readings, what Slurm says, its jobs."""
    client = connect()
    found = client.node(_cluster_of(client, node, cluster), node)
    now = time.time()
    if output is Format.JSON:
        write_json(found)
    elif output is Format.CSV:
        write_csv(columns(now), [found])
    else:
        _describe(found, now)


@app.command()
def drain(
    node: NodeArgument,
    *,
    reason: Annotated[str, typer.Option("--reason", help="Why; Slurm and the audit keep it.")],
    cluster: ClusterOption = None,
    force: Annotated[bool, typer.Option("--force", help="Also the last node in service of a partition.")] = False,
    dry_run: DryRunOption = False,
) -> None:
    """Take a node out of service: jobs that run on it go on, no new ones start."""
    client = connect()
    place = _cluster_of(client, node, cluster)
    _told(client.change_node(place, node, "drain", reason=reason, force=force, dry_run=dry_run))


@app.command()
def resume(
    node: NodeArgument,
    *,
    reason: Annotated[str, typer.Option("--reason", help="Why; kept in the audit.")] = "",
    cluster: ClusterOption = None,
    dry_run: DryRunOption = False,
) -> None:
    """Give a node back that is drained or down, whoever took it out of service."""
    client = connect()
    _told(client.change_node(_cluster_of(client, node, cluster), node, "resume", reason=reason, dry_run=dry_run))


def columns(now: float) -> list[Column[Node]]:
    """The columns of a list of nodes, seen at ``now`` (seconds since the epoch)."""
    return [
        Column("cluster", lambda node: node.cluster, flexible=True),
        Column("name", lambda node: node.name),
        Column("state", lambda node: node.state, style=lambda node: _COLOURS[node.state]),
        Column("slurm", lambda node: node.slurm.state if node.slurm else None),
        Column("bad", lambda node: node.bad, lambda node: " ".join(node.bad) or "-", flexible=True, style=_alarm),
        Column("cpu", lambda node: node.cpu, lambda node: _percent(node.cpu), right=True, title="CPU"),
        Column("load", lambda node: node.load, lambda node: figure(node.load), right=True, spare=True),
        Column("memory_used", lambda node: node.memory_used, _memory, right=True, title="MEMORY"),
        Column("devices", lambda node: len(node.devices), right=True, spare=True),
        Column("jobs", lambda node: [job.name for job in node.jobs], lambda node: str(len(node.jobs)), right=True),
        Column("last_heard_at", lambda node: node.last_heard_at, lambda node: ago(node.last_heard_at, now), right=True),
        Column(
            "reason",
            lambda node: node.slurm.reason if node.slurm else None,
            lambda node: (node.slurm and node.slurm.reason_words) or "-",
            flexible=True,
            spare=True,
        ),
    ]


CHECKS: list[Column[NodeCheck]] = [
    Column("check", lambda check: check.name),
    Column("result", lambda check: check.result, style=lambda check: _RESULTS[check.result]),
    Column("severity", lambda check: check.severity, spare=True),
    Column("value", lambda check: check.value, lambda check: figure(check.value), right=True),
    Column("reason", lambda check: check.reason, flexible=True),
]
JOBS: list[Column[NodeJob]] = [
    Column("job", lambda job: job.name),
    Column("processes", lambda job: job.processes, right=True),
    Column("devices", lambda job: job.devices),
    Column("run", lambda job: job.run),
]


def facts(node: Node, now: float) -> list[tuple[str, str]]:
    """What is known about a node, as (name, words)."""
    slurm = node.slurm
    told = ""
    if slurm is not None:
        told = slurm.state + ("" if slurm.responding else ", no answer")
        told += f": {slurm.reason_words}" if slurm.reason_words else ""
    every = [
        ("cluster", node.cluster),
        ("since", f"{ago(node.since, now)} ({node.since})" if node.since else ""),
        ("heard", ago(node.last_heard_at, now) if node.last_heard_at else ""),
        ("slurm", told),
        ("reason", slurm.reason or "" if slurm and slurm.reason != slurm.reason_words else ""),
        (
            "cpu",
            f"{_percent(node.cpu)} of {node.cpus or '?'} CPUs, load {figure(node.load)}"
            if node.cpu is not None
            else "",
        ),
        ("memory", _memory(node) if node.memory_used is not None else ""),
        ("devices", ", ".join(str(device.get("name", "?")) for device in node.devices)),
        ("run", node.run or ""),
    ]
    return [(name, value) for name, value in every if value]


def _cluster_of(client: Client, node: str, cluster: str | None) -> str:
    """The cluster that was named, else the only one that has such a node."""
    if cluster is not None:
        return cluster
    found = [one for one in client.nodes() if one.name == node]
    if not found:
        raise NotFound(f"there is no node {node!r}", code="no_such_node", hint="`stepward nodes` lists them")
    if len(found) > 1:
        named = ", ".join(one.cluster for one in found)
        raise Conflict(f"{len(found)} clusters have a node {node!r}", code="ambiguous_name", hint=f"--cluster: {named}")
    return found[0].cluster


def _describe(node: Node, now: float) -> None:
    from rich.text import Text

    out = terminal()
    out.print(Text.assemble((safe(node.name), "bold"), "  ", (node.state, _COLOURS[node.state])), soft_wrap=True)
    for name, value in facts(node, now):
        out.print(Text(f"  {name:<9} {safe(value)}"), soft_wrap=True)
    if node.checks:
        print()
        write_table(CHECKS, node.checks)
    if node.jobs:
        print()
        write_table(JOBS, node.jobs)


def _told(done: NodeChanged) -> None:
    name, would = safe(done.node), "would be " if done.dry_run else ""
    print(f"node {name} {would}{'drained' if done.kind == 'drain' else 'given back'}")
    if done.kind == "resume":
        print(f"  it was {done.was.state}: {safe(done.was.reason or 'nobody said why')}")
    elif done.jobs:
        print(f"  its jobs go on to their end: {safe(', '.join(done.jobs))}")


def _alarm(node: Node) -> str:
    return "bold red" if node.bad else ""


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f} %"


def _memory(node: Node) -> str:
    if node.memory_used is None or node.memory_total is None:
        return "-"
    return f"{node.memory_used / 2**30:.1f} of {node.memory_total / 2**30:.1f} GiB"
