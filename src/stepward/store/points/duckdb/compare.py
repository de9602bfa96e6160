"""Many runs on one axis: the surviving line of each, in the same buckets."""

from collections.abc import Sequence
from typing import Any

import duckdb
import numpy as np

from stepward.model.points import Comparison, Line, RunLine
from stepward.store.points.duckdb.buckets import Range, fill_buckets
from stepward.store.points.duckdb.chart import asked_range, fill_lines
from stepward.store.points.duckdb.selection import Selection, rows_of, select
from stepward.store.points.lines import Choice, SeriesRow, surviving
from stepward.store.points.protocol import MAX_COMPARED, ChartQuery, ComparedRun, CompareQuery

_FAR = 1 << 62
"""µs, 146,000 years. Times beyond are a broken clock's and count as this, so that none leaves int64 when it is shifted."""


def read_comparison(connection: duckdb.DuckDBPyConnection, query: CompareQuery) -> Comparison:
    """Answer a comparison."""
    runs = query.runs[:MAX_COMPARED]
    answer = Comparison(metric=query.metric, x=query.x)
    found = [
        (selection, _choices(selection.rows, runs, query.metric))
        for selection in select(connection, [run.run for run in runs], query.metric)
    ]
    if not found:
        return answer
    answer.unit = found[0][0].rows[0].unit
    low, high = _range(query, runs, [row for selection, _ in found for row in selection.rows])
    lines: dict[str, RunLine] = {}
    for selection, choices in found:
        if choices and low <= high:
            table = _shifted(connection, selection, runs) if query.x == "relative" else selection.table
            columns = fill_buckets(
                connection, rows_of(connection, table, choices), Range(query.x, low, high, query.buckets)
            )
            empty = [RunLine(run=run.run) for run in runs]
            lines |= {line.run: line for line in _filled(empty, columns, query)}
    answer.lines = [lines[run.run] for run in runs if run.run in lines]
    return answer


def _filled(empty: list[RunLine], columns: dict[str, Any], query: CompareQuery) -> list[RunLine]:
    filled: Sequence[Line] = fill_lines(empty, columns, query.x, 0)
    return [line for line in filled if isinstance(line, RunLine)]


def _choices(rows: Sequence[SeriesRow], runs: Sequence[ComparedRun], metric: str) -> list[Choice]:
    """The surviving choices of each run, its line numbered by its place."""
    of: dict[str, list[SeriesRow]] = {}
    for row in rows:
        of.setdefault(row.run, []).append(row)
    return [
        choice._replace(line=place)
        for place, run in enumerate(runs)
        for choice in surviving(of.get(run.run, []), ChartQuery(run=run.run, metric=metric, history=run.history))
    ]


def _range(query: CompareQuery, runs: Sequence[ComparedRun], rows: Sequence[SeriesRow]) -> tuple[int, int]:
    if query.x == "step":
        there = min(row.first_step for row in rows), max(row.last_step for row in rows)
    elif query.x == "time":
        there = min(row.first_time for row in rows), max(row.last_time for row in rows)
    else:
        origins = {run.run: _inside(run.started_us) for run in runs}
        there = (
            min(_inside(row.first_time) - origins[row.run] for row in rows),
            max(_inside(row.last_time) - origins[row.run] for row in rows),
        )
    return asked_range(query.x, query.start, query.end, 0, there)


def _shifted(connection: duckdb.DuckDBPyConnection, selection: Selection, runs: Sequence[ComparedRun]) -> str:
    """The table with times since the start of each run."""
    started = {run.run: _inside(run.started_us) for run in runs}
    series = np.array([row.id for row in selection.rows], np.int64)
    origins = np.array([started[row.run] for row in selection.rows], np.int64)
    connection.register("origins", {"series": series, "origin": origins})
    low, high = int(series.min()), int(series.max())
    time = f"greatest(least(q.time, {_FAR - 1}), {-_FAR}) - o.origin AS time"
    return (
        f"(SELECT q.series, q.step, {time}, q.value, q.rounded FROM {selection.table} q "
        f"JOIN origins o ON q.series = o.series WHERE q.series BETWEEN {low} AND {high})"
    )


def _inside(time: int) -> int:
    return max(-_FAR, min(_FAR - 1, time))
