"""How the ranks of a run differ, by step: fetched as columns, put in order by numpy, so that quantiles and ties are ours."""

import math
from typing import Any

import duckdb
import numpy as np

from stepward.model.resources import RankProfile
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
    finite = np.isfinite(value)
    low, width = span.low, span.width
    bucket = _buckets(step, low, width)
    entries = np.unique(bucket)
    first, last = _extent(bucket, step, entries)
    n_bad = np.bincount(np.searchsorted(entries, bucket[~finite]), minlength=len(entries))
    step, time, value, rank, bucket = step[finite], time[finite], value[finite], rank[finite], bucket[finite]
    newest = _newest(rank, step, time, value)
    value, rank, bucket = value[newest], rank[newest], bucket[newest]
    # By entry, then value, then rank: quantiles are places in that order.
    order = np.lexsort((rank, value, bucket))
    value, rank, bucket = value[order], rank[order], bucket[order]
    starts = np.searchsorted(bucket, entries)
    ends = np.searchsorted(bucket, entries, side="right")
    answer.step, answer.step_last, answer.n_bad = first.tolist(), last.tolist(), n_bad.tolist()
    answer.ranks = _ranks(bucket, rank, entries)
    for begin, end in zip(starts.tolist(), ends.tolist(), strict=True):
        _entry(answer, value[begin:end], rank[begin:end])


def _entry(answer: RankProfile, value: Any, rank: Any) -> None:
    """One entry from its values in order."""
    n = len(value)
    if not n:
        for column in (answer.min, answer.p50, answer.p99, answer.max, answer.argmin, answer.argmax):
            column.append(None)
        return
    highest = int(np.searchsorted(value, value[-1]))  # the lowest rank among the highest
    answer.min.append(float(value[0]))
    answer.p50.append(float(value[math.ceil(n * 0.5) - 1]))
    answer.p99.append(float(value[-(-99 * n // 100) - 1]))
    answer.max.append(float(value[-1]))
    answer.argmin.append(int(rank[0]))
    answer.argmax.append(int(rank[highest]))


def _ranks(bucket: Any, rank: Any, entries: Any) -> list[int]:
    """The number of ranks in each entry."""
    order = np.lexsort((rank, bucket))
    bucket, rank = bucket[order], rank[order]
    new = np.ones(len(rank), np.bool_)
    new[1:] = (bucket[1:] != bucket[:-1]) | (rank[1:] != rank[:-1])
    counts: list[int] = np.bincount(np.searchsorted(entries, bucket[new]), minlength=len(entries)).tolist()
    return counts


def _newest(rank: Any, step: Any, time: Any, value: Any) -> Any:
    """Indexes of the newest point of each rank and step."""
    if len(rank) < 2:
        return np.arange(len(rank))
    order = np.lexsort((value, time, step, rank))
    same = (rank[order][1:] == rank[order][:-1]) & (step[order][1:] == step[order][:-1])
    return order[np.append(~same, True)]


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
