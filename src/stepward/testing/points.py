"""Conformance suite of ``PointsStore``: a store is right when it answers as a brute-force model of the protocol does.

Subclass ``PointsStoreSuite`` in a test module, give it an ``open_store``; every engine gets the same questions. Needs pytest and
hypothesis.
"""

import json
import math
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from stepward.ingest.decode import decode_frame
from stepward.ingest.sequence import Sequencer
from stepward.model import frames
from stepward.model.frames import PhaseColumn, Source, Status
from stepward.model.resources import Chart, Line
from stepward.model.words import Clock, SourceKind
from stepward.store.points.protocol import AttemptSpan, ChartQuery, PointsStore
from stepward.testing.frames import FrameWriter, points_part, steps_part

LIMITS = [-(1 << 63), -(1 << 63) + 1, -1, 0, 1, (1 << 53) + 1, (1 << 63) - 2, (1 << 63) - 1]
_runs = count()


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
        phases=[Phase.reuse, Phase.generate],  # shrinking against a database takes minutes
        deadline=None,
        suppress_health_check=[HealthCheck.differing_executors, HealthCheck.too_slow],
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
        own = points_part([("step/time", None)], [1], [1], [42.0])
        self._commit(store, FrameWriter(run, f"{run}-own").encoded(own))
        assert store.chart("p", ChartQuery(run=run, metric="step/time")).lines[0].last == [42.0]
        assert [series.count for series in store.series("p", run) if series.metric == "step/time"] == [1]

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
        assert [_bits(float(row["value"])) for row in rows] == [_bits(point.value) for point in points]
        assert all(row["metric"] == 'm"é' for row in rows)

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


def _with_run(query: ChartQuery, run: str) -> ChartQuery:
    import msgspec

    return msgspec.structs.replace(query, run=run)


def _bits(value: float) -> str:
    return "nan" if math.isnan(value) else value.hex()


# ── the model ──


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
