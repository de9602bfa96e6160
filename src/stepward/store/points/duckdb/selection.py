"""Which rows a question is about: the series of a metric, and the SQL that reads their points and tells lines apart.

``step/time`` and ``step/<phase>`` are read from the table of steps as if its rows were points; they are stored once. A metric
of the same name that the run logged itself takes their place.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import duckdb
import numpy as np

from stepward.ingest.protocols import STEP_PREFIX, STEP_TIME
from stepward.store.points.duckdb.schema import POINTS, WHOLE_STEP
from stepward.store.points.duckdb.tallies import STATISTICS
from stepward.store.points.lines import INT64_MAX, INT64_MIN, Choice, SeriesRow
from stepward.store.points.protocol import Axis

STRIDE = 4096
"""Distance between two lines in the number of a group: more than ``MAX_BUCKETS``."""
LISTED = 64
"""Series that a filter names one by one; more are given as a range of numbers."""
CASES = 8
"""Ways to treat a series that an expression tells apart; for more a join is needed, at three times the cost."""
CROWD = 4
"""Series a line beyond which points of one x are the rule."""

_NAMED = """
SELECT so.run, se.id, se.unit, so.attempt, coalesce(se.rank, so.rank), se.device, so.node, se.rank IS NOT NULL
FROM series se JOIN sources so ON se.source = so.id WHERE list_contains($1::VARCHAR[], so.run) AND se.metric = $2 ORDER BY se.id
"""
_TOLD = f"SELECT series, {STATISTICS} FROM tallies WHERE {{}} GROUP BY series"

_STEPS = f"""
WITH told AS (
  SELECT source, {STATISTICS} FROM step_tallies WHERE phase IN (SELECT unnest($2::INTEGER[])) GROUP BY source
)
SELECT so.run, so.id, 's', so.attempt, so.rank, NULL, so.node, FALSE, told.* EXCLUDE (source)
FROM told JOIN sources so ON told.source = so.id WHERE so.run IN (SELECT unnest($1::VARCHAR[])) ORDER BY so.id
"""

_WHOLE_STEPS = "(SELECT source AS series, step, start AS time, duration AS value, FALSE AS rounded FROM steps)"
_OF_PHASES = (
    "(SELECT source AS series, step, start AS time, seconds AS value, FALSE AS rounded FROM phases WHERE phase IN ({}))"
)


class Selection(NamedTuple):
    """The series of a metric, and what has their points: columns ``series``, ``step``, ``time``, ``value``, ``rounded``."""

    rows: list[SeriesRow]
    table: str = POINTS


def select(connection: duckdb.DuckDBPyConnection, runs: Sequence[str], metric: str) -> list[Selection]:
    """The series of a metric of some runs; two selections where some logged it and others have it from their steps."""
    logged = _logged(connection, runs, metric)
    selections = [Selection(logged)] if logged else []
    others = sorted(set(runs) - {row.run for row in logged})
    if others and metric.startswith(STEP_PREFIX):
        of_steps = _of_steps(connection, others, metric)
        selections += [of_steps] if of_steps.rows else []
    return selections


def _logged(connection: duckdb.DuckDBPyConnection, runs: Sequence[str], metric: str) -> list[SeriesRow]:
    """In two plain questions: planning one with a join takes longer than both."""
    named = connection.execute(_NAMED, [list(runs), metric]).fetchall()
    if not named:
        return []
    ids = [row[1] for row in named]
    if len(ids) <= LISTED:
        told = connection.execute(_TOLD.format(f"series IN ({_listed(ids)})"))
    else:
        told = connection.execute(_TOLD.format("series IN (SELECT unnest($1::INTEGER[]))"), [ids])
    statistics = {series: row for series, *row in told.fetchall()}
    return [SeriesRow(*row, *statistics[row[1]]) for row in named if row[1] in statistics]


def _of_steps(connection: duckdb.DuckDBPyConnection, runs: Sequence[str], metric: str) -> Selection:
    if metric == STEP_TIME:
        phases, table = [WHOLE_STEP], _WHOLE_STEPS
    else:
        found = connection.execute("SELECT id FROM phase_names WHERE name = ?", [metric.removeprefix(STEP_PREFIX)])
        phases = [number for (number,) in found.fetchall()]
        table = _OF_PHASES.format(", ".join(map(str, phases)))
    if not phases:
        return Selection([])
    return Selection([SeriesRow(*row) for row in connection.execute(_STEPS, [list(runs), phases]).fetchall()], table)


class Rows(NamedTuple):
    """SQL of the rows of some choices: what to read (alias ``p``), a filter, and ``line``: -1 for rows of none.

    ``joined`` is the filter where ``p`` is joined once more. ``crowded``: many series feed a line, as ranks do.
    """

    source: str
    where: str
    joined: str
    line: str
    crowded: bool


def rows_of(connection: duckdb.DuckDBPyConnection, table: str, choices: Sequence[Choice]) -> Rows:
    """How to read the points of ``choices``, the cheapest way that will do. May register a table ``chosen``."""
    ways: dict[Choice, list[int]] = {}
    for choice in choices:
        ways.setdefault(choice._replace(series=0), []).append(choice.series)
    numbers = [choice.series for choice in choices]
    where, joined = _filter(numbers), _listed_or_range(numbers)
    crowded = len(numbers) > CROWD * len({choice.line for choice in choices})
    if len(ways) <= CASES and len(choices) <= LISTED:
        return Rows(f"{table} p", where, joined, _line(ways), crowded)
    connection.register(
        "chosen", {name: np.array([getattr(choice, name) for choice in choices], np.int64) for name in Choice._fields}
    )
    line = "c.line"
    if any(choice.last != INT64_MAX for choice in choices):
        line = "CASE WHEN p.step > c.last THEN c.abandoned ELSE c.line END"
    return Rows(f"{table} p JOIN chosen c ON p.series = c.series", joined, joined, line, crowded)


def literal(number: int) -> str:
    """An int64 in SQL."""
    return f"({number}::BIGINT)" if number > INT64_MIN else "((-9223372036854775807)::BIGINT - 1)"


def span(rows: Sequence[SeriesRow], choices: Sequence[Choice], x: Axis) -> tuple[int, int]:
    """The lowest and the highest step or time of the series of ``choices``."""
    chosen = {choice.series for choice in choices}
    of = "step" if x == "step" else "time"
    return (
        min(getattr(row, f"first_{of}") for row in rows if row.id in chosen),
        max(getattr(row, f"last_{of}") for row in rows if row.id in chosen),
    )


def _line(ways: dict[Choice, list[int]]) -> str:
    """The line of a point: the most common one, but for points beyond a limit and series of other lines."""
    lines = Counter(way.line for way in ways)
    ((common, _),) = lines.most_common(1)
    beyond = [
        f"WHEN p.series IN ({_listed(numbers)}) AND p.step > {literal(way.last)} THEN {way.abandoned}"
        for way, numbers in ways.items()
        if way.last != INT64_MAX
    ]
    others = [
        f"WHEN p.series IN ({_listed(numbers)}) THEN {way.line}" for way, numbers in ways.items() if way.line != common
    ]
    return f"CASE {' '.join(beyond + others)} ELSE {common} END" if beyond or others else str(common)


def _filter(numbers: Sequence[int]) -> str:
    """A filter that zone maps can use; as a range, one series costs a third of what it costs in a list."""
    return f"p.series BETWEEN {numbers[0]} AND {numbers[0]}" if len(numbers) == 1 else _listed_or_range(numbers)


def _listed_or_range(numbers: Sequence[int]) -> str:
    """A filter beside a join.

    The -1, which no series has, keeps it from becoming an equality: the engine would then guess that few points are meant,
    and join from the wrong side, at five times the cost.
    """
    if len(numbers) <= LISTED:
        return f"p.series IN ({_listed([*numbers, -1])})"
    return f"p.series BETWEEN {min(numbers)} AND {max(numbers)}"


def _listed(numbers: Sequence[Any]) -> str:
    return ", ".join(map(str, numbers))
