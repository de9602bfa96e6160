"""Cuts log chunks into payloads that fit a record: a line of any length must pass.

A chunk keeps its offset in its stream, so that the server joins the pieces again. Pure.
"""

from collections.abc import Iterable, Iterator

from stepward.model.frames import LogChunk

MAX_PAYLOAD_BYTES = 1 << 20
"""Largest payload of a record."""
_MAX_DATA = 512 << 10
"""Bytes of output in one payload: marks and names stay below the other half."""
_MAX_MARKS = 8192
_CHUNK_COST = 4200
"""Bytes that a chunk takes beside its data and marks: a stream's name of 1,024 characters in UTF-8."""


def split(chunks: Iterable[LogChunk]) -> Iterator[list[LogChunk]]:
    """Groups of chunks, each small enough for one payload."""
    group: list[LogChunk] = []
    cost = 0
    for chunk in chunks:
        for piece in _pieces(chunk):
            own = len(piece.data) + 18 * len(piece.marks) + _CHUNK_COST
            if group and cost + own > _MAX_DATA:
                yield group
                group, cost = [], 0
            group.append(piece)
            cost += own
    if group:
        yield group


def _pieces(chunk: LogChunk) -> Iterator[LogChunk]:
    if len(chunk.data) <= _MAX_DATA and len(chunk.marks) <= _MAX_MARKS:
        yield chunk
        return
    marks = sorted(chunk.marks)
    for start in range(0, max(len(chunk.data), 1), _MAX_DATA):
        end = start + _MAX_DATA
        last = end >= len(chunk.data)
        inside = [(at - start, time) for at, time in marks if start <= at < end or (last and at == end)]
        # More marks than this are finer than a chart can show: every n-th is kept.
        inside = inside[:: 1 + len(inside) // _MAX_MARKS]
        lost = chunk.lost if start == 0 else 0
        yield LogChunk(chunk.stream, chunk.offset + start, chunk.data[start:end], inside, chunk.rank, lost)
