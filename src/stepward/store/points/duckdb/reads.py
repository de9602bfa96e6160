"""The other reading queries: series, steps, raw parts, export."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import duckdb
import msgspec
import numpy as np

from stepward.ingest.protocols import STEP_PREFIX, STEP_TIME, SYSTEM_PREFIX
from stepward.model.frames import Source
from stepward.model.points import Series, StepRow, StepTable
from stepward.model.resources import instant
from stepward.model.words import Clock
from stepward.store.points.duckdb.schema import VALUE, WHOLE_STEP
from stepward.store.points.protocol import RawPart, StepSpan, TimedStep

EXPORT_ROWS = 50_000
_YEAR_1, _YEAR_9999 = -62_135_596_800_000_000, 253_402_300_799_999_999

_source_decoder = msgspec.msgpack.Decoder(Source)

_GATHERED = """
  list_sort(list(DISTINCT rank) FILTER (rank IS NOT NULL)), list_sort(list(DISTINCT device) FILTER (device IS NOT NULL)),
  list_sort(list(DISTINCT node) FILTER (node <> '')), sum(n)::BIGINT, min(first_step), max(last_step)
"""

_SERIES = f"""
WITH mine AS (
  SELECT se.id, se.metric, se.unit, se.device, coalesce(se.rank, so.rank) AS rank, so.node
  FROM series se JOIN sources so ON se.source = so.id WHERE so.run = $1
), of_steps AS (
  SELECT CASE WHEN t.phase = {WHOLE_STEP} THEN '{STEP_TIME}' ELSE '{STEP_PREFIX}' || n.name END AS metric, 's' AS unit,
         NULL::INTEGER AS device, so.rank, so.node, t.n, t.first_step, t.last_step
  FROM step_tallies t JOIN sources so ON t.source = so.id LEFT JOIN phase_names n ON t.phase = n.id
  WHERE so.run = $1 AND n.name IS DISTINCT FROM 'time'
)
SELECT metric, unit, {_GATHERED} FROM tallies t JOIN mine ON t.series = mine.id GROUP BY metric, unit
UNION ALL
SELECT metric, unit, {_GATHERED} FROM of_steps WHERE metric NOT IN (SELECT metric FROM mine) GROUP BY metric, unit
ORDER BY metric, unit
"""

_STEPS = """
SELECT s.source, so.attempt, so.rank, s.step, s.start, s.duration
FROM steps s JOIN sources so ON s.source = so.id
WHERE so.run = $1 AND so.rank IS NOT NULL AND ($2::INTEGER IS NULL OR so.rank = $2)
ORDER BY s.start DESC, so.rank DESC, s.step DESC LIMIT $3
"""

_PHASES = """
SELECT p.source, p.step, p.start, n.name, n.clock, p.seconds
FROM phases p JOIN phase_names n ON p.phase = n.id
WHERE p.start >= $1 AND p.source IN (SELECT unnest($2::INTEGER[]))
"""

_TIMED_STEPS = """
SELECT s.source, so.attempt, so.rank, s.step, s.start, s.duration
FROM steps s JOIN sources so ON s.source = so.id
WHERE so.run = $1 AND so.rank IS NOT NULL AND s.start >= $2
ORDER BY s.start, so.rank, s.step LIMIT $3
"""

_TIMED_PHASES = f"""
SELECT p.source, p.step, p.start, n.name, p.seconds
FROM phases p JOIN phase_names n ON p.phase = n.id
WHERE p.start BETWEEN $1 AND $2 AND p.source IN (SELECT unnest($3::INTEGER[]))
  AND n.clock = '{Clock.HOST.value}' AND n.name IN (SELECT unnest($4::VARCHAR[]))
"""

_STEP_SPANS = """
SELECT so.attempt, so.rank, count(*), min(s.start),
  max(s.start + CASE WHEN s.duration BETWEEN 0 AND 1e9 THEN round(s.duration * 1e6)::BIGINT ELSE 0 END),
  max(s.step)
FROM steps s JOIN sources so ON s.source = so.id
WHERE so.run = $1 AND so.rank IS NOT NULL GROUP BY so.attempt, so.rank
"""

_PARTS = """
SELECT cursor, run, writer, seq, received_at, source, kind, payload FROM parts
WHERE cursor > $1 AND ($2::VARCHAR IS NULL OR run = $2) AND (len($3::VARCHAR[]) = 0 OR list_contains($3, kind))
ORDER BY cursor LIMIT $4
"""

_EXPORT_SERIES = """
SELECT se.id, se.metric, se.unit, so.attempt, coalesce(se.rank, so.rank), se.device
FROM series se JOIN sources so ON se.source = so.id WHERE so.run = $1 ORDER BY se.id
"""

_EXPORT_SOURCES = """
SELECT so.id, $2::VARCHAR, 's', so.attempt, so.rank, NULL FROM sources so
WHERE so.run = $1 AND $2 NOT IN (SELECT metric FROM series se JOIN sources s ON se.source = s.id WHERE s.run = $1)
ORDER BY so.id
"""

_EXPORT = """
SELECT string_agg(
  h.head || p.step || ',"time":"'
  || strftime(make_timestamp(greatest(least(p.time, {year_9999}), {year_1})), '%Y-%m-%dT%H:%M:%S.%fZ') || '","value":'
  || CASE WHEN isnan(value) THEN '"NaN"' WHEN isfinite(value) THEN value::VARCHAR
          WHEN value > 0 THEN '"Infinity"' ELSE '"-Infinity"' END
  || CASE WHEN rounded THEN ',"rounded":true' ELSE '' END || '}}', chr(10) ORDER BY p.row)
FROM (
  SELECT rowid AS row, {columns} FROM {table} WHERE {key} BETWEEN $1 AND $2 AND rowid BETWEEN $3 AND $4 AND {filter}
) p JOIN heads h ON p.series = h.series
"""


class _Exported(NamedTuple):
    """A table with points: the column that numbers their series, and what makes points of its rows."""

    table: str
    key: str
    columns: str
    filter: str = "TRUE"


_EXPORTED_POINTS = _Exported("points", "series", f"series, step, time, {VALUE} AS value, rounded")
_EXPORTED_STEPS = _Exported(
    "steps", "source", "source AS series, step, start AS time, duration AS value, FALSE AS rounded"
)
_EXPORTED_PHASES = _Exported(
    "phases", "source", "source AS series, step, start AS time, seconds AS value, FALSE AS rounded"
)


def read_series(connection: duckdb.DuckDBPyConnection, run: str) -> list[Series]:
    """The metrics of a run that have points, those of its table of steps among them."""
    return [
        Series(
            metric=metric,
            unit=unit,
            system=metric.startswith(SYSTEM_PREFIX),
            ranks=ranks or [],
            devices=devices or [],
            nodes=nodes or [],
            count=int(count),
            first_step=first,
            last_step=last,
        )
        for metric, unit, ranks, devices, nodes, count, first, last in connection.execute(_SERIES, [run]).fetchall()
    ]


def read_steps(
    connection: duckdb.DuckDBPyConnection, run: str, attempts: Mapping[str, int], rank: int | None, last: int
) -> StepTable:
    """The newest steps, oldest first."""
    rows = connection.execute(_STEPS, [run, rank, last]).fetchall()
    if not rows:
        return StepTable({}, [])
    sources = sorted({row[0] for row in rows})
    clocks: dict[str, Clock] = {}
    phases: dict[tuple[int, int, int], dict[str, float]] = {}
    for source, step, start, name, clock, seconds in connection.execute(_PHASES, [rows[-1][4], sources]).fetchall():
        clocks[name] = Clock(clock)
        phases.setdefault((source, step, start), {})[name] = seconds
    table = [
        StepRow(
            attempt=attempts.get(attempt, 0),
            rank=number,
            step=step,
            started_at=instant(start),
            duration_s=duration,
            phases=phases.get((source, step, start), {}),
        )
        for source, attempt, number, step, start, duration in reversed(rows)
    ]
    return StepTable(clocks, table)


def read_timed_steps(
    connection: duckdb.DuckDBPyConnection, run: str, phases: Collection[str], since_us: int, limit: int
) -> list[TimedStep]:
    """The first steps from an instant on."""
    rows = connection.execute(_TIMED_STEPS, [run, since_us, limit]).fetchall()
    if not rows:
        return []
    seconds: dict[tuple[int, int, int], dict[str, float]] = {}
    asked = [rows[0][4], rows[-1][4], sorted({row[0] for row in rows}), sorted(phases)]
    for source, step, start, name, spent in connection.execute(_TIMED_PHASES, asked).fetchall():
        seconds.setdefault((source, step, start), {})[name] = spent
    nothing: dict[str, float] = {}
    return [
        TimedStep(attempt, rank, step, start, duration, seconds.get((source, step, start), nothing))
        for source, attempt, rank, step, start, duration in rows
    ]


def read_step_spans(connection: duckdb.DuckDBPyConnection, run: str) -> list[StepSpan]:
    """Where the steps of each rank lie."""
    return [StepSpan(*row) for row in connection.execute(_STEP_SPANS, [run]).fetchall()]


def read_parts(
    connection: duckdb.DuckDBPyConnection, after: int, run: str | None, kinds: Sequence[str], limit: int
) -> list[RawPart]:
    """Raw parts behind a cursor."""
    rows = connection.execute(_PARTS, [after, run, list(kinds), limit]).fetchall()
    return [
        RawPart(
            cursor=cursor,
            run=of_run,
            writer=writer,
            seq=seq,
            received_at=received_at,
            source=_source_decoder.decode(source),
            kind=kind,
            payload=payload,
        )
        for cursor, of_run, writer, seq, received_at, source, kind, payload in rows
    ]


def export_lines(connection: duckdb.DuckDBPyConnection, run: str, attempts: Mapping[str, int]) -> Iterator[bytes]:
    """All points of a run as NDJSON, those of its table of steps behind; the engine writes the text of a window of rows."""
    yield from _exported(connection, _EXPORTED_POINTS, connection.execute(_EXPORT_SERIES, [run]).fetchall(), attempts)
    steps = connection.execute(_EXPORT_SOURCES, [run, STEP_TIME]).fetchall()
    yield from _exported(connection, _EXPORTED_STEPS, steps, attempts)
    for name, phases in connection.execute(
        "SELECT name, list(id) FROM phase_names GROUP BY name ORDER BY name"
    ).fetchall():
        if STEP_PREFIX + name != STEP_TIME:
            sources = connection.execute(_EXPORT_SOURCES, [run, STEP_PREFIX + name]).fetchall()
            of_phase = _EXPORTED_PHASES._replace(filter=f"phase IN ({', '.join(map(str, phases))})")
            yield from _exported(connection, of_phase, sources, attempts)


def _exported(
    connection: duckdb.DuckDBPyConnection,
    what: _Exported,
    series: Sequence[tuple[Any, ...]],
    attempts: Mapping[str, int],
) -> Iterator[bytes]:
    if not series:
        return
    numbers = np.array([row[0] for row in series], np.int64)
    texts: Any = np.array([_head(row, attempts) for row in series], object)
    connection.register("heads", {"series": numbers, "head": texts})
    low, high = int(numbers.min()), int(numbers.max())
    ((first, last),) = connection.execute(
        f"SELECT min(rowid), max(rowid) FROM {what.table} WHERE {what.key} BETWEEN ? AND ? AND {what.filter}",
        [low, high],
    ).fetchall()
    if first is None:
        return
    sql = _EXPORT.format(year_1=_YEAR_1, year_9999=_YEAR_9999, **what._asdict())
    for start in range(first, last + 1, EXPORT_ROWS):
        ((text,),) = connection.execute(sql, [low, high, start, start + EXPORT_ROWS - 1]).fetchall()
        if text is not None:
            yield text.encode() + b"\n"


def _head(row: Sequence[Any], attempts: Mapping[str, int]) -> str:
    _, metric, unit, attempt, rank, device = row
    fields = {"metric": metric, "unit": unit, "attempt": attempts.get(attempt, 0), "rank": rank, "device": device}
    return msgspec.json.encode(fields).decode()[:-1] + ',"step":'
