"""The half of the conformance suite that asks for figures: charts, profiles of ranks, tails, numbers, comparisons."""

import json
import math
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepward.model.frames import PhaseColumn, Source
from stepward.model.points import Chart, Line
from stepward.model.words import Clock, SourceKind
from stepward.store.points.protocol import AttemptSpan, ChartQuery, ComparedRun, CompareQuery, PointsStore
from stepward.testing.frames import FrameWriter, points_part, steps_part
from stepward.testing.points_model import (
    LIMITS,
    Sample,
    bits,
    bits_or_none,
    expected_chart,
    expected_profile,
    nan_last,
    nearest_rank,
    surviving_points,
)
from stepward.testing.points_samples import (
    NO_SHRINKING,
    SLOW,
    PointsStoreCase,
    new_run,
    queries,
    samples,
    store_samples,
)


class Figures(PointsStoreCase):
    """Everything that is computed from points, held to the model."""

    @settings(
        max_examples=100,
        phases=NO_SHRINKING,
        deadline=None,
        suppress_health_check=SLOW,
    )
    @given(points=samples, query=queries())
    def test_a_chart_is_what_the_points_say(self, store: PointsStore, points: list[Sample], query: ChartQuery) -> None:
        """Every aggregate of every bucket of every line, over any points and any question."""
        run = new_run()
        store_samples(store, run, query.metric, points)
        query = _with_run(query, run)
        assert_same(store.chart("p", query), expected_chart(points, query))

    @pytest.mark.parametrize("buckets", [1, 7, 1000])
    @pytest.mark.parametrize("at", [0, 1, 4999, 9998, 9999])
    def test_one_spike_is_seen_at_every_zoom(self, store: PointsStore, at: int, buckets: int) -> None:
        """One value out of line among 10^4, in ranges around it of every width."""
        run = new_run()
        steps = list(range(10_000))
        data = [1e6 if step == at else 0.5 for step in steps]
        self.commit(store, FrameWriter(run, run).encoded(points_part([("m", None)], steps, steps, data)))
        width = 1
        while width < 20_000:
            query = ChartQuery(run=run, metric="m", start=float(at - width), end=float(at + width), buckets=buckets)
            (line,) = store.chart("p", query).lines
            assert max(value for value in line.max if value is not None) == 1e6
            assert sum(line.count) == len([step for step in steps if at - width <= step <= at + width])
            width *= 4

    def test_negative_zero_keeps_its_sign(self, store: PointsStore) -> None:
        """In every column of a bucket that holds nothing else."""
        run = new_run()
        part = points_part([("m", None)], [1, 2, 3], [1, 2, 3], [-0.0, 0.0, -1.0])
        self.commit(store, FrameWriter(run, run).encoded(part))
        (line,) = store.chart("p", ChartQuery(run=run, metric="m", buckets=1000)).lines
        columns = (line.min, line.max, line.mean, line.first, line.last)
        assert [[math.copysign(1, value) for value in column if value is not None] for column in columns] == [
            [-1, 1, -1]
        ] * 5

    def test_a_chart_says_whether_it_holds_a_rounded_integer(self, store: PointsStore) -> None:
        """Of its metric, and in its range."""
        run = new_run()
        part = points_part(
            [("m", None), ("n", None)], [1, 2, 3], [1, 2, 3], [[1.0, 1.0], [2.0**60, 2.0], [3.0, 3.0]], rounded=[2]
        )
        self.commit(store, FrameWriter(run, run).encoded(part))
        asked = [
            ChartQuery(run=run, metric="m"),
            ChartQuery(run=run, metric="m", start=3.0),
            ChartQuery(run=run, metric="n"),
        ]
        assert [store.chart("p", query).rounded for query in asked] == [True, False, False]

    @pytest.mark.parametrize("by", ["none", "rank"])
    def test_another_metric_of_many_ranks_is_not_drawn_along(self, store: PointsStore, by: Any) -> None:
        """Series of two metrics, more than a filter lists, numbered in turn."""
        run = new_run()
        for rank in range(80):
            source = Source(kind=SourceKind.RANK, attempt="a0", rank=rank)
            writer = FrameWriter(run, f"{run}-{rank}", source=source)
            self.commit(store, writer.encoded(points_part([("m", None), ("other", None)], [1], [1], [[rank, 1e9]])))
        chart = store.chart("p", ChartQuery(run=run, metric="m", by=by))
        assert sum(sum(line.count) for line in chart.lines) == (80 if by == "none" else 64)
        assert chart.lines[-1].max == [79.0 if by == "none" else 63.0]

    def test_step_times_are_series(self, store: PointsStore) -> None:
        """``step/time`` and ``step/<phase>`` come from the table of steps; a metric that the run logs goes before them."""
        run = new_run()
        phases = [PhaseColumn("forward", Clock.DEVICE), PhaseColumn("data_wait")]
        part = steps_part(
            phases, [7, 8, 9], [70, 80, 90], [0.1, 0.2, 0.3], [[0.05, math.nan], [0.06, 0.01], [0.07, 0.02]]
        )
        rows = self.commit(store, FrameWriter(run, run).encoded(part))
        found = {series.metric: series for series in store.series("p", run)}
        assert sorted(found) == ["step/data_wait", "step/forward", "step/time"]
        assert (found["step/time"].unit, found["step/time"].count, found["step/time"].ranks) == ("s", 3, [0])
        assert (found["step/data_wait"].count, found["step/data_wait"].first_step) == (2, 8)
        chart = store.chart("p", ChartQuery(run=run, metric="step/data_wait", x="time"))
        assert (chart.unit, chart.lines[0].x, chart.lines[0].last) == ("s", [8e-05, 9e-05], [0.01, 0.02])
        history = [AttemptSpan("a0", 1, 7, 0), AttemptSpan("a1", 2, 9, 0)]
        stitched = store.chart("p", ChartQuery(run=run, metric="step/time", history=history)).lines
        assert [(line.abandoned, line.x) for line in stitched] == [(False, [7.0, 8.0]), (True, [9.0])]
        newest = {summary.metric: summary for summary in rows.frame.metrics}
        assert (newest["step/time"].value, newest["step/data_wait"].count, newest["step/time"].unit) == (0.3, 2, "s")
        lines = [json.loads(line) for line in b"".join(store.export("p", run, attempts={})).splitlines()]
        exported = [(line["metric"], line["unit"], line["step"], line["value"]) for line in lines]
        assert exported[:3] == [("step/time", "s", 7, 0.1), ("step/time", "s", 8, 0.2), ("step/time", "s", 9, 0.3)]
        assert sorted(exported[3:]) == [
            *(("step/data_wait", "s", step, value) for step, value in ((8, 0.01), (9, 0.02))),
            *(("step/forward", "s", step, value) for step, value in ((7, 0.05), (8, 0.06), (9, 0.07))),
        ]
        own = points_part([("step/time", None)], [1], [1], [42.0])
        self.commit(store, FrameWriter(run, f"{run}-own").encoded(own))
        assert store.chart("p", ChartQuery(run=run, metric="step/time")).lines[0].last == [42.0]
        assert [series.count for series in store.series("p", run) if series.metric == "step/time"] == [1]

    @settings(max_examples=60, phases=NO_SHRINKING, deadline=None, suppress_health_check=SLOW)
    @given(points=samples, query=queries())
    def test_the_profile_of_ranks_is_what_the_points_say(
        self, store: PointsStore, points: list[Sample], query: ChartQuery
    ) -> None:
        """Quantiles, ties, devices, points that come twice: as the protocol says, whatever the points."""
        run = new_run()
        store_samples(store, run, query.metric, points)
        profile = store.profile("p", _with_run(query, run))
        assert [
            (*row[:5], *map(bits_or_none, row[5:]))
            for row in zip(
                profile.step,
                profile.step_last,
                profile.ranks,
                profile.argmin,
                profile.argmax,
                profile.min,
                profile.p50,
                profile.p99,
                profile.max,
                strict=True,
            )
        ] == expected_profile(points, query)
        assert (profile.empty_reason is None) == bool(profile.step)

    @settings(max_examples=60, phases=NO_SHRINKING, deadline=None, suppress_health_check=SLOW)
    @given(points=samples, query=queries(), last=st.integers(1, 10))
    def test_tail_and_stats_are_what_the_points_say(
        self, store: PointsStore, points: list[Sample], query: ChartQuery, last: int
    ) -> None:
        """The newest surviving points; counts, quantiles and extremes of all."""
        run = new_run()
        store_samples(store, run, query.metric, points)
        query = _with_run(query, run)
        there = surviving_points(points, query)
        newest = sorted(there, key=lambda point: (point.step, point.time, nan_last(point.value)))[-last:]
        tail = store.tail("p", query, attempts={"a0": 1, "a1": 2, "a2": 3}, last=last)
        assert [(point.step, bits(float(point.value) + 0.0)) for point in tail] == [
            (point.step, bits(point.value + 0.0)) for point in newest
        ]
        stats, finite = store.stats("p", query), sorted(point.value for point in there if math.isfinite(point.value))
        assert (stats.count, stats.n_nan) == (len(there), sum(math.isnan(point.value) for point in there))
        assert stats.n_posinf + stats.n_neginf == len(there) - len(finite) - stats.n_nan
        assert (stats.min, stats.max) == ((finite[0], finite[-1]) if finite else (None, None))
        assert (stats.p50, stats.p99) == (nearest_rank(finite, 50), nearest_rank(finite, 99))
        steps = [point.step for point in there]
        assert (stats.first_step, stats.last_step) == (min(steps, default=None), max(steps, default=None))

    @settings(max_examples=40, phases=NO_SHRINKING, deadline=None, suppress_health_check=SLOW)
    @given(groups=st.lists(st.tuples(samples, st.integers(0, 20)), min_size=1, max_size=3), query=queries())
    def test_runs_are_compared_in_the_same_buckets(
        self, store: PointsStore, groups: list[tuple[list[Sample], int]], query: ChartQuery
    ) -> None:
        """Each line is that of a chart of the run alone in the range of all."""
        runs = [new_run() for _ in groups]
        for run, (points, _) in zip(runs, groups, strict=True):
            store_samples(store, run, query.metric, [point for point in points if _exact(point)])
        compared = [ComparedRun(run, query.history, started) for run, (_, started) in zip(runs, groups, strict=True)]
        asked = CompareQuery(
            metric=query.metric, runs=compared, x=query.x, start=query.start, end=query.end, buckets=query.buckets
        )
        answer = store.compare("p", asked)
        lines = {line.run: line for line in answer.lines}
        assert list(lines) == [run for run in runs if run in lines]
        every = [store.chart("p", _alone(query, run, None, None)) for run in compared]
        xs = [x for chart in every for line in chart.lines for x in (line.x[0], line.x_last[-1])]
        low = min(xs, default=0.0) if query.start is None else query.start
        high = max(xs, default=0.0) if query.end is None else query.end
        for one in compared:
            alone = [line for line in store.chart("p", _alone(query, one, low, high)).lines if not line.abandoned]
            assert (one.run in lines) == bool(alone)
            if alone:
                line = lines[one.run]
                assert sum(line.count) == sum(alone[0].count)
                assert (line.x[0], line.x_last[-1]) == (alone[0].x[0], alone[0].x_last[-1])
                assert _extremes(line) == _extremes(alone[0])

    def test_broken_clocks_are_compared_too(self, store: PointsStore) -> None:
        """Times at both ends of int64, shifted to the start of their run."""
        run = new_run()
        store_samples(store, run, "m", [Sample(0, 0, None, n, time, 1.0) for n, time in enumerate(LIMITS)])
        for started in (LIMITS[0], 0, 1_700_000_000_000_000, LIMITS[-1]):
            asked = CompareQuery(metric="m", runs=[ComparedRun(run, [], started)], x="relative")
            assert sum(store.compare("p", asked).lines[0].count) == len(LIMITS)


def _exact(point: Sample) -> bool:
    """Whether an axis of floats holds its x exactly."""
    return abs(point.time) < 1 << 50 and abs(point.step) < 1 << 50


def _with_run(query: ChartQuery, run: str) -> ChartQuery:
    return msgspec.structs.replace(query, run=run)


def assert_same(chart: Chart, lines: Sequence[Line]) -> None:
    """A chart has exactly these lines; means may differ in their last digits, as sums in another order do."""
    assert len(chart.lines) == len(lines)
    assert (chart.empty_reason is None) == bool(lines)
    for got, want in zip(chart.lines, lines, strict=True):
        for name in Line.__struct_fields__:
            if name != "mean":
                assert getattr(got, name) == getattr(want, name), name
        for index, (mean, exact) in enumerate(zip(got.mean, want.mean, strict=True)):
            if exact is None or mean is None:
                assert mean is exact is None
                continue
            low, high = want.min[index], want.max[index]
            assert low is not None
            assert high is not None
            assert low <= mean <= high
            assert abs(mean - exact) <= 1e-9 * max(abs(low), abs(high)) + 1e-300


def _extremes(line: Line) -> tuple[float | None, float | None]:
    lows, highs = [low for low in line.min if low is not None], [high for high in line.max if high is not None]
    return min(lows, default=None), max(highs, default=None)


def _alone(query: ChartQuery, run: ComparedRun, low: float | None, high: float | None) -> ChartQuery:
    return ChartQuery(
        run=run.run,
        metric=query.metric,
        x=query.x,
        start=low,
        end=high,
        history=run.history,
        run_started_us=run.started_us,
    )
