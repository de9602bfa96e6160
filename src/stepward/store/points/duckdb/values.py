"""The newest points of a metric, and all of them in numbers."""

from collections.abc import Mapping

import duckdb

from stepward.model.points import Point, Stats
from stepward.model.resources import instant, number
from stepward.store.points.duckdb.chart import asked_range
from stepward.store.points.duckdb.selection import literal, rows_of, select, span
from stepward.store.points.lines import surviving
from stepward.store.points.protocol import ChartQuery

_TAIL = """
SELECT p.series, p.step, p.time, p.value FROM {source}
WHERE {where} AND p.{x} BETWEEN {low} AND {high} AND {line} >= 0
ORDER BY p.step DESC, p.time DESC, p.value DESC, p.series DESC LIMIT {last}
"""

_STATS = """
SELECT n, n_nan, n_posinf, n_neginf, low, v[ceil(0.5 * k)::BIGINT], v[((99 * k + 99) // 100)::BIGINT], high, mean, first, last
FROM (
  SELECT count(*) AS n, count(*) FILTER (isnan(value)) AS n_nan,
         count(*) FILTER (value = 'Infinity'::DOUBLE) AS n_posinf,
         count(*) FILTER (value = '-Infinity'::DOUBLE) AS n_neginf, min(v) AS low, max(v) AS high,
         avg(v * {scale}) / {scale} AS mean, min(step) AS first, max(step) AS last,
         list_sort(list(v) FILTER (v IS NOT NULL)) AS v, count(v) AS k
  FROM (
    SELECT p.step, p.value, CASE WHEN isfinite(p.value) THEN p.value END AS v
    FROM {source} WHERE {where} AND p.{x} BETWEEN {low} AND {high} AND {line} >= 0
  )
)
"""
_SCALE = f"{2.0**-64!r}::DOUBLE"
"""Keeps the sum of any values in the range of a float64; exact, but for values that are next to nothing."""


def read_tail(
    connection: duckdb.DuckDBPyConnection, query: ChartQuery, attempts: Mapping[str, int], last: int
) -> list[Point]:
    """The newest points, oldest first."""
    words = _words(connection, query)
    if words is None:
        return []
    found = {row.id: row for row in select(connection, [query.run], query.metric)[0].rows}
    points = connection.execute(_TAIL.format(last=last, **words)).fetchall()
    return [
        Point(
            attempt=attempts.get(found[series].attempt, 0),
            rank=found[series].rank,
            device=found[series].device,
            step=step,
            time=instant(time),
            value=number(value),
        )
        for series, step, time, value in reversed(points)
    ]


def read_stats(connection: duckdb.DuckDBPyConnection, query: ChartQuery) -> Stats:
    """A metric in numbers."""
    words = _words(connection, query)
    stats = Stats(metric=query.metric, unit=words["unit"] if words else "")
    if words is None:
        return stats
    scale = "1.0::DOUBLE"
    (row,) = connection.execute(_STATS.format(scale=scale, **words)).fetchall()
    if row[8] is not None and abs(row[8]) == float("inf"):
        (row,) = connection.execute(_STATS.format(scale=_SCALE, **words)).fetchall()
    (stats.count, stats.n_nan, stats.n_posinf, stats.n_neginf, stats.min, stats.p50, stats.p99, stats.max) = row[:8]
    stats.mean, stats.first_step, stats.last_step = row[8:]
    if stats.mean is not None and stats.min is not None and stats.max is not None:
        stats.mean = min(max(stats.mean, stats.min), stats.max)
    return stats


def _words(connection: duckdb.DuckDBPyConnection, query: ChartQuery) -> dict[str, str] | None:
    """What both queries are filled with; None where there are no points."""
    found = select(connection, [query.run], query.metric)
    choices = surviving(found[0].rows, query) if found else []
    if not choices:
        return None
    there = span(found[0].rows, choices, query.x)
    low, high = asked_range(query.x, query.start, query.end, query.run_started_us, there)
    return rows_of(connection, found[0].table, choices)._asdict() | {
        "x": "step" if query.x == "step" else "time",
        "low": literal(low),
        "high": literal(high),
        "unit": found[0].rows[0].unit,
    }
