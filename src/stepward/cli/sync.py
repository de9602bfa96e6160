"""``stepward sync``: delivers what is left in the spool of this machine, and says what remains and why."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from stepward.cli.figures import size
from stepward.cli.table import Format, FormatOption, write_json
from stepward.cli.text import safe
from stepward.errors import OUTCOMES, NotFound, Unavailable, UsageError
from stepward.model.resources import instant
from stepward.settings import Settings, load

if TYPE_CHECKING:
    from stepward.spool.discard import Waiting
    from stepward.spool.sync import SyncReport

app = typer.Typer()


@app.command("sync")
def sync_spool(
    run: Annotated[str | None, typer.Option(help="Only this run: its id, or the key that names it.")] = None,
    timeout: Annotated[
        float | None, typer.Option(min=0.0, help="Seconds to try. Default: until done or hopeless.")
    ] = None,
    discard: Annotated[
        str | None,
        typer.Option(
            metavar="RUN", help="Throw away what waits for this run, which was deleted on the server; asks first."
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    output: FormatOption = Format.TABLE,
) -> None:
    """Deliver what runs left in the spool of this machine; ends with 75 where something remains."""
    from stepward.model.identity import run_id
    from stepward.spool.sync import sync

    settings = load()
    if run and discard:
        raise UsageError("--run and --discard both name a run", code="bad_option", hint="give one of them")
    named = run or discard
    report = sync(settings, run=named and run_id(settings.project, named), timeout_s=timeout)
    if discard:
        _discard(settings, run_id(settings.project, discard), report, yes=yes)
    if output is Format.JSON:
        write_json(report)
    elif output is Format.CSV:
        _print_csv(report)
    else:
        print("\n".join(lines(report)))
    if report.left_bytes or report.busy:
        raise typer.Exit(OUTCOMES[Unavailable][1])


def lines(report: "SyncReport") -> list[str]:
    """What was delivered, what remains, and why."""
    told = [f"delivered {size(report.bytes)} of {len(report.runs)} runs in {report.frames} frames"]
    if not report.runs and not report.busy:
        told = ["nothing to deliver"]
    if report.left_bytes:
        told.append(f"{size(report.left_bytes)} remain: {safe(report.problem) or 'no reason known'}")
    if report.discarded_bytes:
        told.append(f"{size(report.discarded_bytes)} thrown away")
    for run in report.deleted if report.left_bytes else ():
        told.append(f"{run} was deleted on the server; its records go with: stepward sync --discard {run}")
    if report.busy:
        told.append(f"another process delivers {', '.join(map(safe, report.busy))}")
    if report.gaps:
        told.append(f"{report.gaps} damaged stretches were passed over; the run shows them as gaps")
    if report.refused:
        told.append(f"{report.refused} records were refused for good and kept aside in the spool as *.refused")
    return told


def _discard(settings: Settings, run: str, report: "SyncReport", *, yes: bool) -> None:
    """Throw away what the server refuses of a deleted run, once somebody has seen what it is and said yes."""
    from stepward.spool.discard import discard, waiting

    if run not in report.deleted:
        if report.busy or report.left_bytes:
            return
        raise NotFound(
            f"nothing waits here for {run} that the server refuses as deleted",
            code="nothing_to_discard",
            hint="--discard is for runs that were deleted on the server; all else is delivered by stepward sync",
        )
    goes = [one for one in waiting(settings, run) if one.bytes]
    for one in goes:
        print(_described(one), file=sys.stderr)
    if not yes:
        if not sys.stdin.isatty():
            raise UsageError("nobody can be asked here", code="not_confirmed", hint="--yes throws them away unasked")
        if not typer.confirm(f"Throw away these records of {run} for good?", err=True):
            return
    report.discarded_bytes = discard(settings, run) or 0
    report.left_bytes -= min(report.left_bytes, report.discarded_bytes)
    if not report.left_bytes:
        report.problem = ""


def _described(one: "Waiting") -> str:
    who = one.kind if one.rank is None else f"{one.kind} {one.rank}"
    on = f" on {safe(one.node)}" if one.node else ""
    still = "; still writes, and stays" if one.writing else ""
    return f"{who}{on}, begun {instant(one.created_at)}: {one.points} points in {one.records} records, {size(one.bytes)}{still}"


def _print_csv(report: "SyncReport") -> None:
    import csv

    fields = report.__struct_fields__
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(fields)
    values = [getattr(report, field) for field in fields]
    writer.writerow([safe(" ".join(value)) if isinstance(value, list) else value for value in values])
