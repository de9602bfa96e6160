"""A chart: the series of its metric, its range, its buckets, and the lines that they fill. All of one moment."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import duckdb
import numpy as np

from stepward.model.points import Chart, Line
from stepward.store.points.duckdb.buckets import Range, any_rounded, fill_buckets
from stepward.store.points.duckdb.selection import STRIDE, rows_of, select, span
from stepward.store.points.lines import INT64_MAX, INT64_MIN, empty_reason, plan, restarts
from stepward.store.points.protocol import Axis, ChartQuery

_FAR = 1e300
"""Beyond every step and every time, and still finite when it is multiplied."""


def read_chart(connection: duckdb.DuckDBPyConnection, query: ChartQuery) -> Chart:
    """Answer a chart query."""
    found = select(connection, [query.run], query.metric)
    rows = found[0].rows if found else []
    chart = Chart(metric=query.metric, unit=rows[0].unit if rows else "", x=query.x, restarts=restarts(query))
    layout = plan(rows, query)
    chart.lines_total = layout.lines_total
    if layout.choices:
        low, high = asked_range(
            query.x, query.start, query.end, query.run_started_us, span(rows, layout.choices, query.x)
        )
        if low <= high:
            source = rows_of(connection, found[0].table, layout.choices)
            buckets = Range(query.x, low, high, query.buckets)
            chart.lines = fill_lines(
                layout.lines, fill_buckets(connection, source, buckets), query.x, query.run_started_us
            )
            chart.rounded = any_rounded(connection, source, buckets)
    if not chart.lines:
        chart.empty_reason = empty_reason(rows, query, run_has_points=bool(rows) or has_points(connection, query.run))
    return chart


def has_points(connection: duckdb.DuckDBPyConnection, run: str) -> bool:
    """Whether a run has logged any."""
    found = connection.execute(
        "SELECT 1 FROM series se JOIN sources so ON se.source = so.id WHERE so.run = ? LIMIT 1", [run]
    )
    return bool(found.fetchall())


def asked_range(
    x: Axis, start: float | None, end: float | None, origin_us: int, there: tuple[int, int]
) -> tuple[int, int]:
    """Both ends of the range asked for, in steps or µs; ``there`` is where the points lie."""
    low, high = _bound(start, x, origin_us, math.ceil), _bound(end, x, origin_us, math.floor)
    return (there[0] if low is None else low, there[1] if high is None else high)


def _bound(bound: float | None, x: Axis, origin_us: int, whole: Callable[[float], int]) -> int | None:
    if bound is None or math.isnan(bound):
        return None
    if abs(bound) >= _FAR:
        return INT64_MAX if bound > 0 else INT64_MIN
    # A time is rounded, not cut: an x that a chart gave must find its point again.
    exact = whole(bound) if x == "step" else round(bound * 1e6) + (origin_us if x == "relative" else 0)
    return max(INT64_MIN, min(INT64_MAX, exact))


def fill_lines(lines: Sequence[Line], columns: dict[str, Any], x: Axis, origin_us: int) -> list[Line]:
    """Put the buckets into their lines; lines without any are left out."""
    bounds = np.searchsorted(columns["g"], np.arange(len(lines) + 1) * STRIDE).tolist()
    filled = []
    for line, start, end in zip(lines, bounds, bounds[1:], strict=False):
        if start == end:
            continue
        part = {name: column[start:end] for name, column in columns.items()}
        line.x, line.x_last = shown(part["x"], x, origin_us), shown(part["x_last"], x, origin_us)
        line.min, line.max, line.mean = (part[name].tolist() for name in ("low", "high", "mean"))
        line.first, line.last = part["first"].tolist(), part["last"].tolist()
        line.count, line.n_nan = part["n"].astype(np.int64).tolist(), part["n_nan"].astype(np.int64).tolist()
        line.n_posinf = part["n_posinf"].astype(np.int64).tolist()
        line.n_neginf = part["n_neginf"].astype(np.int64).tolist()
        filled.append(line)
    return filled


def shown(x: Any, axis: Axis, origin_us: int) -> list[float]:
    """Steps as they are, times in seconds since the epoch or the run's start."""
    exact = np.asarray(x).astype(np.float64)
    if axis != "step":
        exact = (exact - (origin_us if axis == "relative" else 0)) / 1e6
    numbers: list[float] = exact.tolist()
    return numbers
