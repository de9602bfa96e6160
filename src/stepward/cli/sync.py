"""``stepward sync``: delivers what is left in the spool of this machine, and says what remains and why."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from stepward.cli.figures import size
from stepward.cli.table import Format, FormatOption, write_json
from stepward.cli.text import safe
from stepward.errors import OUTCOMES, Unavailable
from stepward.settings import load

if TYPE_CHECKING:
    from stepward.spool.sync import SyncReport

app = typer.Typer()


@app.command("sync")
def sync_spool(
    run: Annotated[str | None, typer.Option(help="Only this run: its id, or the key that names it.")] = None,
    timeout: Annotated[
        float | None, typer.Option(min=0.0, help="Seconds to try. Default: until done or hopeless.")
    ] = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """Deliver what runs left in the spool of this machine; ends with 75 where something remains."""
    from stepward.model.identity import run_id
    from stepward.spool.sync import sync

    settings = load()
    report = sync(settings, run=run and run_id(settings.project, run), timeout_s=timeout)
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
    if report.busy:
        told.append(f"another process delivers {', '.join(map(safe, report.busy))}")
    if report.gaps:
        told.append(f"{report.gaps} damaged stretches were passed over; the run shows them as gaps")
    if report.refused:
        told.append(f"{report.refused} records were refused for good and kept aside in the spool as *.refused")
    return told


def _print_csv(report: "SyncReport") -> None:
    import csv

    fields = report.__struct_fields__
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(fields)
    values = [getattr(report, field) for field in fields]
    writer.writerow([safe(" ".join(value)) if isinstance(value, list) else value for value in values])
