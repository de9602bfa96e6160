"""``stepward logs``: the output of a run, of one rank or of all, as it was or as it comes."""

import sys
from collections.abc import Iterable, Sequence
from typing import Annotated, NamedTuple

import typer

from stepward.cli.connection import RunArgument, connect, find_run
from stepward.cli.table import Column, Format, FormatOption, write_csv, write_json
from stepward.cli.text import plain, safe
from stepward.client.api import PAGE_LINES, Client
from stepward.errors import NotFound, UsageError
from stepward.model.resources import LogLine, LogStream

app = typer.Typer()


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
    sink = Sink(output, labelled=len(chosen) != 1 or (follow and rank is None), document=not follow)
    sink.write(by_time(shown))
    if follow:
        from stepward.cli.follow import Following

        Following(client, found, sink, (rank, stream, attempt), known=every, shown=shown).until_the_end()


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


def _lines(client: Client, run: str, stream: str, count: int, search: str | None) -> list[LogLine]:
    """The last ``count`` lines (that match)."""
    if count == 0:
        return []
    if count <= PAGE_LINES:
        return client.log_page(run, stream, tail=count, q=search).lines
    last = client.log_page(run, stream, tail=1).last_n or 0
    first = 1 if search else max(last - count + 1, 1)
    return list(client.log_lines(run, stream, from_n=first, q=search))[-count:]


def _what_there_is(streams: list[LogStream]) -> str:
    if not streams:
        return "output is kept by `stepward run` and by capture_output=True"
    return "there is: " + ", ".join(f"attempt {one.attempt} {label(one)}" for one in streams[:8])


class Sink:
    """Where lines go: text, JSON or CSV on stdout; in one document, or line by line as they come.

    Args:
        labelled: each line says which stream it is of.
    """

    def __init__(self, output: Format, *, labelled: bool, document: bool) -> None:
        self._output, self._labelled, self._document = output, labelled, document
        self._begun = False

    def write(self, lines: Sequence[Printed]) -> None:
        """Print lines."""
        if self._output is Format.CSV:
            write_csv(_COLUMNS, lines, head=not self._begun)
        elif self._output is Format.JSON and self._document:
            write_json([_record(line) for line in lines])
        else:
            for line in lines:
                self._write_line(line)
        self._begun = True
        sys.stdout.flush()

    def _write_line(self, printed: Printed) -> None:
        if self._output is Format.JSON:
            write_json(_record(printed), indent=0)
        else:
            prefix = f"[{safe(label(printed.stream))}] " if self._labelled else ""
            print(f"{prefix}{words(printed.line)}")


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
