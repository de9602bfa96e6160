"""Which series make up which line of a chart: grouping, narrowing and stitching, the same for every engine.

A line survives or is abandoned (``ChartQuery.history``). A series adds its points up to ``Choice.last`` to a surviving line
and the rest, if any, to an abandoned one.
"""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from stepward.ingest.protocols import SYSTEM_PREFIX
from stepward.model.points import Line, Restart
from stepward.store.points.protocol import MAX_LINES, AttemptSpan, ChartQuery

INT64_MIN, INT64_MAX = -(1 << 63), (1 << 63) - 1
HIDDEN = -1


class SeriesRow(NamedTuple):
    """A series of the metric asked for that has points: their number, their first and last step and time.

    ``part``: its rank is not its source's. It is a part of what the source has without a rank.
    """

    run: str
    id: int
    unit: str
    attempt: str
    rank: int | None
    device: int | None
    node: str
    part: bool
    n: int
    first_step: int
    last_step: int
    first_time: int
    last_time: int


class Choice(NamedTuple):
    """A series of the chart: steps up to ``last`` belong to line ``line``, later ones to ``abandoned`` (-1 = to none)."""

    series: int
    line: int
    last: int
    abandoned: int


class Plan(NamedTuple):
    """Lines to fill, the series that fill them, and how many lines there would be without the limit."""

    lines: list[Line]
    choices: list[Choice]
    lines_total: int


GroupKey = tuple[bool, int, str, int]


def plan(rows: Sequence[SeriesRow], query: ChartQuery) -> Plan:
    """Lay out the lines of a chart."""
    wanted = narrowed(rows, query)
    groups: dict[GroupKey, list[SeriesRow]] = {}
    for row in wanted:
        groups.setdefault(_group(row, query), []).append(row)
    drawn = sorted(groups)[:MAX_LINES]
    lines = [_line(groups[key], query) for key in drawn]
    limits = _limits(query)
    spans = {span.key: span for span in query.history}
    branches = sorted(
        {
            (-spans[row.attempt].number, index)
            for index, key in enumerate(drawn)
            for row in groups[key]
            if row.attempt in limits
        }
    )[:MAX_LINES]
    abandoned = {}
    for number, index in branches:
        abandoned[-number, index] = len(lines)
        like = lines[index]
        lines.append(Line(rank=like.rank, device=like.device, node=like.node, attempt=-number, abandoned=True))
    choices = []
    for index, key in enumerate(drawn):
        for row in groups[key]:
            limit = limits.get(row.attempt)
            other = HIDDEN if limit is None else abandoned.get((spans[row.attempt].number, index), HIDDEN)
            if limit is None:
                choices.append(Choice(row.id, index, INT64_MAX, HIDDEN))
            elif limit == INT64_MIN:
                choices.append(Choice(row.id, other, INT64_MAX, HIDDEN))
            else:
                choices.append(Choice(row.id, index, limit - 1, other))
    return Plan(lines, choices, len(groups))


def restarts(query: ChartQuery) -> list[Restart]:
    """Where every attempt but the first begins on the axis."""
    marks = []
    for span in query.history[1:] if query.attempt is None else []:
        if query.x == "step":
            if span.first_step is not None and not query.metric.startswith(SYSTEM_PREFIX):
                marks.append(Restart(span.number, float(span.first_step)))
        else:
            origin = query.run_started_us if query.x == "relative" else 0
            marks.append(Restart(span.number, (span.started_at_us - origin) / 1e6))
    return marks


def empty_reason(rows: Sequence[SeriesRow], query: ChartQuery, *, run_has_points: bool) -> str:
    """Why a chart has no points."""
    if not run_has_points:
        return "this run has logged no points yet"
    if not rows:
        return f"this run has not logged {query.metric}"
    if query.rank is not None and all(row.rank != query.rank for row in rows):
        return f"no points of {query.metric} for rank {query.rank}"
    if query.device is not None and all(row.device != query.device for row in rows):
        return f"no points of {query.metric} for device {query.device}"
    if not narrowed(rows, query):
        return f"no points of {query.metric} for what was asked (rank, device, attempt)"
    return "no points in this range"


def surviving(rows: Sequence[SeriesRow], query: ChartQuery) -> list[Choice]:
    """The choices of the one line over everything, without what was abandoned."""
    whole = plan(rows, msgspec.structs.replace(query, by="none"))
    return [
        Choice(choice.series, 0, choice.last, HIDDEN)
        for choice in whole.choices
        if choice.line != HIDDEN and not whole.lines[choice.line].abandoned
    ]


def narrowed(rows: Sequence[SeriesRow], query: ChartQuery) -> list[SeriesRow]:
    """The series that were asked for. Parts of a whole are left out where one line is drawn over everything."""
    wanted = [row for row in rows if _wanted(row, query)]
    if query.by == "none" and any(not row.part for row in wanted):
        return [row for row in wanted if not row.part]
    return wanted


def _wanted(row: SeriesRow, query: ChartQuery) -> bool:
    if query.rank is not None and row.rank != query.rank:
        return False
    if query.device is not None and row.device != query.device:
        return False
    return query.attempt is None or any(
        span.key == row.attempt for span in query.history if span.number == query.attempt
    )


def _group(row: SeriesRow, query: ChartQuery) -> GroupKey:
    """Equal for series of one line; in the order of the lines: ranks first, then nodes."""
    if query.by == "none":
        return (False, 0, "", 0)
    device = -1 if row.device is None or query.by == "rank" else row.device
    return (True, 0, row.node, device) if row.rank is None else (False, row.rank, "", device)


def _line(rows: Sequence[SeriesRow], query: ChartQuery) -> Line:
    nodes = {row.node for row in rows}
    return Line(
        rank=query.rank if query.by == "none" else rows[0].rank,
        device=rows[0].device if query.by == "device" else query.device,
        node=nodes.pop() or None if query.by != "none" and len(nodes) == 1 else None,
        attempt=query.attempt,
    )


def _limits(query: ChartQuery) -> dict[str, int]:
    """Attempt key -> the step from which on it is abandoned; attempts that survive whole are not in there."""
    if query.attempt is not None or query.metric.startswith(SYSTEM_PREFIX):
        return {}
    limits: dict[str, int] = {}
    lowest: int | None = None
    span: AttemptSpan
    for span in reversed(query.history):
        if lowest is not None:
            limits[span.key] = lowest
        if span.first_step is not None:
            lowest = span.first_step if lowest is None else min(lowest, span.first_step)
    return limits
