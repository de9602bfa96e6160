"""Taking output in: chunks of bytes become pieces of streams, each byte once.

A chunk that came before (its offset lies below what the stream has) is cut or skipped; bytes that never came are counted as
lost. Inline pieces are sealed into a blob when there are ``SEAL_BYTES`` of them.
"""

import sqlite3
import zlib

import numpy as np

from stepward.ingest.protocols import CommittedFrame
from stepward.model.frames import LogChunk, Logs
from stepward.store.blobs import Blobs

SEAL_BYTES = 1 << 20
_GROW_BYTES = 16 << 10
"""An inline piece grows up to this size, so that a stream of short lines has few pieces."""


def append_frames(connection: sqlite3.Connection, blobs: Blobs, frames: list[CommittedFrame]) -> None:
    """Take the output of frames that are new; raises sqlite3.Error and what ``Blobs.put`` raises."""
    for frame in frames:
        chunks = [chunk for _, content in frame.payloads if isinstance(content, Logs) for chunk in content.chunks]
        if not chunks:
            continue
        row = connection.execute("SELECT position FROM writers WHERE writer = ?", [frame.writer]).fetchone()
        if row is not None and frame.end <= row["position"]:
            continue
        for stream in {_append(connection, frame, chunk) for chunk in chunks}:
            _seal(connection, blobs, frame.run, stream)
        connection.execute(
            "INSERT INTO writers VALUES (?, ?, ?) ON CONFLICT (writer) DO UPDATE SET position = excluded.position",
            [frame.writer, frame.run, frame.end],
        )


def blob_key(run: str, stream: int, start: int) -> str:
    """Key of a sealed piece."""
    return f"{run}/{stream}/{start}.z"


def _append(connection: sqlite3.Connection, frame: CommittedFrame, chunk: LogChunk) -> int:
    stream = _stream(connection, frame, chunk)
    known = max(0, stream["expected"] - chunk.offset)
    data = chunk.data[known:]
    lost = max(0, chunk.offset - stream["expected"], chunk.lost if not known else 0)
    if not data and not lost:
        return int(stream["id"])
    marks = np.array([(stream["bytes"] + max(0, at - known), time) for at, time in chunk.marks], np.int64)
    connection.execute(
        "UPDATE streams SET expected = ?, bytes = bytes + ?, newlines = newlines + ?, open_line = ?, lost = lost + ?, "
        "last_at = coalesce(?, last_at) WHERE id = ?",
        [
            max(stream["expected"], chunk.offset + len(chunk.data)),
            len(data),
            data.count(b"\n"),
            int(not data.endswith(b"\n")) if data else stream["open_line"],
            lost,
            int(marks[-1, 1]) if len(marks) else None,
            stream["id"],
        ],
    )
    if data:
        _add_piece(connection, stream, data, marks.tobytes())
    return int(stream["id"])


def _stream(connection: sqlite3.Connection, frame: CommittedFrame, chunk: LogChunk) -> sqlite3.Row:
    rank = frame.source.rank if chunk.rank is None else chunk.rank
    find = "SELECT * FROM streams WHERE writer = ? AND name = ? AND coalesce(rank, -1) = coalesce(?, -1)"
    key = [frame.writer, chunk.stream, rank]
    row = connection.execute(find, key).fetchone()
    if row is None:
        connection.execute(
            "INSERT INTO streams (run, writer, name, attempt, rank, node) VALUES (?, ?, ?, ?, ?, ?)",
            [frame.run, frame.writer, chunk.stream, frame.source.attempt, rank, frame.source.node],
        )
        row = connection.execute(find, key).fetchone()
    found: sqlite3.Row = row
    return found


def _add_piece(connection: sqlite3.Connection, stream: sqlite3.Row, data: bytes, marks: bytes) -> None:
    last = connection.execute(
        "SELECT start, bytes, data, marks FROM pieces WHERE stream = ? ORDER BY start DESC LIMIT 1", [stream["id"]]
    ).fetchone()
    if last is not None and last["data"] is not None and last["bytes"] < _GROW_BYTES:
        connection.execute(
            "UPDATE pieces SET bytes = ?, data = ?, marks = ? WHERE stream = ? AND start = ?",
            [last["bytes"] + len(data), last["data"] + data, last["marks"] + marks, stream["id"], last["start"]],
        )
        return
    connection.execute(
        "INSERT INTO pieces VALUES (?, ?, ?, ?, ?, ?)",
        [stream["id"], stream["bytes"], len(data), stream["newlines"], marks, data],
    )


def _seal(connection: sqlite3.Connection, blobs: Blobs, run: str, stream: int) -> None:
    rows = connection.execute(
        "SELECT start, bytes, newlines_before, marks, data FROM pieces WHERE stream = ? AND data IS NOT NULL ORDER BY start",
        [stream],
    )
    pieces = rows.fetchall()
    if sum(piece["bytes"] for piece in pieces) < SEAL_BYTES:
        return
    data, marks = b"".join(piece["data"] for piece in pieces), b"".join(piece["marks"] for piece in pieces)
    start = pieces[0]["start"]
    # The blob is on disk before the index says so; a crash in between leaves bytes that the next try writes again.
    blobs.put(blob_key(run, stream, start), zlib.compress(data, 6))
    connection.execute("DELETE FROM pieces WHERE stream = ? AND start >= ?", [stream, start])
    connection.execute(
        "INSERT INTO pieces VALUES (?, ?, ?, ?, ?, NULL)",
        [stream, start, len(data), pieces[0]["newlines_before"], marks],
    )
