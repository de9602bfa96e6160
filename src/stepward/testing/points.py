"""Conformance suite of ``PointsStore``: a store is right when it answers as a brute-force model of the protocol does.

Subclass ``PointsStoreSuite`` in a test module, give it an ``open_store``; every engine gets the same questions. Needs pytest and
hypothesis.
"""

import json
import math
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from stepward.ingest.decode import decode_frame
from stepward.ingest.sequence import Sequencer
from stepward.model import frames
from stepward.model.frames import PhaseColumn, Source, Status
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

_runs = count()


whole = st.integers(0, 12) | st.sampled_from(LIMITS)
values = (
    st.sampled_from([math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, 1.0, 2.0, 1e308, -1e308, 5e-324, 0.1])
    | st.floats(width=64)
    | st.floats(-10, 10)
)
samples = st.lists(
    st.builds(
        Sample,
        attempt=st.integers(0, 2),
        rank=st.sampled_from([None, 0, 1, 2]),
        device=st.sampled_from([None, 0, 1]),
        step=whole,
        time=whole,
        value=values,
        part=st.sampled_from([None, None, None, 0, 2]),
    ),
    max_size=40,
)
bounds = st.none() | st.integers(-3, 15).map(float) | st.floats(allow_nan=False) | st.sampled_from([4.5, 1e-6, 3e-6])


@st.composite
def queries(draw: st.DrawFn) -> ChartQuery:
    """Any question about metric ``m``."""
    history = [
        AttemptSpan(f"a{number}", number + 1, draw(st.none() | whole), draw(st.integers(0, 20))) for number in range(3)
    ]
    return ChartQuery(
        run="",
        metric=draw(st.sampled_from(["m", "m", "m", "system/m"])),
        x=draw(st.sampled_from(["step", "time", "relative"])),
        start=draw(bounds),
        end=draw(bounds),
        buckets=draw(st.integers(1, 30)),
        by=draw(st.sampled_from(["none", "rank", "device"])),
        rank=draw(st.sampled_from([None, None, 0, 2])),
        device=draw(st.sampled_from([None, None, 1])),
        attempt=draw(st.sampled_from([None, None, 1, 3])),
        history=history,
        run_started_us=draw(st.sampled_from([0, 5, 1_000_000])),
    )


def store_samples(store: PointsStore, run: str, metric: str, points: Sequence[Sample]) -> None:
    """Commit samples through the ingest path, a frame a point, in order."""
    sequencer = Sequencer(lambda: store.positions("p"))
    writers: dict[tuple[int, int | None], FrameWriter] = {}
    rows = []
    for point in points:
        kind = SourceKind.WRAPPER if point.rank is None else SourceKind.RANK
        source = Source(kind=kind, attempt=f"a{point.attempt}", rank=point.rank, node="n0")
        name = f"{run}-{point.attempt}-{point.rank}"
        writer = writers.setdefault((point.attempt, point.rank), FrameWriter(run, name, source=source))
        part = points_part([(metric, point.device, point.part)], [point.step], [point.time], [point.value])
        admitted = sequencer.admit(decode_frame(writer.encoded(part)), allow_gap=False, received_at=1)
        assert admitted is not None
        rows.append(admitted)
    if rows:
        store.commit("p", rows)
        sequencer.committed()


_NO_SHRINKING = [Phase.reuse, Phase.generate]
"""Shrinking against a database takes minutes."""
_SLOW = [HealthCheck.differing_executors, HealthCheck.too_slow]


class PointsStoreSuite:
    """The questions. ``open_store`` opens the store of a data folder; called again after ``close``."""

    @classmethod
    def open_store(cls, data: str) -> PointsStore:
        """A store on the folder ``data``."""
        raise NotImplementedError

    @pytest.fixture(scope="class")
    @classmethod
    def store(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PointsStore]:
        """One store for all questions of the class."""
        store = cls.open_store(str(tmp_path_factory.mktemp("data")))
        yield store
        store.close()

    @settings(
        max_examples=100,
        phases=_NO_SHRINKING,
        deadline=None,
        suppress_health_check=_SLOW,
    )
    @given(points=samples, query=queries())
    def test_a_chart_is_what_the_points_say(self, store: PointsStore, points: list[Sample], query: ChartQuery) -> None:
        """Every aggregate of every bucket of every line, over any points and any question."""
        run = f"run_{next(_runs)}"
        store_samples(store, run, query.metric, points)
        query = _with_run(query, run)
        assert_same(store.chart("p", query), expected_chart(points, query))

    @pytest.mark.parametrize("buckets", [1, 7, 1000])
    @pytest.mark.parametrize("at", [0, 1, 4999, 9998, 9999])
    def test_one_spike_is_seen_at_every_zoom(self, store: PointsStore, at: int, buckets: int) -> None:
        """One value out of line among 10^4, in ranges around it of every width."""
        run = f"run_{next(_runs)}"
        steps = list(range(10_000))
        data = [1e6 if step == at else 0.5 for step in steps]
        self._commit(store, FrameWriter(run, run).encoded(points_part([("m", None)], steps, steps, data)))
        width = 1
        while width < 20_000:
            query = ChartQuery(run=run, metric="m", start=float(at - width), end=float(at + width), buckets=buckets)
            (line,) = store.chart("p", query).lines
            assert max(value for value in line.max if value is not None) == 1e6
            assert sum(line.count) == len([step for step in steps if at - width <= step <= at + width])
            width *= 4

    def test_negative_zero_keeps_its_sign(self, store: PointsStore) -> None:
        """In every column of a bucket that holds nothing else."""
        run = f"run_{next(_runs)}"
        part = points_part([("m", None)], [1, 2, 3], [1, 2, 3], [-0.0, 0.0, -1.0])
        self._commit(store, FrameWriter(run, run).encoded(part))
        (line,) = store.chart("p", ChartQuery(run=run, metric="m", buckets=1000)).lines
        columns = (line.min, line.max, line.mean, line.first, line.last)
        assert [[math.copysign(1, value) for value in column if value is not None] for column in columns] == [
            [-1, 1, -1]
        ] * 5

    @pytest.mark.parametrize("by", ["none", "rank"])
    def test_another_metric_of_many_ranks_is_not_drawn_along(self, store: PointsStore, by: Any) -> None:
        """Series of two metrics, more than a filter lists, numbered in turn."""
        run = f"run_{next(_runs)}"
        for rank in range(80):
            source = Source(kind=SourceKind.RANK, attempt="a0", rank=rank)
            writer = FrameWriter(run, f"{run}-{rank}", source=source)
            self._commit(store, writer.encoded(points_part([("m", None), ("other", None)], [1], [1], [[rank, 1e9]])))
        chart = store.chart("p", ChartQuery(run=run, metric="m", by=by))
        assert sum(sum(line.count) for line in chart.lines) == (80 if by == "none" else 64)
        assert chart.lines[-1].max == [79.0 if by == "none" else 63.0]

    def test_step_times_are_series(self, store: PointsStore) -> None:
        """``step/time`` and ``step/<phase>`` come from the table of steps; a metric that the run logs goes before them."""
        run = f"run_{next(_runs)}"
        phases = [PhaseColumn("forward", Clock.DEVICE), PhaseColumn("data_wait")]
        part = steps_part(
            phases, [7, 8, 9], [70, 80, 90], [0.1, 0.2, 0.3], [[0.05, math.nan], [0.06, 0.01], [0.07, 0.02]]
        )
        rows = self._commit(store, FrameWriter(run, run).encoded(part))
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
        self._commit(store, FrameWriter(run, f"{run}-own").encoded(own))
        assert store.chart("p", ChartQuery(run=run, metric="step/time")).lines[0].last == [42.0]
        assert [series.count for series in store.series("p", run) if series.metric == "step/time"] == [1]

    @settings(max_examples=60, phases=_NO_SHRINKING, deadline=None, suppress_health_check=_SLOW)
    @given(points=samples, query=queries())
    def test_the_profile_of_ranks_is_what_the_points_say(
        self, store: PointsStore, points: list[Sample], query: ChartQuery
    ) -> None:
        """Quantiles, ties, devices, points that come twice: as the protocol says, whatever the points."""
        run = f"run_{next(_runs)}"
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

    @settings(max_examples=60, phases=_NO_SHRINKING, deadline=None, suppress_health_check=_SLOW)
    @given(points=samples, query=queries(), last=st.integers(1, 10))
    def test_tail_and_stats_are_what_the_points_say(
        self, store: PointsStore, points: list[Sample], query: ChartQuery, last: int
    ) -> None:
        """The newest surviving points; counts, quantiles and extremes of all."""
        run = f"run_{next(_runs)}"
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

    @settings(max_examples=40, phases=_NO_SHRINKING, deadline=None, suppress_health_check=_SLOW)
    @given(groups=st.lists(st.tuples(samples, st.integers(0, 20)), min_size=1, max_size=3), query=queries())
    def test_runs_are_compared_in_the_same_buckets(
        self, store: PointsStore, groups: list[tuple[list[Sample], int]], query: ChartQuery
    ) -> None:
        """Each line is that of a chart of the run alone in the range of all."""
        runs = [f"run_{next(_runs)}" for _ in groups]
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
        run = f"run_{next(_runs)}"
        store_samples(store, run, "m", [Sample(0, 0, None, n, time, 1.0) for n, time in enumerate(LIMITS)])
        for started in (LIMITS[0], 0, 1_700_000_000_000_000, LIMITS[-1]):
            asked = CompareQuery(metric="m", runs=[ComparedRun(run, [], started)], x="relative")
            assert sum(store.compare("p", asked).lines[0].count) == len(LIMITS)

    def test_series_tell_what_there_is(self, store: PointsStore) -> None:
        """Ranks, devices, count and range of steps of each metric."""
        run = f"run_{next(_runs)}"
        store_samples(store, run, "m", [Sample(0, 1, None, 5, 0, 1.0), Sample(1, 0, 3, -2, 0, math.nan)])
        store_samples(store, f"{run}x", "other", [Sample(0, 0, None, 0, 0, 1.0)])
        (series,) = store.series("p", run)
        assert (series.metric, series.ranks, series.devices, series.count) == ("m", [0, 1], [3], 2)
        assert (series.first_step, series.last_step, series.nodes, series.system) == (-2, 5, ["n0"], False)

    def test_steps_come_newest_last_and_unmeasured_phases_are_absent(self, store: PointsStore) -> None:
        """The steps table: the newest rows, the clock of each phase, NaN = not measured."""
        run = f"run_{next(_runs)}"
        phases = [PhaseColumn("forward", Clock.DEVICE), PhaseColumn("data_wait")]
        part = steps_part(
            phases, [7, 8, 9], [70, 80, 90], [0.1, 0.2, 0.3], [[0.05, math.nan], [0.06, 0.01], [0.07, 0.02]]
        )
        self._commit(store, FrameWriter(run, run).encoded(part))
        table = store.steps("p", run, attempts={"a0": 4}, last=2)
        assert [(row.step, row.attempt, row.rank) for row in table.rows] == [(8, 4, 0), (9, 4, 0)]
        assert table.rows[0].phases == {"forward": 0.06, "data_wait": 0.01}
        assert table.clocks == {"forward": Clock.DEVICE, "data_wait": Clock.HOST}
        first = store.steps("p", run, attempts={"a0": 4}, rank=0, last=3).rows[0]
        assert (first.phases, first.started_at) == ({"forward": 0.05}, "1970-01-01T00:00:00.000070Z")
        assert store.steps("p", run, attempts={}, rank=1).rows == []

    def test_steps_are_told_in_pages_and_as_spans(self, store: PointsStore) -> None:
        """For who computes with them: oldest first, the phases asked for that the host timed, and where each rank's lie."""
        run = f"run_{next(_runs)}"
        phases = [PhaseColumn("forward", Clock.DEVICE), PhaseColumn("data_wait"), PhaseColumn("backward")]
        seconds = [[0.05, math.nan, 1.0], [0.06, 0.01, 1.0], [0.07, 0.02, 1.0]]
        for rank in (0, 1):
            source = Source(kind=SourceKind.RANK, attempt="a0", rank=rank)
            part = steps_part(phases, [7, 8, 9], [70, 80, 90 + rank], [0.1, math.nan, 0.3], seconds)
            self._commit(store, FrameWriter(run, f"{run}-{rank}", source=source).encoded(part))
        page = store.timed_steps("p", run, phases={"data_wait", "forward"}, since_us=80, limit=3)
        assert [row[:4] for row in page] == [("a0", 0, 8, 80), ("a0", 1, 8, 80), ("a0", 0, 9, 90)]
        assert page[0].phases == {"data_wait": 0.01} and math.isnan(page[0].duration_s) and page[2].duration_s == 0.3
        assert store.timed_steps("p", run, phases=(), since_us=92, limit=3) == []
        spans = sorted(store.step_spans("p", run))
        assert spans == [("a0", 0, 3, 70, 300_090, 9), ("a0", 1, 3, 70, 300_091, 9)]
        assert store.step_spans("p", "run_nobody") == []

    @settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.differing_executors])
    @given(points=samples)
    def test_export_gives_every_point_back(self, store: PointsStore, points: list[Sample]) -> None:
        """Bit for bit, in order of arrival, NaN and infinities as words."""
        run = f"run_{next(_runs)}"
        store_samples(store, run, 'm"é', points)
        text = b"".join(store.export("p", run, attempts={"a0": 1, "a1": 2, "a2": 3}))
        rows = [json.loads(line) for line in text.splitlines()]
        assert [(row["attempt"] - 1, row["rank"], row["device"], row["step"]) for row in rows] == [
            (point.attempt, point.of_rank, point.device, point.step) for point in points
        ]
        assert [bits(float(row["value"])) for row in rows] == [bits(point.value) for point in points]
        assert all(row["metric"] == 'm"é' for row in rows)

    def test_a_run_is_told_as_it_happened(self, store: PointsStore) -> None:
        """Points and steps of all writers by time, each source's clock set right; a time that no clock has is left out."""
        run = f"run_{next(_runs)}"
        for rank, late in ((0, 0), (1, 1000)):
            source = Source(kind=SourceKind.RANK, attempt="a0", rank=rank, node=f"n{rank}")
            writer = FrameWriter(run, f"{run}-{rank}", source=source)
            points = points_part([("m", 3)], [2, 1, 9], [20 + late, 10 + late, LIMITS[-1]], [0.5, math.nan, 1.0])
            phases = [PhaseColumn("forward"), PhaseColumn("forward", Clock.DEVICE), PhaseColumn("idle")]
            steps = steps_part(phases, [1], [5 + late], [0.000003], [[0.1, 0.2, math.nan]])
            self._commit(store, writer.encoded(points, steps))
        told = list(store.recorded_points("p", run, shift=lambda speaker: -1000 * (speaker.rank or 0)))
        assert [(p.speaker.node, p.rank, p.device, p.step, p.time_us) for p in told] == [
            ("n0", 0, 3, 1, 10),
            ("n1", 1, 3, 1, 10),
            ("n0", 0, 3, 2, 20),
            ("n1", 1, 3, 2, 20),
        ]
        assert [str(point.value) for point in told] == ["nan", "nan", "0.5", "0.5"]
        since = store.recorded_points("p", run, shift=lambda speaker: 0, since_us=20)
        assert [point.time_us for point in since] == [20, 1010, 1020]
        one, two = store.recorded_steps("p", run, shift=lambda speaker: 0)
        assert (one.end_us, one.step, one.duration_s, one.phases) == (8, 1, 0.000003, {"forward": 0.2})
        assert (two.end_us, two.speaker.rank, two.device_phases) == (1008, 1, frozenset({"forward"}))

    def test_payloads_are_a_cursor_over_raw_parts(self, store: PointsStore) -> None:
        """Commit order, kinds, unknown kinds, nothing twice."""
        run = f"run_{next(_runs)}"
        writer = FrameWriter(run, run)
        unknown = frames.Part("hologram", frames.part("status", Status(at=1)).payload)
        for at in range(3):
            self._commit(store, writer.encoded(frames.part("status", Status(at=at)), unknown))
        every = store.payloads("p", run=run)
        assert [part.kind for part in every] == ["status", "hologram"] * 3
        cursors = [part.cursor for part in every]
        assert cursors == sorted(set(cursors))
        two = store.payloads("p", run=run, kinds=["status"], after=cursors[0], limit=1)
        assert [part.cursor for part in two] == [cursors[2]]
        assert every[0].source == writer.source

    def test_what_is_not_settled_comes_back_whole(self, store: PointsStore) -> None:
        """Frames that an applier may have missed, with payloads and metric summaries; settled ones are gone."""
        run = f"run_{next(_runs)}"
        writer = FrameWriter(run, run)
        rows = self._commit(
            store,
            writer.encoded(
                points_part([("m", None)], [1, 2], [5, 6], [0.5, math.inf]), frames.part("status", Status(at=9))
            ),
        )
        mine = [frame for frame in store.unsettled("p") if frame.run == run]
        assert mine == [rows.frame]
        assert mine[0].payloads == [("status", Status(at=9))]
        assert (mine[0].metrics[0].value, mine[0].metrics[0].count, mine[0].last_step) == (math.inf, 2, 2)
        store.settle("p", 2)
        assert [frame for frame in store.unsettled("p") if frame.run == run] == []

    def test_a_deleted_run_is_gone_and_the_others_stay(self, store: PointsStore) -> None:
        """Points, steps, parts, positions; the same names can be used again."""
        gone, stays = f"run_{next(_runs)}", f"run_{next(_runs)}"
        for run in (gone, stays):
            store_samples(store, run, "m", [Sample(0, 0, None, 1, 1, 1.0)])
        store.delete_run("p", gone)
        assert store.series("p", gone) == []
        assert store.chart("p", ChartQuery(run=gone, metric="m")).empty_reason == "this run has logged no points yet"
        assert gone not in {position.run for position in store.positions("p").values()}
        assert store.series("p", stays)[0].count == 1
        store_samples(store, gone, "m", [Sample(0, 0, None, 2, 1, 1.0)])
        assert store.series("p", gone)[0].first_step == 2

    def test_what_was_committed_is_there_after_a_restart_and_in_a_backup(self, tmp_path: Any) -> None:
        """Close, open, and a copy that was made while the store was open."""
        data = str(tmp_path / "data")
        store = self.open_store(data)
        store_samples(store, "r", "m", [Sample(0, 0, None, 1, 1, 1.0)])
        store.backup(str(tmp_path / "copy"))
        store_samples(store, "r", "m2", [Sample(1, 0, None, 1, 1, 1.0)])
        store.close()
        again, copy = self.open_store(data), self.open_store(str(tmp_path / "copy"))
        try:
            assert [series.metric for series in again.series("p", "r")] == ["m", "m2"]
            assert [series.metric for series in copy.series("p", "r")] == ["m"]
            assert again.projects() == copy.projects() == ["p"]
            assert {at.end for at in again.positions("p").values()} == {100}
        finally:
            again.close()
            copy.close()

    def test_a_project_that_is_not_there_reads_as_empty(self, store: PointsStore) -> None:
        """And is not made by being asked for."""
        assert store.series("nobody", "r") == []
        assert store.positions("nobody") == {}
        assert store.payloads("nobody") == [] == store.unsettled("nobody")
        assert list(store.export("nobody", "r", attempts={})) == []
        assert store.chart("nobody", ChartQuery(run="r", metric="m")).empty_reason
        store.delete_run("nobody", "r")
        assert "nobody" not in store.projects()

    @staticmethod
    def _commit(store: PointsStore, data: bytes) -> Any:
        rows = Sequencer(lambda: store.positions("p")).admit(decode_frame(data), allow_gap=False, received_at=1)
        assert rows is not None
        store.commit("p", [rows])
        return rows


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
