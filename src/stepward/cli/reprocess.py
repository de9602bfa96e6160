"""``stepward reprocess``: judge stored runs by the detectors and rules of today, and say what that changes."""

import sys
import time
from typing import Annotated, NamedTuple

import typer

from stepward.cli.connection import connect, find_run
from stepward.cli.table import Column, Format, FormatOption, show
from stepward.cli.text import safe
from stepward.client.api import Client
from stepward.errors import CommandFailed
from stepward.model.resources import Reprocessing, RunEvent

app = typer.Typer()

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 2.0


class Difference(NamedTuple):
    """One event that is new, gone or told otherwise; ``was`` where it was there before."""

    run: str
    what: str
    event: RunEvent
    was: RunEvent | None


@app.command()
def reprocess(
    *,
    run: Annotated[str | None, typer.Argument(metavar="RUN", help="Id, beginning of an id, or unique name.")] = None,
    project: Annotated[str | None, typer.Option("--project", "-p", help="All runs of this project instead.")] = None,
    since: Annotated[
        str | None, typer.Option(help="Of a project, only runs that began within: 24h, 7d.", metavar="SPAN")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would change, and change nothing.")] = False,
    output: FormatOption = Format.TABLE,
) -> None:
    """Judge stored runs again; only what detectors had said is replaced."""
    if (run is None) == (project is None) or (since is not None and project is None):
        raise typer.BadParameter("name a RUN, or a --project with or without --since")
    client = connect()
    jobs = [_judged(client, one, dry_run=dry_run) for one in _runs(client, run, project, since)]
    found = [difference for job in jobs for difference in differences(job)]
    show(output, COLUMNS, found, document=jobs)
    would = "would change" if dry_run else "changed"
    kept = sum(job.unchanged for job in jobs)
    if output is Format.TABLE:
        print(f"{len(jobs)} runs judged; {would}: {len(found)} events, as before: {kept}", file=sys.stderr)


def differences(job: Reprocessing) -> list[Difference]:
    """What a job changes, by time."""
    found = [Difference(job.run, "added", event, None) for event in job.added]
    found += [Difference(job.run, "removed", event, event) for event in job.removed]
    found += [Difference(job.run, "changed", change.now, change.was) for change in job.changed]
    return sorted(found, key=lambda one: (one.event.started_at, one.event.id))


COLUMNS: list[Column[Difference]] = [
    Column("run", lambda one: one.run),
    Column("what", lambda one: one.what),
    Column("type", lambda one: one.event.type),
    Column("certainty", lambda one: one.event.certainty),
    Column("was", lambda one: one.was.certainty if one.was else None),
    Column("step", lambda one: one.event.step, right=True),
    Column("ranks", lambda one: one.event.ranks, lambda one: " ".join(map(str, one.event.ranks[:4])) or "-"),
    Column("title", lambda one: one.event.title, flexible=True),
]


def _runs(client: Client, run: str | None, project: str | None, since: str | None) -> list[str]:
    if run is not None:
        return [find_run(client, run).id]
    from stepward.cli.figures import seconds_of
    from stepward.cli.token import span

    begin = 0.0 if since is None else time.time() - span(since)
    return [one.id for one in client.runs(project=project) if one.started_at and seconds_of(one.started_at) >= begin]


def _judged(client: Client, run: str, *, dry_run: bool) -> Reprocessing:
    job, pause = client.reprocess(run, dry_run=dry_run), FIRST_PAUSE_S
    while job.state in ("queued", "running"):
        time.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE_S)
        job = client.reprocessing(run, job.id)
    if job.state == "failed":
        raise CommandFailed(f"{safe(run)}: {job.error}", code="reprocess_failed", hint="see the server's log")
    return job
