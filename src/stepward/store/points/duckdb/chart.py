"""A chart in three queries of one moment: the series of the metric, the range of x, the buckets.

Bucket aggregates need one pass; *first* and *last* with their exact order need the values at the edges of the buckets, which
a second pass over only those rows gives (measured on 10^6 points: 17 ms together, 41 ms with an ordered aggregate).
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import duckdb
import numpy as np

from stepward.model.resources import Chart, Line
from stepward.store.points.lines import INT64_MAX, INT64_MIN, Choice, SeriesRow, empty_reason, plan, restarts
from stepward.store.points.protocol import MAX_BUCKETS, ChartQuery

_SERIES = """
SELECT se.id, se.unit, so.attempt, so.rank, se.device, so.node
FROM series se JOIN sources so ON se.source = so.id WHERE so.run = $1 AND se.metric = $2 ORDER BY se.id
"""

_BUCKETS = """
WITH picked AS NOT MATERIALIZED (
  SELECT CASE WHEN p.step <= c.last THEN c.line ELSE c.abandoned END AS line, {bucket} AS bucket, p.{x} AS x,
         p.{other} AS other, p.value, p.rounded, CASE WHEN isfinite(p.value) THEN p.value END AS v
  FROM points p JOIN chosen c ON p.series = c.series
  WHERE {series} AND p.{x} BETWEEN {low} AND {high}
), buckets AS MATERIALIZED (
  SELECT line, bucket, min(x) AS x, max(x) AS x_last, min(v) AS low, max(v) AS high, avg(v * {scale}) / {scale} AS mean,
         count(*) AS n, count_if(isnan(value)) AS n_nan, count_if(value = 'Infinity'::DOUBLE) AS n_posinf,
         count_if(value = '-Infinity'::DOUBLE) AS n_neginf, bool_or(rounded) AS rounded,
         min(CASE WHEN v IS NOT NULL THEN x END) AS edge, max(CASE WHEN v IS NOT NULL THEN x END) AS edge_last
  FROM picked WHERE line >= 0 GROUP BY line, bucket
), edges AS MATERIALIZED (
  SELECT line, edge AS x FROM buckets UNION SELECT line, edge_last FROM buckets
), ends AS (
  SELECT line, bucket, min({{'x': x, 'other': other, 'v': v}}) AS first, max({{'x': x, 'other': other, 'v': v}}) AS last
  FROM picked SEMI JOIN edges USING (line, x) WHERE v IS NOT NULL GROUP BY line, bucket
)
SELECT line, x, x_last, low, high, mean, n, n_nan, n_posinf, n_neginf, rounded, e.first.v AS first, e.last.v AS last
FROM buckets LEFT JOIN ends e USING (line, bucket) ORDER BY line, bucket
"""

_LISTED = 64
"""Series that a filter names one by one; more are given as a range of numbers."""
_FAR = 1e300
"""Beyond every step and every time, and still finite when it is multiplied."""


def read_chart(connection: duckdb.DuckDBPyConnection, query: ChartQuery) -> Chart:
    """Answer a chart query."""
    rows = [SeriesRow(*row) for row in connection.execute(_SERIES, [query.run, query.metric]).fetchall()]
    chart = Chart(metric=query.metric, unit=rows[0].unit if rows else "", x=query.x, restarts=restarts(query))
    layout = plan(rows, query)
    chart.lines_total = layout.lines_total
    span = _range(connection, layout.choices, query) if layout.choices else None
    if span is not None:
        columns = _buckets(connection, layout.choices, query, *span)
        chart.lines = _fill(layout.lines, columns, query)
        chart.rounded = bool(columns["rounded"].any())
    if not chart.lines:
        chart.empty_reason = empty_reason(rows, query, run_has_points=_has_points(connection, query.run))
    return chart


def _has_points(connection: duckdb.DuckDBPyConnection, run: str) -> bool:
    found = connection.execute(
        "SELECT 1 FROM series se JOIN sources so ON se.source = so.id WHERE so.run = ? LIMIT 1", [run]
    )
    return bool(found.fetchall())


def _column(query: ChartQuery) -> str:
    return "step" if query.x == "step" else "time"


def _range(
    connection: duckdb.DuckDBPyConnection, choices: Sequence[Choice], query: ChartQuery
) -> tuple[int, int] | None:
    """Both ends of the range, in steps or µs; None where it holds nothing."""
    low, high = _asked(query.start, query, math.ceil), _asked(query.end, query, math.floor)
    if low is None or high is None:
        connection.register("chosen", _chosen(choices))
        x = _column(query)
        found = connection.execute(
            f"SELECT min(p.{x}), max(p.{x}) FROM points p SEMI JOIN chosen c ON p.series = c.series "
            f"WHERE {_series(choices)}"
        ).fetchall()
        first, last = found[0]
        if first is None:
            return None
        low, high = first if low is None else low, last if high is None else high
    return (low, high) if low <= high else None


def _asked(bound: float | None, query: ChartQuery, whole: Callable[[float], int]) -> int | None:
    if bound is None or math.isnan(bound):
        return None
    if abs(bound) >= _FAR:
        return INT64_MAX if bound > 0 else INT64_MIN
    if query.x == "step":
        exact = whole(bound)
    else:
        # Rounded, not cut: an x that a chart gave must find its point again.
        exact = round(bound * 1e6) + (query.run_started_us if query.x == "relative" else 0)
    return max(INT64_MIN, min(INT64_MAX, exact))


def _buckets(
    connection: duckdb.DuckDBPyConnection, choices: Sequence[Choice], query: ChartQuery, low: int, high: int
) -> dict[str, Any]:
    x = _column(query)
    width = -(-(high - low + 1) // max(1, min(query.buckets, MAX_BUCKETS)))
    # int64 arithmetic where the range fits; the wider type costs three times as much.
    offset = f"(p.{x} - {_literal(low)})" if high - low <= INT64_MAX else f"(p.{x}::HUGEINT - {low}::HUGEINT)"
    connection.register("chosen", _chosen(choices))

    def run(scale: str) -> dict[str, Any]:
        sql = _BUCKETS.format(
            bucket=f"({offset} // {width})::INTEGER",
            x=x,
            other="time" if x == "step" else "step",
            series=_series(choices),
            low=_literal(low),
            high=_literal(high),
            scale=scale,
        )
        columns: dict[str, Any] = connection.execute(sql).fetchnumpy()
        return columns

    columns = run("1.0::DOUBLE")
    mean = np.ma.filled(columns["mean"], 0.0)
    if not np.isfinite(mean).all():  # the sum left the range of a float64
        columns["mean"] = run(f"{2.0**-64!r}::DOUBLE")["mean"]
    columns["mean"] = np.ma.clip(columns["mean"], columns["low"], columns["high"])
    return columns


def _literal(number: int) -> str:
    return f"({number}::BIGINT)" if number > INT64_MIN else "((-9223372036854775807)::BIGINT - 1)"


def _series(choices: Sequence[Choice]) -> str:
    """A filter that zone maps can use."""
    numbers = [choice.series for choice in choices]
    if len(numbers) <= _LISTED:
        return f"p.series IN ({', '.join(map(str, numbers))})"
    return f"p.series BETWEEN {min(numbers)} AND {max(numbers)}"


def _chosen(choices: Sequence[Choice]) -> dict[str, Any]:
    return {name: np.array([getattr(choice, name) for choice in choices], np.int64) for name in Choice._fields}


def _fill(lines: Sequence[Line], columns: dict[str, Any], query: ChartQuery) -> list[Line]:
    """Put the buckets into their lines; lines without any are left out."""
    bounds = np.searchsorted(columns["line"], np.arange(len(lines) + 1)).tolist()
    filled = []
    for line, start, end in zip(lines, bounds, bounds[1:], strict=False):
        if start == end:
            continue
        part = {name: column[start:end] for name, column in columns.items()}
        line.x, line.x_last = _xs(part["x"], query), _xs(part["x_last"], query)
        line.min, line.max, line.mean = (part[name].tolist() for name in ("low", "high", "mean"))
        line.first, line.last = part["first"].tolist(), part["last"].tolist()
        line.count, line.n_nan = part["n"].astype(np.int64).tolist(), part["n_nan"].astype(np.int64).tolist()
        line.n_posinf = part["n_posinf"].astype(np.int64).tolist()
        line.n_neginf = part["n_neginf"].astype(np.int64).tolist()
        filled.append(line)
    return filled


def _xs(x: Any, query: ChartQuery) -> list[float]:
    exact = x.astype(np.float64)
    if query.x == "step":
        return list(exact.tolist())
    return list(((exact - (query.run_started_us if query.x == "relative" else 0)) / 1e6).tolist())
