"""Streams of the log store as sources of a diagnosis: lines keep the numbers that they have there."""

from collections.abc import Iterable, Iterator
from itertools import chain, dropwhile
from typing import NamedTuple

from stepward.diagnose.sources import CHUNK, LONGEST_LINE, Source
from stepward.errors import StepwardError
from stepward.model.resources import LogStream
from stepward.store.logs import LogStore
from stepward.store.logs.read import RawLine

WHOLE_BYTES = 32 << 20
"""Output of all streams together that is read whole; beyond, each gets its part of that, from its head and its tail."""
HEAD_LINES, TAIL_LINES = 2_000, 20_000
_KINDS = {"kernel": "kernel", "scheduler": "scheduler", "stacks": "stacks"}
"""Streams that are no output of a program."""


class Place(NamedTuple):
    """Where the stream of a source rests."""

    project: str
    run: str
    stream: str


class StreamSource(Source):
    """A stream; of a long one, head and tail.

    Args:
        name: what people read.
        most: bytes from which on it is long.
    """

    def __init__(self, logs: LogStore, place: Place, stream: LogStream, name: str, most: int) -> None:
        super().__init__("", name, kind=_KINDS.get(stream.stream, "log"))
        self.place, self.placed = place, True
        self.rank, self.node = stream.rank, stream.node or None
        self._logs, self._stream = logs, stream
        self._head = self._left_out = 0
        if stream.bytes > most:
            self._head = min(HEAD_LINES, stream.lines)
            self._left_out = max(0, stream.lines - self._head - TAIL_LINES)

    def real(self, number: int) -> int:
        """The line's own number: behind the head, what was left out is counted."""
        return number + self._left_out if self._left_out and number > self._head else number

    def chunks(self) -> Iterator[bytes]:
        """Pieces of whole lines."""
        self.truncated = self._left_out > 0
        try:
            yield from _joined(self._lines()) if self._left_out else _whole(self._logs.raw(*self.place))
        except StepwardError as error:
            self.why, self.truncated = error.message, True

    def _lines(self) -> Iterator[RawLine]:
        first = self._logs.lines(*self.place, 1, self._head)
        last = self._logs.lines(*self.place, self._head + self._left_out + 1, self._stream.lines)
        return chain(first, last)


class KernelSource(StreamSource):
    """The kernel's log of a node, from an instant of its own clock on (µs since the epoch)."""

    def __init__(self, logs: LogStore, place: Place, stream: LogStream, name: str, *, since: int) -> None:
        super().__init__(logs, place, stream, name, WHOLE_BYTES)
        self._since, self._before = since, 0

    def real(self, number: int) -> int:
        """The line's own number."""
        return number + self._before

    def chunks(self) -> Iterator[bytes]:
        """The lines since then."""
        first = max(1, self._stream.lines - TAIL_LINES)
        try:
            lines = self._logs.lines(*self.place, first, self._stream.lines)
            since = dropwhile(lambda line: line.at is None or line.at < self._since, lines)
            begin = next(since, None)
            if begin is not None:
                self._before = begin.n - 1
                yield from _joined(chain([begin], since))
        except StepwardError as error:
            self.why, self.truncated = error.message, True


def stream_name(stream: LogStream) -> str:
    """What people call a stream: ``n07/rank3.stdout``."""
    who = f"rank{stream.rank}." if stream.rank is not None else ""
    return f"{stream.node}/{who}{stream.stream}" if stream.node else f"{who}{stream.stream}"


def _joined(lines: Iterable[RawLine]) -> Iterator[bytes]:
    held, size = list[bytes](), 0
    for line in lines:
        held.append(line.data[:LONGEST_LINE] + b"\n")
        size += len(held[-1])
        if size >= CHUNK:
            yield b"".join(held)
            held, size = [], 0
    if held:
        yield b"".join(held)


def _whole(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Pieces that end where lines end."""
    rest = b""
    for piece in pieces:
        end = piece.rfind(b"\n") + 1
        if end:
            yield rest + piece[:end]
            rest = piece[end:]
        else:
            rest += piece
    if rest:
        yield rest
