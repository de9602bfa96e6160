"""A chart in four queries of one moment: the series of the metric, the range of x, the buckets, the values at their ends.

*First* and *last* have an exact order (``store.points.protocol``), which an ordered aggregate over all points would pay for
dearly; so the buckets are made first, and only points at the lowest and highest x of one are put in order.
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
SELECT g, min(x) AS x, max(x) AS x_last, min(v) AS low, max(v) AS high, avg(v * {scale}) / {scale} AS mean, count(*) AS n,
       count_if(isnan(value)) AS n_nan, count_if(value = 'Infinity'::DOUBLE) AS n_posinf,
       count_if(value = '-Infinity'::DOUBLE) AS n_neginf, bool_or(rounded) AS rounded,
       min(CASE WHEN v IS NOT NULL THEN x END) AS edge, max(CASE WHEN v IS NOT NULL THEN x END) AS edge_last
FROM (
  SELECT {group}::INTEGER AS g, p.{x} AS x, p.value, p.rounded, CASE WHEN isfinite(p.value) THEN p.value END AS v
  FROM points p {join} WHERE {series} AND p.{x} BETWEEN {low} AND {high}
) WHERE g >= 0 GROUP BY g ORDER BY g
"""

_ENDS = """
SELECT g, min({{'x': x, 'other': other, 'v': v}}).v AS first, max({{'x': x, 'other': other, 'v': v}}).v AS last
FROM (
  SELECT {group}::INTEGER AS g, p.{x} AS x, p.{other} AS other, p.value AS v
  FROM points p {join} WHERE {series} AND p.{x} BETWEEN {low} AND {high} AND p.{x} IN (SELECT x FROM edges)
    AND isfinite(p.value)
) WHERE g >= 0 GROUP BY g ORDER BY g
"""

_STRIDE = 4096
"""More than ``MAX_BUCKETS``."""
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
    """Columns with a row a bucket that has points; ``g`` is line * ``_STRIDE`` + bucket."""
    x = _column(query)
    width = -(-(high - low + 1) // max(1, min(query.buckets, MAX_BUCKETS)))
    # int64 arithmetic where the range fits; the wider type costs three times as much.
    offset = f"(p.{x} - {_literal(low)})" if high - low <= INT64_MAX else f"(p.{x}::HUGEINT - {low}::HUGEINT)"
    connection.register("chosen", _chosen(choices))
    line, join = _line_of(choices)
    words = {
        "x": x,
        "other": "time" if x == "step" else "step",
        "group": f"({line}{offset} // {width})",
        "join": join,
        "series": _series(choices),
        "low": _literal(low),
        "high": _literal(high),
    }
    columns: dict[str, Any] = connection.execute(_BUCKETS.format(scale="1.0::DOUBLE", **words)).fetchnumpy()
    if not np.isfinite(np.ma.filled(columns["mean"], 0.0)).all():  # the sum left the range of a float64
        scaled = connection.execute(_BUCKETS.format(scale=f"{2.0**-64!r}::DOUBLE", **words)).fetchnumpy()
        columns["mean"] = scaled["mean"]
    columns["mean"] = np.ma.clip(columns["mean"], columns["low"], columns["high"])
    edges = np.unique(np.concatenate([np.ma.compressed(columns["edge"]), np.ma.compressed(columns["edge_last"])]))
    connection.register("edges", {"x": edges})
    ends = connection.execute(_ENDS.format(**words)).fetchnumpy()
    for end in ("first", "last"):
        column = np.ma.array(np.zeros(len(columns["g"])), mask=True)
        column[np.searchsorted(columns["g"], ends["g"])] = ends[end]
        columns[end] = column
    return columns


def _line_of(choices: Sequence[Choice]) -> tuple[str, str]:
    """Expression that begins a group's number with that of its line, and the join that it needs; cheapest that will do."""
    join = "JOIN chosen c ON p.series = c.series"
    if any(choice.last != INT64_MAX for choice in choices):
        return f"(c.line + (p.step > c.last)::BIGINT * (c.abandoned - c.line)) * {_STRIDE} + ", join
    if any(choice.line for choice in choices):
        return f"c.line * {_STRIDE} + ", join
    return "", ""


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
    bounds = np.searchsorted(columns["g"], np.arange(len(lines) + 1) * _STRIDE).tolist()
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
