"""``stepward goodput``: where the time of a run went."""

import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import IO, Annotated

import typer

from stepward.cli.connection import ProjectOption, connect, find_run
from stepward.cli.table import Format, FormatOption, write_csv, write_json
from stepward.cli.text import safe
from stepward.cli.waterfall import CSV, print_fleet, print_reliability, print_waterfall, rows
from stepward.errors import UsageError
from stepward.goodput.report import Report, replay_reference
from stepward.goodput.report import replay as replay_lines

app = typer.Typer(help="Show where the time of a run went.", no_args_is_help=True)


class TimelineSource(StrEnum):
    """What the lines of a timeline are."""

    EVENTS = "events"
    REFERENCE = "reference"


@app.callback()
def _group() -> None:
    """Show where the time of a run went."""


@app.command()
def show(
    run: Annotated[
        str | None, typer.Argument(metavar="[RUN]", help="Id or unique name of a run. Default: all, side by side.")
    ] = None,
    project: ProjectOption = None,
    since: Annotated[str, typer.Option(metavar="SPAN", help="Only runs alive in the last 24h, 7d, ...")] = "7d",
    output: FormatOption = Format.TABLE,
) -> None:
    """Show where the time of a run went, or the device time of many."""
    client = connect()
    if run is None:
        print_fleet(client.fleet_goodput(project=project, since=since), output)
        return
    found = client.goodput(find_run(client, run).id)
    if output is Format.TABLE:
        print(safe(found.name) + ("" if found.exact else " (provisional)"))
        print_waterfall(found.report)
        print_reliability(found)
    elif output is Format.JSON:
        write_json(found)
    else:
        print_report(found.report, output)


@app.command()
def replay(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Timeline in JSON lines, `-` for stdin.")],
    now: Annotated[
        float | None, typer.Option(metavar="T", help="End of an open run's wall, in seconds as the timeline's `t`.")
    ] = None,
    source: Annotated[
        TimelineSource, typer.Option(help="Events of docs/goodput.md, or log entries of ml-goodput-measurement.")
    ] = TimelineSource.EVENTS,
    devices: Annotated[int | None, typer.Option(min=1, help="Devices, where the source does not tell.")] = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """Account for every second of a timeline; needs no server."""
    if now is not None and not math.isfinite(now):
        raise UsageError("--now is not a finite number", code="bad_instant", hint="seconds, as in the timeline's `t`")
    with _opened(file) as lines:
        report = (
            replay_reference(lines, now, devices) if source is TimelineSource.REFERENCE else replay_lines(lines, now)
        )
    print_report(report, output)


def print_report(report: Report, output: Format) -> None:
    """Print a ledger in the format asked for."""
    if output is Format.JSON:
        write_json(report)
    elif output is Format.CSV:
        write_csv(CSV, rows(report, empty=True))
    else:
        print_waterfall(report)


@contextmanager
def _opened(path: str) -> Iterator[IO[bytes]]:
    if path == "-":
        yield sys.stdin.buffer
        return
    try:
        with open(path, "rb") as file:
            yield file
    except OSError as error:
        raise UsageError(
            f"{path} can't be read: {error.strerror}", code="unreadable_file", hint="a file or -"
        ) from None
