"""``stepward logs``: the output of a run, of one rank or of all, as it was or as it comes."""

from collections.abc import Iterable, Iterator
from typing import Annotated, NamedTuple

import typer

from stepward.cli.connection import RunArgument, connect, find_run
from stepward.cli.table import Column, Format, FormatOption, write_csv, write_json
from stepward.cli.text import plain, safe
from stepward.client.api import Client
from stepward.errors import NotFound, UsageError
from stepward.model.resources import LogLine, LogStream, LogsUpdate, Run, RunUpdate

app = typer.Typer()

PAGE = 5000
"""Lines a request at most (docs/api.md)."""
_QUIET_S = 2.0
"""How long after its end a followed run is still listened to: its last lines arrive with its exit, or just after."""


class Printed(NamedTuple):
    """A line and the stream that it is of."""

    stream: LogStream
    line: LogLine


@app.command()
def logs(
    *,
    run: RunArgument,
    rank: Annotated[int | None, typer.Option(help="Only this rank.")] = None,
    stream: Annotated[str | None, typer.Option(help="Only this stream: stdout, stderr or a file's path.")] = None,
    attempt: Annotated[int | None, typer.Option(help="Number of the attempt. Default: the newest with output.")] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the run has ended.")] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="Lines of each stream, the newest.")] = 200,
    search: Annotated[
        str | None,
        typer.Option("--search", "-s", help="Only lines with this text (any case), or /regular expression/."),
    ] = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """Print the output of a run; with several streams each line says which it is of."""
    client = connect()
    found = find_run(client, run)
    if follow and search:
        raise UsageError("--search looks back, --follow forward", code="bad_option", hint="use one of them")
    every = client.log_streams(found.id)
    chosen = choose(every, rank, stream, attempt)
    if not chosen and (every or not follow):
        raise NotFound(f"{found.name} has no such output", code="no_output", hint=_what_there_is(every))
    shown = [Printed(one, line) for one in chosen for line in _lines(client, found.id, one.id, lines, search)]
    _print(by_time(shown), output, many=len(chosen) != 1 or (follow and rank is None), document=not follow)
    if follow:
        _follow(client, found, {line.stream.id: _next_n(line) for line in shown}, (rank, stream, attempt), output)


def choose(streams: list[LogStream], rank: int | None, stream: str | None, attempt: int | None) -> list[LogStream]:
    """The streams that the options name; of the newest attempt that has any where none is named."""
    found = [one for one in streams if rank in (None, one.rank) and stream in (None, one.stream)]
    if attempt is None:
        attempt = max((one.attempt for one in found), default=None)
    return [one for one in found if one.attempt == attempt]


def by_time(lines: Iterable[Printed]) -> list[Printed]:
    """Lines of several streams in the order of their clocks; a line without a clock follows the one before it."""
    keyed: list[tuple[str, int, Printed]] = []
    last: dict[str, str] = {}
    for place, printed in enumerate(lines):
        at = printed.line.at or last.get(printed.stream.id, "")
        last[printed.stream.id] = at
        keyed.append((at, place, printed))
    return [printed for _, _, printed in sorted(keyed, key=lambda item: item[:2])]


def label(stream: LogStream) -> str:
    """Where a line is from, as its prefix."""
    who = f"rank {stream.rank}" if stream.rank is not None else stream.node or "wrapper"
    return who if stream.stream == "stdout" else f"{who} {stream.stream}"


def words(line: LogLine) -> str:
    """The text of a line, with what is not in it said behind it."""
    text = plain(line.text)
    if line.truncated:
        text += f" … {line.truncated} more characters"
    return f"{text}  (× {line.repeats})" if line.repeats > 1 else text


def _lines(client: Client, run: str, stream: str, count: int, search: str | None) -> Iterator[LogLine]:
    if count and search is None:
        if count <= PAGE:
            yield from client.log_page(run, stream, tail=count).lines
            return
        last = client.log_page(run, stream, tail=1).last_n or 0
        yield from list(client.log_lines(run, stream, from_n=max(last - count + 1, 1)))[-count:]
    elif count:
        yield from list(client.log_lines(run, stream, q=search))[-count:]


def _next_n(printed: Printed) -> int:
    return (printed.line.n_last or printed.line.n) + 1


def _what_there_is(streams: list[LogStream]) -> str:
    if not streams:
        return "output is kept by `stepward run` and by capture_output=True"
    return "there is: " + ", ".join(f"attempt {one.attempt} {label(one)}" for one in streams[:8])


def _print(lines: Iterable[Printed], output: Format, *, many: bool, document: bool) -> None:
    """Print lines; as one document, or a JSON object a line while following."""
    if output is Format.CSV:
        write_csv(_COLUMNS, list(lines))
    elif output is Format.JSON:
        found = [_record(line) for line in lines]
        if document:
            write_json(found)
        else:
            for record in found:
                write_json(record, indent=0)
    else:
        for printed in lines:
            prefix = f"[{safe(label(printed.stream))}] " if many else ""
            print(f"{prefix}{words(printed.line)}", flush=not document)


def _record(printed: Printed) -> dict[str, object]:
    stream, line = printed
    return {
        "stream": stream.stream,
        "attempt": stream.attempt,
        "rank": stream.rank,
        "node": stream.node,
        "n": line.n,
        "at": line.at,
        "text": line.text,
        "repeats": line.repeats,
        "truncated": line.truncated,
    }


_COLUMNS: list[Column[Printed]] = [
    Column(name, lambda printed, name=name: _record(printed)[name])  # type: ignore[misc]
    for name in ("attempt", "rank", "node", "stream", "n", "at", "repeats", "truncated", "text")
]
Wanted = tuple[int | None, str | None, int | None]


def _follow(client: Client, run: Run, seen: dict[str, int], wanted: Wanted, output: Format) -> None:
    """Print what comes until the run has ended; lines are fetched by number, so that none is missed or printed twice."""
    live = client.live(run=[run.id])
    ended = run.state.terminal
    while True:
        update = live.next(_QUIET_S)
        if isinstance(update, RunUpdate) and update.run.id == run.id:
            ended = update.run.state.terminal
        if update is None and ended:
            return
        if update is None or isinstance(update, LogsUpdate) or type(update).__name__ == "Opened":
            _print_new(client, run.id, seen, wanted, output)


def _print_new(client: Client, run: str, seen: dict[str, int], wanted: Wanted, output: Format) -> None:
    streams = choose(client.log_streams(run), *wanted)
    new = []
    for stream in streams:
        first = seen.get(stream.id, 1)
        if stream.lines < first:
            continue
        lines = [Printed(stream, line) for line in client.log_lines(run, stream.id, from_n=first)]
        seen[stream.id] = _next_n(lines[-1]) if lines else first
        new += lines
    _print(by_time(new), output, many=wanted[0] is None, document=False)
