"""The points protocol in plain Python: what a store must answer, computed from a list of points. Slow, and right.

``stepward.testing.points`` compares stores with it.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from stepward.model.points import Line
from stepward.store.points.protocol import ChartQuery

LIMITS = [-(1 << 63), -(1 << 63) + 1, -1, 0, 1, (1 << 53) + 1, (1 << 63) - 2, (1 << 63) - 1]


class Sample(NamedTuple):
    """One point and where it belongs; ``part`` is the rank of a series of a source that is no rank."""

    attempt: int
    rank: int | None
    device: int | None
    step: int
    time: int
    value: float
    part: int | None = None

    @property
    def of_rank(self) -> int | None:
        """The rank that the point is about."""
        return self.rank if self.part is None else self.part


def bits(value: float) -> str:
    """The exact value; all NaN are equal."""
    return "nan" if math.isnan(value) else value.hex()


def expected_chart(points: Sequence[Sample], query: ChartQuery) -> list[Line]:
    """The lines that the protocol's words demand, from a list of points."""
    wanted = wanted_points(points, query)
    low, high = _range(wanted, query)
    if low is None or high is None or low > high:
        return []
    width = -(-(high - low + 1) // query.buckets)
    lines: dict[Any, tuple[Line, dict[int, list[Sample]]]] = {}
    for point in wanted:
        at = _x(point, query)
        if low <= at <= high:
            key, line = _line_of(point, query)
            buckets = lines.setdefault(key, (line, {}))[1]
            buckets.setdefault((at - low) // width, []).append(point)
    for line, buckets in lines.values():
        for _, members in sorted(buckets.items()):
            _add_bucket(line, members, query)
    return [line for _, (line, _) in sorted(lines.items(), key=lambda item: item[0])]


def wanted_points(points: Sequence[Sample], query: ChartQuery) -> list[Sample]:
    """The points that a question is about: without the parts of a whole where one line is drawn over everything."""
    wanted = [point for point in points if _asked_for(point, query)]
    if query.by == "none" and any(point.part is None for point in wanted):
        return [point for point in wanted if point.part is None]
    return wanted


def surviving_points(points: Sequence[Sample], query: ChartQuery) -> list[Sample]:
    """The points of the range that no later attempt has overtaken, over everything."""
    query = msgspec.structs.replace(query, by="none")
    wanted = wanted_points(points, query)
    low, high = _range(wanted, query)
    there = [point for point in wanted if not _line_of(point, query)[1].abandoned]
    if low is None or high is None:
        return []
    return [point for point in there if low <= _x(point, query) <= high]


def expected_profile(points: Sequence[Sample], query: ChartQuery) -> list[tuple[Any, ...]]:
    """(step, step_last, ranks, argmin, argmax, min, p50, p99, max) of each entry, values as bits."""
    query = msgspec.structs.replace(query, x="step", by="rank")
    wanted = [point for point in wanted_points(points, query) if point.of_rank is not None]
    low, high = _range(wanted, query)
    if low is None or high is None or low > high:
        return []
    width = -(-(high - low + 1) // query.buckets)
    entries: dict[int, list[Sample]] = {}
    for point in wanted:
        if low <= point.step <= high and not _line_of(point, query)[1].abandoned:
            entries.setdefault((point.step - low) // width, []).append(point)
    return [_expected_entry(members) for _, members in sorted(entries.items())]


def _expected_entry(members: Sequence[Sample]) -> tuple[Any, ...]:
    steps = [point.step for point in members]
    newest: dict[tuple[int, int], Sample] = {}
    for point in sorted(members, key=lambda point: (point.time, nan_last(point.value))):
        if math.isfinite(point.value) and point.of_rank is not None:
            newest[point.of_rank, point.step] = point
    ranked = sorted((point.value, rank) for (rank, _), point in newest.items())
    numbers = [value for value, _ in ranked]
    first = (min(steps), max(steps), len({rank for rank, _ in newest}))
    if not ranked:
        return (*first, None, None, None, None, None, None)
    argmax = min(rank for value, rank in ranked if value == numbers[-1])
    extremes = (numbers[0], nearest_rank(numbers, 50), nearest_rank(numbers, 99), numbers[-1])
    return (*first, ranked[0][1], argmax, *map(bits_or_none, extremes))


def nearest_rank(numbers: Sequence[float], percent: int) -> float | None:
    """The quantile of numbers in order."""
    return numbers[-(-percent * len(numbers) // 100) - 1] if numbers else None


def nan_last(value: float) -> tuple[bool, float]:
    """Sorts NaN above all numbers."""
    return (math.isnan(value), 0.0 if math.isnan(value) else value)


def bits_or_none(value: float | None) -> str | None:
    """The exact value but for the sign of zero."""
    return None if value is None else bits(value + 0.0)


def _asked_for(point: Sample, query: ChartQuery) -> bool:
    return (
        (query.rank is None or point.of_rank == query.rank)
        and (query.device is None or point.device == query.device)
        and (query.attempt is None or point.attempt + 1 == query.attempt)
    )


def _x(point: Sample, query: ChartQuery) -> int:
    return point.step if query.x == "step" else point.time


def _range(points: Sequence[Sample], query: ChartQuery) -> tuple[int | None, int | None]:
    def bound(asked: float | None, cut: Callable[[float], int]) -> int | None:
        if asked is None:
            return None
        if math.isinf(asked):
            return LIMITS[-1] if asked > 0 else LIMITS[0]
        if query.x == "step":
            exact = cut(asked)
        else:
            exact = round(asked * 1e6) if math.isfinite(asked * 1e6) else (1 << 70) * (1 if asked > 0 else -1)
            exact += query.run_started_us if query.x == "relative" else 0
        return max(LIMITS[0], min(LIMITS[-1], exact))

    xs = [_x(point, query) for point in points]
    low, high = bound(query.start, math.ceil), bound(query.end, math.floor)
    return (min(xs, default=None) if low is None else low, max(xs, default=None) if high is None else high)


def _line_of(point: Sample, query: ChartQuery) -> tuple[Any, Line]:
    """Sort key and empty line of a point: surviving lines first, then abandoned ones, newest attempt first."""
    later = [span.first_step for span in query.history[point.attempt + 1 :] if span.first_step is not None]
    stitched = query.attempt is None and not query.metric.startswith("system/")
    abandoned = stitched and any(point.step >= first for first in later)
    rank = point.of_rank
    group: tuple[Any, ...] = ()
    line = Line(rank=query.rank, device=query.device)
    if query.by != "none":
        group = (rank is None, -1 if rank is None else rank)
        line = Line(rank=rank, device=query.device, node="n0")
    if query.by == "device":
        group += (-1 if point.device is None else point.device,)
        line.device = point.device
    line.attempt = query.attempt
    if abandoned:
        line.abandoned, line.attempt = True, point.attempt + 1
    return (abandoned, -point.attempt if abandoned else 0, group), line


def _add_bucket(line: Line, members: Sequence[Sample], query: ChartQuery) -> None:
    def order(point: Sample) -> tuple[int, int, float]:
        other = point.time if query.x == "step" else point.step
        return (_x(point, query), other, point.value)

    finite = sorted((point for point in members if math.isfinite(point.value)), key=order)
    numbers = [point.value for point in finite]
    xs = [_x(point, query) for point in members]
    line.x.append(_shown(min(xs), query))
    line.x_last.append(_shown(max(xs), query))
    line.min.append(min(numbers, default=None))
    line.max.append(max(numbers, default=None))
    line.mean.append(math.fsum(value / len(numbers) for value in numbers) if numbers else None)
    line.first.append(numbers[0] if numbers else None)
    line.last.append(numbers[-1] if numbers else None)
    line.count.append(len(members))
    line.n_nan.append(sum(math.isnan(point.value) for point in members))
    line.n_posinf.append(sum(point.value == math.inf for point in members))
    line.n_neginf.append(sum(point.value == -math.inf for point in members))


def _shown(x: int, query: ChartQuery) -> float:
    if query.x == "step":
        return float(x)
    return (float(x) - (query.run_started_us if query.x == "relative" else 0)) / 1e6
