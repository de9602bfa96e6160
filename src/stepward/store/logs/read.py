"""Reading a stream: its pieces from any line on, and its lines with their numbers and times.

A line is what stands between newlines, joined over pieces. Of a line that is very long, or a progress bar that rewrites
itself for hours, only what can be seen is held: the text behind the last carriage return, at most ``LINE_BYTES`` of it.
"""

import sqlite3
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from stepward.store.blobs import Blobs
from stepward.store.logs.append import blob_key

LINE_BYTES = 256 << 10


class Piece(NamedTuple):
    """Bytes of a stream; ``marks`` has a row (position in the stream, µs since the epoch) a read."""

    start: int
    data: bytes
    newlines_before: int
    marks: Any


class RawLine(NamedTuple):
    """A line: number from 1, position of its first byte, bytes, bytes left out, time of the read that it began in."""

    n: int
    start: int
    data: bytes
    skipped: int
    at: int | None


class StreamReader:
    """Reads one stream in one moment.

    Args:
        stream: its row in the index.
    """

    def __init__(self, connection: sqlite3.Connection, blobs: Blobs, stream: sqlite3.Row) -> None:
        self._connection = connection
        self._blobs = blobs
        self.stream = stream
        self._held: Piece | None = None

    @property
    def line_count(self) -> int:
        """Lines, an open last one included."""
        return int(self.stream["newlines"] + self.stream["open_line"])

    def pieces(self, n: int = 1) -> Iterator[Piece]:
        """Pieces from the one on in which line ``n`` begins or the newline before it stands."""
        first = 0
        if n > 1:
            first = self._one("SELECT max(start) FROM pieces WHERE stream = ? AND newlines_before <= ?", n - 2) or 0
        return self._pieces_from(first)

    def line(self, n: int, start: int) -> RawLine:
        """Line ``n``, which begins at byte ``start``."""
        line = _Line()
        first = self._one("SELECT max(start) FROM pieces WHERE stream = ? AND start <= ?", start) or 0
        for piece in self._pieces_from(first):
            skip = max(0, start - piece.start)
            if piece.start <= start:
                line.begin(start, _time_at(piece.marks, start))
            end = piece.data.find(b"\n", skip)
            line.add(piece.data[skip : None if end < 0 else end])
            if end >= 0:
                break
        return line.end(n)

    def lines(self, n: int = 1) -> Iterator[RawLine]:
        """Lines from line ``n`` on."""
        line = _Line()
        number = 0
        for piece in self.pieces(n):
            position = piece.start
            if number == 0:
                number = piece.newlines_before + 1
                line.begin(position, _time_at(piece.marks, position))
            for index, part in enumerate(piece.data.split(b"\n")):
                if index:
                    if number >= n:
                        yield line.end(number)
                    number += 1
                    if number >= n:
                        line.begin(position, _time_at(piece.marks, position))
                if number >= n:
                    line.add(part)
                position += len(part) + 1
        if number >= n and self.stream["open_line"]:
            yield line.end(number)

    def _one(self, sql: str, bound: int) -> int | None:
        value: int | None = self._connection.execute(sql, [self.stream["id"], bound]).fetchone()[0]
        return value

    def _pieces_from(self, first: int) -> Iterator[Piece]:
        starts = self._connection.execute(
            "SELECT start FROM pieces WHERE stream = ? AND start >= ? ORDER BY start", [self.stream["id"], first]
        ).fetchall()
        for (start,) in starts:
            yield self._piece(start)

    def _piece(self, start: int) -> Piece:
        if self._held is not None and self._held.start == start:
            return self._held
        row = self._connection.execute(
            "SELECT newlines_before, marks, data FROM pieces WHERE stream = ? AND start = ?", [self.stream["id"], start]
        ).fetchone()
        data = row["data"]
        if data is None:
            data = zlib.decompress(self._blobs.get(blob_key(self.stream["run"], self.stream["id"], start)))
        marks = np.frombuffer(row["marks"], np.int64).reshape(-1, 2)
        self._held = Piece(start, data, row["newlines_before"], marks)
        return self._held


class _Line:
    """A line while it is put together."""

    def __init__(self) -> None:
        self.begin(0, None)

    def begin(self, start: int, at: int | None) -> None:
        self._start, self._at = start, at
        self._data = b""
        self._skipped = 0

    def add(self, part: bytes) -> None:
        if len(self._data) + len(part) <= LINE_BYTES and not self._skipped:
            self._data += part
            return
        # Too long to hold: what a carriage return overwrites is not seen anyway. One at the very end may precede a newline.
        whole = self._data + part
        last = whole.rfind(b"\r", 0, len(whole) - 1)
        if last >= 0:
            whole, self._skipped = whole[last + 1 :], 0
        self._skipped += max(0, len(whole) - LINE_BYTES)
        self._data = whole[:LINE_BYTES]

    def end(self, number: int) -> RawLine:
        return RawLine(number, self._start, self._data, self._skipped, self._at)


def _time_at(marks: Any, position: int) -> int | None:
    """Time of the read that brought the byte at ``position``."""
    index = int(np.searchsorted(marks[:, 0], position, side="right")) - 1
    return int(marks[index, 1]) if index >= 0 else None
