"""``stepward show``: one run, with its attempts and latest values."""

import time
from typing import NamedTuple

import typer

from stepward.cli.connection import RunArgument, connect, find_run
from stepward.cli.figures import ago, between, figure
from stepward.cli.ls import COLOURS, columns
from stepward.cli.table import Column, Format, FormatOption, terminal, write_csv, write_json, write_table
from stepward.cli.text import plain, safe
from stepward.client.api import Client
from stepward.diagnose.export import brief
from stepward.errors import NotFound
from stepward.model.resources import Attempt, LatestValue, Run, Source
from stepward.model.states import State

app = typer.Typer()

LAST_LINES = 20
"""Lines of a traceback, or of output, that a bad end is shown with."""
SAMPLED = "system/"
"""Beginning of the names of metrics that are sampled, not logged by the user."""


class Latest(NamedTuple):
    """The newest value of a metric."""

    metric: str
    point: LatestValue


@app.command("show")
def show_run(run: RunArgument, output: FormatOption = Format.TABLE) -> None:
    """Show a run: state, attempts, latest values."""
    client = connect()
    found = find_run(client, run)
    now = time.time()
    if output is Format.JSON:
        write_json(found)
    elif output is Format.CSV:
        write_csv(columns(now, sorted(found.latest)), [found])
    else:
        _describe(found, now, client.config(found.id).system.get("job"))
        _diagnosis(client, found)
        if found.attempts:
            print()
            write_table(attempt_columns(now), found.attempts)
        if found.latest:
            print()
            write_table(LATEST, latest_rows(found))
        if found.state.terminal and found.state is not State.FINISHED:
            for heading, lines in last_words(client.sources(found.id)):
                print("\n".join(["", heading, *lines]))


def latest_rows(run: Run) -> list[Latest]:
    """Latest values by name, what the user logged before what was sampled."""
    ordered = sorted(run.latest, key=lambda metric: (metric.startswith(SAMPLED), metric))
    return [Latest(metric, run.latest[metric]) for metric in ordered]


def _step(row: Latest) -> str:
    """The step; that of a sampled metric only counts samples, which says nothing to people."""
    return "-" if row.metric.startswith(SAMPLED) else str(row.point.step)


LATEST: list[Column[Latest]] = [
    Column("metric", lambda row: row.metric, flexible=True),
    Column("step", lambda row: row.point.step, _step, right=True),
    Column("value", lambda row: row.point.value, lambda row: figure(row.point.value), right=True),
]


def attempt_columns(now: float) -> list[Column[Attempt]]:
    """The columns of a list of attempts, seen at ``now`` (seconds since the epoch)."""
    return [
        Column("number", lambda attempt: attempt.number, title="ATTEMPT", right=True),
        Column("state", lambda attempt: attempt.state.value, style=lambda attempt: COLOURS.get(attempt.state, "red")),
        Column("ended_by", _ended_by, title="EXIT"),
        Column("ranks", lambda attempt: attempt.ranks, right=True),
        Column(
            "nodes",
            lambda attempt: attempt.nodes,
            lambda attempt: " ".join(attempt.nodes) or "-",
            flexible=True,
            spare=True,
        ),
        Column("steps", _steps, right=True),
        Column(
            "started_at", lambda attempt: attempt.started_at, lambda attempt: ago(attempt.started_at, now), right=True
        ),
        Column("took", lambda a: between(a.started_at, a.ended_at, now), right=True),
        Column("reason", lambda attempt: attempt.reason, flexible=True),
    ]


def last_words(sources: list[Source]) -> list[tuple[str, list[str]]]:
    """What the sources of the newest attempt said last, where it was not a good end: a heading and lines of each."""
    newest = max((source.attempt for source in sources), default=0)
    told = []
    for source in sources:
        lines = (source.traceback or "").splitlines() or source.tail
        if source.attempt == newest and source.state is not State.FINISHED and lines:
            who = source.kind.value if source.rank is None else f"rank {source.rank}"
            heading = f"last words of {who} on {source.node or 'an unknown node'} ({source.state.value})"
            told.append((safe(heading), [f"  {plain(line)}" for line in lines[-LAST_LINES:]]))
    return told


def job_words(job: object) -> str:
    """A scheduler's job in words: ``slurm 42 of cluster lab, partition main, account a, user u``."""
    if not isinstance(job, dict) or "id" not in job:
        return ""
    head = f"{job.get('system', '')} {job['id']}" + (f" of cluster {job['cluster']}" if job.get("cluster") else "")
    return ", ".join([head, *(f"{name} {job[name]}" for name in ("partition", "account", "user") if job.get(name))])


def _ended_by(attempt: Attempt) -> str:
    return attempt.signal or ("-" if attempt.exit_code is None else f"exit {attempt.exit_code}")


def _steps(attempt: Attempt) -> str:
    if attempt.last_step is None:
        return "-"
    return f"{attempt.first_step}–{attempt.last_step}"


def _describe(run: Run, now: float, job: object) -> None:
    """The head of the answer: a line a fact; facts that say nothing are left out."""
    from rich.text import Text

    out = terminal()
    out.print(
        Text.assemble(
            (safe(run.name), "bold"),
            "  ",
            (run.state.value, COLOURS.get(run.state, "red")),
            f"  {safe(run.state_reason or '')}",
        ),
        soft_wrap=True,
    )
    for name, value in facts(run, now, job):
        out.print(Text(f"  {name:<9} {safe(value)}"), soft_wrap=True)


def _diagnosis(client: Client, run: Run) -> None:
    """The newest diagnosis in three lines; ``stepward diagnose --run`` prints the whole."""
    try:
        found = client.diagnosis(run.id)
    except NotFound:
        return
    lines = brief(found.document)
    if not lines:
        return
    from rich.text import Text

    out = terminal()
    print()
    out.print(Text(f"diagnosis of attempt {found.attempt}: {found.document.outcome}", style="bold"), soft_wrap=True)
    for name, value in lines:
        out.print(Text(f"  {name:<9} {safe(value)}"), soft_wrap=True)


def facts(run: Run, now: float, job: object = None) -> list[tuple[str, str]]:
    """What is known about a run, as (name, words); ``job`` is the scheduler's object of its configuration."""
    lost = [f"{run.pending} pending" if run.pending else "", f"{run.dropped} dropped" if run.dropped else ""]
    lost.append(f"{run.gaps} gaps" if run.gaps else "")
    every = [
        ("id", run.id),
        ("project", run.project),
        ("kind", run.kind.value),
        ("job", job_words(job)),
        ("tags", " ".join(run.tags)),
        ("notes", run.notes),
        ("step", "" if run.step is None else str(run.step)),
        ("started", f"{ago(run.started_at, now)} ({run.started_at})" if run.started_at else ""),
        ("took", between(run.started_at, run.ended_at, now) if run.started_at else ""),
        ("heard", "" if run.state.terminal else ago(run.last_seen_at, now)),
        ("points", ", ".join(part for part in lost if part)),
    ]
    return [(name, value) for name, value in every if value]
