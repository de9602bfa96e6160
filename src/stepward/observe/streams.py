"""Streams of the log store as sources of a diagnosis: lines keep the numbers that they have there."""

import re
from collections.abc import Iterable, Iterator
from itertools import chain, dropwhile
from typing import NamedTuple

from stepward.diagnose.sources import CHUNK, LONGEST_LINE, Source
from stepward.errors import StepwardError
from stepward.model.resources import LogStream
from stepward.store.logs import LogStore
from stepward.store.logs.read import RawLine

WHOLE_BYTES = 8 << 20
"""Output of all streams together that is read whole: a second of CPU at the worst. Of more, each stream's head and tail are."""
HEAD_LINES, TAIL_LINES = 4_000, 40_000
"""Lines of all long streams together ..."""
MOST_HEAD, MOST_TAIL = 2_000, 20_000
LEAST_HEAD, LEAST_TAIL = 100, 300
"""... and of one, at most and at least."""
MOST_HELD = 4_000
"""Lines of the report of one kill, at most: it lists every process."""
_KILLED_IN = re.compile(rb"oom-kill:constraint=CONSTRAINT_MEMCG,.*task_memcg=([^,\s]+)")
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
        of: streams of the diagnosis; the more, the less of each.
    """

    def __init__(self, logs: LogStore, place: Place, stream: LogStream, name: str, of: int) -> None:
        super().__init__("", name, kind=_KINDS.get(stream.stream, "log"))
        self.place, self.placed = place, True
        self.rank, self.node = stream.rank, stream.node or None
        self._logs, self._stream = logs, stream
        self._head = self._left_out = 0
        if stream.bytes > WHOLE_BYTES // of:
            self._head = min(max(LEAST_HEAD, HEAD_LINES // of), MOST_HEAD, stream.lines)
            tail = min(max(LEAST_TAIL, TAIL_LINES // of), MOST_TAIL)
            self._left_out = max(0, stream.lines - self._head - tail)

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
    """The kernel's log of a node, from an instant of its own clock on (µs since the epoch).

    Args:
        group: the job's own control group, where it has one: kills for memory in others' groups are left out.
    """

    def __init__(
        self, logs: LogStore, place: Place, stream: LogStream, name: str, *, since: int, group: "JobGroup | None" = None
    ) -> None:
        super().__init__(logs, place, stream, name, of=1)
        self._since, self._before, self._group = since, 0, group

    def real(self, number: int) -> int:
        """The line's own number."""
        return number + self._before

    def chunks(self) -> Iterator[bytes]:
        """The lines since then."""
        first = max(1, self._stream.lines - MOST_TAIL)
        try:
            lines = self._logs.lines(*self.place, first, self._stream.lines)
            since = dropwhile(lambda line: line.at is None or line.at < self._since, lines)
            begin = next(since, None)
            if begin is not None:
                self._before = begin.n - 1
                own = chain([begin], since)
                yield from _joined(own if self._group is None else own_kills(own, self._group))
        except StepwardError as error:
            self.why, self.truncated = error.message, True


class JobGroup(NamedTuple):
    """Where Slurm's control groups of a job are on a node; ``job`` is Slurm's own number of it."""

    cluster: str
    node: str
    job: int

    def holds(self, path: str) -> bool:
        """Whether a group is the job's. Nodes that share a host have their name in it, our clusters theirs."""
        node, cluster = re.search(r"/slurm_([^/]+)/", path), re.search(r"/stepward_([^/]+)/", path)
        return (
            re.search(rf"/job_{self.job}(/|$)", path) is not None
            and (node is None or node[1] == self.node)
            and (cluster is None or cluster[1] == self.cluster)
        )


def own_kills(lines: Iterable[RawLine], group: JobGroup) -> Iterator[RawLine]:
    """Lines of a kernel's log; what the memory limit of somebody else's group did is blank, so that numbers stay.

    The kernel tells a kill in one piece, from "invoked oom-killer" to "Killed process", and names the group near its end.
    """
    held: list[RawLine] = []
    foreign = False
    for line in lines:
        if b"invoked oom-killer" in line.data:
            yield from held
            held, foreign = [line], False
            continue
        if not held:
            yield line
            continue
        held.append(line)
        named = _KILLED_IN.search(line.data)
        if named is not None:
            foreign = not group.holds(named[1].decode(errors="replace"))
        if b"Killed process" in line.data or len(held) > MOST_HELD:
            yield from (one._replace(data=b"") for one in held) if foreign else held
            held = []
    yield from held


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
