"""``stepward ls``: the runs, newest first."""

import sys
import time
from typing import Annotated

import typer

from stepward.cli.connection import ProjectOption, connect
from stepward.cli.figures import ago, figure
from stepward.cli.table import Column, Format, FormatOption, show
from stepward.model.resources import Run
from stepward.model.states import State

app = typer.Typer()

COLOURS = {
    State.RUNNING: "green",
    State.FINISHED: "blue",
    State.QUEUED: "cyan",
    State.STARTING: "cyan",
    State.WAITING: "cyan",
    State.HUNG: "bold yellow",
    State.PREEMPTED: "yellow",
    State.CANCELLED: "yellow",
    State.LOST: "bold red",
}
"""Colours of states on a terminal; every other state is a bad end and red."""
SHOWN_ID = 18
"""Characters of an id in a table: ``run_``, the ten of the clock and four random ones."""


@app.command()
def ls(
    *,
    project: ProjectOption = None,
    filter: Annotated[
        str | None,
        typer.Option("--filter", "-f", help="For example: state = running AND metric.loss < 2 AND tag:ablation"),
    ] = None,
    sort: Annotated[
        str, typer.Option(help="Column or metric.<name>; a leading - puts the highest first.")
    ] = "-started_at",
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Runs at most.")] = 50,
    metric: Annotated[
        list[str] | None, typer.Option("--metric", "-m", help="Latest value as a column; repeatable.")
    ] = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """List runs of all projects, newest first."""
    asked = ["*"] if output is Format.JSON else metric or []
    runs = list(connect().runs(project=project, filter=filter, sort=sort, limit=limit + 1, metrics=asked))
    show(output, columns(time.time(), metric or []), runs[:limit], empty="no runs" + (" match" if filter else " yet"))
    if len(runs) > limit:
        print(f"these are the first {limit}; --limit shows more", file=sys.stderr)


def columns(now: float, metrics: list[str]) -> list[Column[Run]]:
    """The columns of a list of runs, seen at ``now`` (seconds since the epoch)."""
    return [
        Column("id", lambda run: run.id, lambda run: run.id[:SHOWN_ID]),
        Column("name", lambda run: run.name, flexible=True),
        Column("project", lambda run: run.project, flexible=True, spare=True),
        Column("state", lambda run: run.state.value, style=colour),
        Column("attempts", lambda run: len(run.attempts), right=True, spare=True),
        Column("step", lambda run: run.step, right=True),
        *(_metric_column(name) for name in metrics),
        Column("started_at", lambda run: run.started_at, lambda run: ago(run.started_at, now), right=True),
        Column("ended_at", lambda run: run.ended_at, lambda run: ago(run.ended_at, now), right=True, spare=True),
        Column("reason", lambda run: run.state_reason, flexible=True, spare=True),
        Column("tags", lambda run: run.tags, lambda run: " ".join(run.tags), flexible=True, spare=True),
    ]


def colour(run: Run) -> str:
    """Style of the state of a run."""
    return COLOURS.get(run.state, "red")


def _metric_column(name: str) -> Column[Run]:
    def value(run: Run) -> object:
        latest = run.latest.get(name)
        return None if latest is None else latest.value

    def shown(run: Run) -> str:
        latest = run.latest.get(name)
        return figure(None if latest is None else latest.value)

    return Column(name, value, shown, right=True, title=name)
