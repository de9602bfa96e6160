"""``stepward diagnose``: why a run failed or is slow, from its logs, without a server.

Gathers inputs (paths, a run of a server, a Slurm job) and prints the document; the answer is ``stepward.diagnose``'s.
"""

import os
import re
import tempfile
from contextlib import ExitStack, suppress
from datetime import UTC, timedelta, timezone, tzinfo
from typing import Annotated

import typer

from stepward.cli.slurm_inputs import Asked, ask_slurm
from stepward.cli.table import Format, FormatOption, write_csv, write_json
from stepward.cli.verdict import CSV, print_diagnosis
from stepward.diagnose.document import Document, Unknown
from stepward.diagnose.engine import diagnose as diagnose_sources
from stepward.diagnose.sources import Source, discover
from stepward.errors import NotFound, PermissionDenied, UsageError

app = typer.Typer()


@app.command()
def diagnose(
    paths: Annotated[
        list[str] | None, typer.Argument(metavar="[PATH]...", help="Logs: files, folders, `-` for stdin.")
    ] = None,
    *,
    scheduler: Annotated[
        list[str] | None, typer.Option(metavar="F", help="Text of sacct -P, scontrol, squeue or kubectl; repeatable.")
    ] = None,
    metrics: Annotated[
        list[str] | None,
        typer.Option(metavar="F", help="Metrics: JSON lines, CSV, Prometheus, YAML, prose; repeatable."),
    ] = None,
    kernel: Annotated[list[str] | None, typer.Option(metavar="F", help="A kernel log; repeatable.")] = None,
    stacks: Annotated[list[str] | None, typer.Option(metavar="F", help="Stacks as of py-spy dump; repeatable.")] = None,
    exits: Annotated[
        list[str] | None,
        typer.Option("--exit", metavar="RANK=CODE", help="A rank's exit code, the first to end first."),
    ] = None,
    run: Annotated[
        str | None,
        typer.Option(
            metavar="RUN", help="A run of the server: its diagnosis; with other inputs, its output beside them."
        ),
    ] = None,
    slurm: Annotated[
        str | None, typer.Option(metavar="JOB", help="Ask Slurm about a job, and read its output.")
    ] = None,
    rank_pattern: Annotated[
        str | None, typer.Option(metavar="REGEX", help="How lines name their rank: group `rank`, or the first.")
    ] = None,
    tz: Annotated[
        str | None, typer.Option(metavar="ZONE", help="Zone of clocks without one: +02:00 or Europe/Berlin; else UTC.")
    ] = None,
    output: FormatOption = Format.TABLE,
    exit_code: Annotated[bool, typer.Option("--exit-code", help="Exit with 1 unless the outcome is healthy.")] = False,
) -> int:
    """Say what ended or hurts a run: layer, cause, node, evidence, what to do. Needs no server."""
    given = [("scheduler", scheduler), ("metrics", metrics), ("kernel", kernel), ("stacks", stacks)]
    ends = [_exit(text) for text in exits or []]
    pattern, zone = _pattern(rank_pattern), _zone(tz)
    if not (paths or ends or run or slurm or any(files for _, files in given)):
        raise UsageError(
            "nothing to read", code="no_input", hint="stepward diagnose LOGS..., or --run RUN, or --slurm JOB"
        )
    if run and not (paths or ends or slurm or pattern or tz or any(files for _, files in given)):
        found = _of_server(run)
        if found is not None:
            _print(found, output)
            return int(exit_code and found.outcome != "healthy")
    with ExitStack() as stack:
        sources = discover(paths or [])
        for kind, files in given:
            sources += [Source(path, os.path.basename(path), alone=True, kind=kind) for path in files or []]
        missing: list[str] = []
        if run or slurm:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="stepward-diagnose-"))
            if run:
                _fetch_run(run, folder)
            asked = ask_slurm(slurm, folder) if slurm else Asked([], [])
            sources += [*asked.sources, *discover([folder])]
            missing = asked.missing
        document = diagnose_sources(sources, zone=zone, rank_pattern=pattern, exits=ends)
        document.unknown += [Unknown("slurm", why) for why in missing]
    _print(document, output)
    return int(exit_code and document.outcome != "healthy")


def _print(document: Document, output: Format) -> None:
    if output is Format.JSON:
        write_json(document)
    elif output is Format.CSV:
        write_csv(CSV, document.causes)
    else:
        print_diagnosis(document)


def _exit(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d{1,7})=(-?\d{1,5})", text)
    if not found:
        raise UsageError(f"--exit {text}: not RANK=CODE", code="bad_exit", hint="as in --exit 3=137")
    return int(found[1]), int(found[2])


def _pattern(text: str | None) -> re.Pattern[str] | None:
    try:
        found = re.compile(text) if text else None
    except re.error as error:
        raise UsageError(
            f"--rank-pattern: {error}", code="bad_pattern", hint=r"as in --rank-pattern 'r(\d+)\|'"
        ) from None
    if found is not None and not found.groups:
        raise UsageError("--rank-pattern has no group", code="bad_pattern", hint=r"as in --rank-pattern 'r(\d+)\|'")
    return found


def _zone(text: str | None) -> tzinfo:
    if not text:
        return UTC
    if found := re.fullmatch(r"([+-])(\d\d):?(\d\d)", text):
        minutes = int(found[2]) * 60 + int(found[3])
        if minutes < 24 * 60:
            return timezone(timedelta(minutes=minutes if found[1] == "+" else -minutes))
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(text)
    except (KeyError, ValueError, OSError):
        raise UsageError(f"--tz {text}: no such zone", code="bad_zone", hint="as in +02:00 or Europe/Berlin") from None


def _of_server(named: str) -> Document | None:
    """The diagnosis that the server has of a run that is over, or makes now; None where the caller may not have one made."""
    from stepward.cli.connection import connect, find_run

    client = connect()
    run = find_run(client, named)
    newest = max((attempt.number for attempt in run.attempts), default=None)
    with suppress(NotFound):
        stored = client.diagnosis(run.id)
        if run.state.terminal and stored.attempt == newest:
            return stored.document
    try:
        return client.make_diagnosis(run.id).document
    except PermissionDenied:
        return None


def _fetch_run(named: str, folder: str) -> None:
    """Write the output of a run of the server as one file a stream, below the folder of its node."""
    from stepward.cli.connection import connect, find_run

    client = connect()
    run = find_run(client, named)
    for number, stream in enumerate(client.log_streams(run.id)):
        place = os.path.join(folder, re.sub(r"[^\w.-]", "_", stream.node) or "unknown")
        os.makedirs(place, exist_ok=True)
        rank = f"rank{stream.rank}." if stream.rank is not None else ""
        with open(os.path.join(place, f"{rank}{stream.stream}.{number}.log"), "w", encoding="utf-8") as file:
            file.writelines(f"{line.text}\n" for line in client.log_lines(run.id, stream.id))
