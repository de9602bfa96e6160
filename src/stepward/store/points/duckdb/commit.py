"""A group of frames becomes one transaction: numpy columns in, no object a point."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import duckdb
import msgspec
import numpy as np

from stepward.ingest.protocols import Floats, FrameRows, Ints, WriterPosition
from stepward.ingest.records import encode_record
from stepward.store.points.duckdb import tallies
from stepward.store.points.duckdb.names import Names
from stepward.store.points.duckdb.schema import WHOLE_STEP

BYTES_A_POINT = 40
"""What a point takes in the write-ahead log, and again in the file, at most."""

_encoder = msgspec.msgpack.Encoder()


def room(frames: Sequence[FrameRows]) -> int:
    """Bytes that a group will write, about; never 0."""
    points = sum(len(rows.points.value) for rows in frames if rows.points is not None)
    steps = sum(columns.seconds.size + columns.step.size for rows in frames for columns in rows.steps)
    parts = sum(memoryview(part.payload).nbytes for rows in frames for part in rows.parts)
    return BYTES_A_POINT * (points + steps) + 2 * parts + 4096


def write_group(connection: duckdb.DuckDBPyConnection, names: Names, frames: Sequence[FrameRows]) -> None:
    """Insert everything that a group of frames brings."""
    sources = [names.source(connection, rows.frame) for rows in frames]
    told = _write_points(connection, names, frames, sources) + _write_steps(connection, names, frames, sources)
    if names.told(told):
        tallies.fold(connection)
        names.folded(tallies.rows(connection))
    _write_raw(connection, names, frames)
    names.advance(connection, {rows.frame.writer: WriterPosition(rows.frame.run, rows.frame.end) for rows in frames})


def _write_points(
    connection: duckdb.DuckDBPyConnection, names: Names, frames: Sequence[FrameRows], sources: Sequence[int]
) -> int:
    """Returns how many rows it added to ``tallies``."""
    groups = [
        (names.series(connection, rows.frame.writer, source, rows.keys)[rows.points.series], rows.points)
        for rows, source in zip(frames, sources, strict=True)
        if rows.points is not None
    ]
    if not groups:
        return 0
    columns = {
        "series": np.concatenate([series for series, _ in groups]),
        "step": np.concatenate([points.step for _, points in groups]),
        "time": np.concatenate([points.time for _, points in groups]),
        **_split(np.concatenate([points.value for _, points in groups])),
        "rounded": np.concatenate([points.rounded for _, points in groups]),
    }
    with _registered(connection, columns) as table:
        connection.execute(f"INSERT INTO points SELECT series, step, time, single, exact, rounded FROM {table}")
    return _tell(connection, "tallies", [("series", columns["series"])], columns["step"], columns["time"])


def _split(value: Floats) -> tallies.Columns:
    """The two columns of a value; DuckDB reads a NaN of numpy as NULL."""
    with np.errstate(over="ignore", invalid="ignore"):
        single = value.astype(np.float32)
    fits = single == value
    return {
        "single": np.where(fits, single, np.float32(np.nan)),
        "exact": np.where(fits, np.nan, value),
    }


def _write_steps(
    connection: duckdb.DuckDBPyConnection, names: Names, frames: Sequence[FrameRows], sources: Sequence[int]
) -> int:
    """Returns how many rows it added to ``step_tallies``."""
    tables = [
        (source, columns)
        for rows, source in zip(frames, sources, strict=True)
        for columns in rows.steps
        if columns.step.size
    ]
    if not tables:
        return 0
    steps = {
        "source": np.repeat([source for source, _ in tables], [len(columns.step) for _, columns in tables]),
        "step": np.concatenate([columns.step for _, columns in tables]),
        "start": np.concatenate([columns.start for _, columns in tables]),
        "duration": np.concatenate([columns.duration for _, columns in tables]),
    }
    with _registered(connection, steps) as table:
        connection.execute(
            # DuckDB reads a NaN of numpy as NULL; there are no others.
            f"INSERT INTO steps SELECT source, step, start, coalesce(duration, 'NaN'::DOUBLE) FROM {table}"
        )
    whole = np.full(len(steps["step"]), WHOLE_STEP)
    told = _tell(
        connection, "step_tallies", [("source", steps["source"]), ("phase", whole)], steps["step"], steps["start"]
    )
    seconds = np.concatenate([columns.seconds.T.ravel() for _, columns in tables])
    measured = ~np.isnan(seconds)  # a phase that was not measured has no row
    if not measured.any():
        return told
    phases = {
        "source": np.repeat([source for source, _ in tables], [columns.seconds.size for _, columns in tables]),
        "step": np.concatenate([np.tile(columns.step, len(columns.phases)) for _, columns in tables]),
        "start": np.concatenate([np.tile(columns.start, len(columns.phases)) for _, columns in tables]),
        "phase": np.concatenate(
            [np.repeat(names.phases(connection, columns.phases), len(columns.step)) for _, columns in tables]
        ),
        "seconds": seconds,
    }
    phases = {name: column[measured] for name, column in phases.items()}
    with _registered(connection, phases) as table:
        connection.execute(f"INSERT INTO phases SELECT * FROM {table}")
    keys = [("source", phases["source"]), ("phase", phases["phase"])]
    return told + _tell(connection, "step_tallies", keys, phases["step"], phases["start"])


def _tell(
    connection: duckdb.DuckDBPyConnection, table: str, keys: Sequence[tuple[str, Ints]], step: Ints, time: Ints
) -> int:
    """Append to a table of tallies what was inserted; returns the number of rows."""
    columns = tallies.tally(keys, step, time)
    with _registered(connection, columns) as incoming:
        connection.execute(f"INSERT INTO {table} SELECT * FROM {incoming}")
    return len(columns["n"])


def _write_raw(connection: duckdb.DuckDBPyConnection, names: Names, frames: Sequence[FrameRows]) -> None:
    """The raw parts for good, but for logs, whose home is the log store; and the record that the appliers may need."""
    parts: list[tuple[Any, ...]] = []
    records: list[tuple[Any, ...]] = []
    for rows in frames:
        frame = rows.frame
        source = _encoder.encode(frame.source)
        records.append((names.cursor(frame.received_at), frame.run, frame.received_at, encode_record(rows)))
        for part in rows.parts:
            if part.kind != "logs":
                head = (frame.run, frame.writer, frame.seq, frame.received_at, source, part.kind)
                parts.append((names.cursor(frame.received_at), *head, bytes(part.payload)))
    connection.execute(
        "INSERT INTO unsettled SELECT unnest($1::BIGINT[]), unnest($2::VARCHAR[]), unnest($3::BIGINT[]), "
        "unnest($4::BLOB[])",
        [list(column) for column in zip(*records, strict=True)],
    )
    if parts:
        connection.execute(
            "INSERT INTO parts SELECT unnest($1::BIGINT[]), unnest($2::VARCHAR[]), unnest($3::VARCHAR[]), "
            "unnest($4::BIGINT[]), unnest($5::BIGINT[]), unnest($6::BLOB[]), unnest($7::VARCHAR[]), unnest($8::BLOB[])",
            [list(column) for column in zip(*parts, strict=True)],
        )


@contextlib.contextmanager
def _registered(connection: duckdb.DuckDBPyConnection, columns: dict[str, np.ndarray[Any, Any]]) -> Iterator[str]:
    connection.register("incoming", columns)
    try:
        yield "incoming"
    finally:
        connection.unregister("incoming")
