"""How the ranks of a run differ, by step: fetched as columns, put in order by numpy, so that quantiles and ties are ours."""

import math
from typing import Any

import duckdb
import numpy as np

from stepward.model.points import RankProfile
from stepward.store.points.duckdb.buckets import Range
from stepward.store.points.duckdb.chart import asked_range, has_points
from stepward.store.points.duckdb.selection import literal, rows_of, select, span
from stepward.store.points.lines import SeriesRow, empty_reason, surviving
from stepward.store.points.protocol import ChartQuery

_POINTS = """
SELECT p.series, p.step, p.time, p.value FROM {source} WHERE {where} AND p.step BETWEEN {low} AND {high} AND {line} >= 0
"""


def read_profile(connection: duckdb.DuckDBPyConnection, query: ChartQuery) -> RankProfile:
    """Answer a rank profile."""
    found = select(connection, [query.run], query.metric)
    rows = [row for row in found[0].rows if row.rank is not None] if found else []
    answer = RankProfile(metric=query.metric, unit=rows[0].unit if rows else "")
    choices = [choice for part in _halves(rows) for choice in surviving(part, query)]
    if choices:
        low, high = asked_range("step", query.start, query.end, 0, span(rows, choices, "step"))
        if low <= high:
            source = rows_of(connection, found[0].table, choices)
            words = source._asdict() | {"low": literal(low), "high": literal(high)}
            points = connection.execute(_POINTS.format(**words)).fetchnumpy()
            _fill(answer, points, rows, Range("step", low, high, query.buckets))
    if not answer.step:
        any_points = bool(found) or has_points(connection, query.run)
        answer.empty_reason = empty_reason(found[0].rows if found else [], query, run_has_points=any_points)
        if found and not rows:
            answer.empty_reason = f"no rank has logged {query.metric}"
    return answer


def _halves(rows: list[SeriesRow]) -> list[list[SeriesRow]]:
    """Ranks' own series, and parts of a whole: here both count."""
    return [[row for row in rows if not row.part], [row for row in rows if row.part]]


def _fill(answer: RankProfile, points: dict[str, Any], rows: list[SeriesRow], span: Range) -> None:
    if not len(points["step"]):
        return
    numbers = np.array([row.id for row in rows])
    ranks = np.array([row.rank for row in rows], np.int64)
    order = np.argsort(numbers)
    rank = ranks[order][np.searchsorted(numbers[order], points["series"])]
    step, time, value = points["step"], points["time"], np.ma.filled(points["value"], np.nan)
    bucket = _buckets(step, span.low, span.width)
    entries = np.unique(bucket)
    first, last = _extent(bucket, step, entries)
    answer.step, answer.step_last = first.tolist(), last.tolist()
    finite = np.isfinite(value)
    answer.n_bad = np.bincount(np.searchsorted(entries, bucket[~finite]), minlength=len(entries)).tolist()
    kept = np.flatnonzero(finite)
    kept = kept[_newest(rank[kept], step[kept], time[kept], value[kept])]
    kept = kept[np.argsort(bucket[kept], kind="stable")]
    value, rank, bucket = value[kept], rank[kept], bucket[kept]
    starts, ends = np.searchsorted(bucket, entries), np.searchsorted(bucket, entries, side="right")
    for begin, end in zip(starts.tolist(), ends.tolist(), strict=True):
        _entry(answer, value[begin:end], rank[begin:end])


def _entry(answer: RankProfile, value: Any, rank: Any) -> None:
    """One entry from its values and the ranks that they are of."""
    n = len(value)
    answer.ranks.append(len(np.unique(rank)))
    if not n:
        for column in (answer.min, answer.p50, answer.p99, answer.max, answer.argmin, answer.argmax):
            column.append(None)
        return
    ordered = np.sort(value)
    answer.min.append(float(ordered[0]))
    answer.p50.append(float(ordered[math.ceil(n * 0.5) - 1]))
    answer.p99.append(float(ordered[-(-99 * n // 100) - 1]))
    answer.max.append(float(ordered[-1]))
    answer.argmin.append(int(rank[value == ordered[0]].min()))
    answer.argmax.append(int(rank[value == ordered[-1]].min()))


def _newest(rank: Any, step: Any, time: Any, value: Any) -> Any:
    """Indexes of the newest point of each rank and step, in any order."""
    if _rises(rank, step):  # each comes once, as in a file in order
        return np.arange(len(rank))
    order = np.lexsort((step, rank))
    if _rises(rank[order], step[order]):
        return order
    order = np.lexsort((value, time, step, rank))
    same = (rank[order][1:] == rank[order][:-1]) & (step[order][1:] == step[order][:-1])
    return order[np.append(~same, True)]


def _rises(rank: Any, step: Any) -> bool:
    """Whether rank, then step, are in order and nothing comes twice."""
    return bool(np.all((rank[1:] > rank[:-1]) | ((rank[1:] == rank[:-1]) & (step[1:] > step[:-1]))))


def _buckets(step: Any, low: int, width: int) -> Any:
    """The bucket of each step; exact over the whole of int64."""
    return ((step.astype(np.uint64) - np.uint64(low % (1 << 64))) // np.uint64(width)).astype(np.int64)


def _extent(bucket: Any, step: Any, entries: Any) -> tuple[Any, Any]:
    """The first and the last step of each entry."""
    place = np.searchsorted(entries, bucket)
    first, last = np.full(len(entries), np.iinfo(np.int64).max), np.full(len(entries), np.iinfo(np.int64).min)
    np.minimum.at(first, place, step)
    np.maximum.at(last, place, step)
    return first, last
