"""A run's points and steps as they happened: by time over all of its writers, for who replays it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import duckdb
import numpy as np

from stepward.model.words import Clock, SourceKind
from stepward.store.points.duckdb.schema import VALUE
from stepward.store.points.protocol import RecordedPoint, RecordedStep, Shift, Speaker

ROWS = 20_000
"""Rows that are held at a time."""
SANE_US = 1 << 60
"""Times beyond this are of no clock, and would overflow when they are shifted."""

_SOURCES = "SELECT id, kind, attempt, rank, node FROM sources WHERE run = $1 ORDER BY id"
_SERIES = """
SELECT se.id, se.source, se.metric, se.device, se.rank FROM series se JOIN sources so ON se.source = so.id
WHERE so.run = $1 ORDER BY se.id
"""
_POINTS = f"""
SELECT p.series, p.step, p.time + s.shift AS moment, {VALUE} AS value FROM points p JOIN shifted s ON p.series = s.id
WHERE p.time BETWEEN {-SANE_US} AND {SANE_US} AND p.time + s.shift >= $1 ORDER BY moment, p.series, p.step
"""
_STEPS = f"""
SELECT t.source, t.step, t.start, t.duration,
       t.start + s.shift + CASE WHEN t.duration BETWEEN 0 AND 1e9 THEN round(t.duration * 1e6)::BIGINT ELSE 0 END AS moment,
       (SELECT list({{'phase': p.phase, 'seconds': p.seconds}}) FROM phases p
        WHERE p.source = t.source AND p.start = t.start AND p.step = t.step) AS phases
FROM steps t JOIN shifted s ON t.source = s.id
WHERE t.start BETWEEN {-SANE_US} AND {SANE_US} AND t.start + s.shift >= $1 ORDER BY moment, t.source, t.step
"""


def recorded_points(
    connection: duckdb.DuckDBPyConnection, run: str, shift: Shift, since_us: int
) -> Iterator[RecordedPoint]:
    """Points by time, ties by series."""
    speakers = _speakers(connection, run)
    series = connection.execute(_SERIES, [run]).fetchall()
    if not series:
        return
    _register(connection, [row[0] for row in series], [shift(speakers[row[1]]) for row in series])
    named = {
        id: (speakers[source], metric, device, rank if rank is not None else _own_rank(speakers[source]))
        for id, source, metric, device, rank in series
    }
    rows = connection.execute(_POINTS, [since_us])
    while batch := rows.fetchmany(ROWS):
        for id, step, at, value in batch:
            speaker, metric, device, rank = named[id]
            yield RecordedPoint(speaker, metric, rank, device, step, at, value)


def recorded_steps(
    connection: duckdb.DuckDBPyConnection, run: str, shift: Shift, since_us: int
) -> Iterator[RecordedStep]:
    """Steps by their end, ties by source."""
    speakers = {id: one for id, one in _speakers(connection, run).items() if one.rank is not None}
    if not speakers:
        return
    _register(connection, list(speakers), [shift(speaker) for speaker in speakers.values()])
    names: Mapping[int, tuple[str, bool]] = {
        id: (name, clock == Clock.DEVICE.value)
        for id, name, clock in connection.execute("SELECT id, name, clock FROM phase_names").fetchall()
    }
    rows = connection.execute(_STEPS, [since_us])
    while batch := rows.fetchmany(ROWS):
        for source, step, _, duration, at, phases in batch:
            seconds, device = _phases(phases or (), names)
            yield RecordedStep(speakers[source], step, at, duration, seconds, device)


def _phases(
    phases: Sequence[Mapping[str, Any]], names: Mapping[int, tuple[str, bool]]
) -> tuple[dict[str, float], frozenset[str]]:
    """Seconds by phase; of one that both clocks measured, the device's."""
    seconds: dict[str, float] = {}
    device = set()
    for entry in phases:
        name, by_device = names[entry["phase"]]
        if by_device:
            device.add(name)
        if by_device or name not in device:
            seconds[name] = entry["seconds"]
    return seconds, frozenset(device)


def _speakers(connection: duckdb.DuckDBPyConnection, run: str) -> dict[int, Speaker]:
    rows = connection.execute(_SOURCES, [run]).fetchall()
    return {id: Speaker(SourceKind(kind), attempt, rank, node) for id, kind, attempt, rank, node in rows}


def _own_rank(speaker: Speaker) -> int | None:
    return speaker.rank if speaker.kind is SourceKind.RANK else None


def _register(connection: duckdb.DuckDBPyConnection, ids: Sequence[int], shifts: Sequence[int]) -> None:
    connection.register("shifted", {"id": np.array(ids, np.int64), "shift": np.array(shifts, np.int64)})
