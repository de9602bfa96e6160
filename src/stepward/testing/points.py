"""Conformance suite of ``PointsStore``: a store is right when it answers as a brute-force model of the protocol does.

Subclass ``PointsStoreSuite`` in a test module, give it an ``open_store``; every engine gets the same questions. Needs pytest and
hypothesis.
"""

import json
import math
from typing import Any

from hypothesis import HealthCheck, given, settings

from stepward.model import frames
from stepward.model.frames import PhaseColumn, Source, Status
from stepward.model.words import Clock, SourceKind
from stepward.store.points.protocol import ChartQuery, PointsStore
from stepward.testing.frames import FrameWriter, points_part, steps_part
from stepward.testing.points_figures import Figures
from stepward.testing.points_model import LIMITS, Sample, bits
from stepward.testing.points_samples import new_run, samples, store_samples


class PointsStoreSuite(Figures):
    """All questions: those for figures, and here those for what was stored, as it was stored."""

    def test_series_tell_what_there_is(self, store: PointsStore) -> None:
        """Ranks, devices, count and range of steps of each metric."""
        run = new_run()
        store_samples(store, run, "m", [Sample(0, 1, None, 5, 0, 1.0), Sample(1, 0, 3, -2, 0, math.nan)])
        store_samples(store, f"{run}x", "other", [Sample(0, 0, None, 0, 0, 1.0)])
        (series,) = store.series("p", run)
        assert (series.metric, series.ranks, series.devices, series.count) == ("m", [0, 1], [3], 2)
        assert (series.first_step, series.last_step, series.nodes, series.system) == (-2, 5, ["n0"], False)

    def test_steps_come_newest_last_and_unmeasured_phases_are_absent(self, store: PointsStore) -> None:
        """The steps table: the newest rows, the clock of each phase, NaN = not measured."""
        run = new_run()
        phases = [PhaseColumn("forward", Clock.DEVICE), PhaseColumn("data_wait")]
        part = steps_part(
            phases, [7, 8, 9], [70, 80, 90], [0.1, 0.2, 0.3], [[0.05, math.nan], [0.06, 0.01], [0.07, 0.02]]
        )
        self.commit(store, FrameWriter(run, run).encoded(part))
        table = store.steps("p", run, attempts={"a0": 4}, last=2)
        assert [(row.step, row.attempt, row.rank) for row in table.rows] == [(8, 4, 0), (9, 4, 0)]
        assert table.rows[0].phases == {"forward": 0.06, "data_wait": 0.01}
        assert table.clocks == {"forward": Clock.DEVICE, "data_wait": Clock.HOST}
        first = store.steps("p", run, attempts={"a0": 4}, rank=0, last=3).rows[0]
        assert (first.phases, first.started_at) == ({"forward": 0.05}, "1970-01-01T00:00:00.000070Z")
        assert store.steps("p", run, attempts={}, rank=1).rows == []

    def test_steps_are_told_in_pages_and_as_spans(self, store: PointsStore) -> None:
        """For who computes with them: oldest first, the phases asked for that the host timed, and where each rank's lie."""
        run = new_run()
        phases = [PhaseColumn("forward", Clock.DEVICE), PhaseColumn("data_wait"), PhaseColumn("backward")]
        seconds = [[0.05, math.nan, 1.0], [0.06, 0.01, 1.0], [0.07, 0.02, 1.0]]
        for rank in (0, 1):
            source = Source(kind=SourceKind.RANK, attempt="a0", rank=rank)
            part = steps_part(phases, [7, 8, 9], [70, 80, 90 + rank], [0.1, math.nan, 0.3], seconds)
            self.commit(store, FrameWriter(run, f"{run}-{rank}", source=source).encoded(part))
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
        run = new_run()
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
        run = new_run()
        for rank, late in ((0, 0), (1, 1000)):
            source = Source(kind=SourceKind.RANK, attempt="a0", rank=rank, node=f"n{rank}")
            writer = FrameWriter(run, f"{run}-{rank}", source=source)
            points = points_part([("m", 3)], [2, 1, 9], [20 + late, 10 + late, LIMITS[-1]], [0.5, math.nan, 1.0])
            phases = [PhaseColumn("forward"), PhaseColumn("forward", Clock.DEVICE), PhaseColumn("idle")]
            steps = steps_part(phases, [1], [5 + late], [0.000003], [[0.1, 0.2, math.nan]])
            self.commit(store, writer.encoded(points, steps))
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
        run = new_run()
        writer = FrameWriter(run, run)
        unknown = frames.Part("hologram", frames.part("status", Status(at=1)).payload)
        for at in range(3):
            self.commit(store, writer.encoded(frames.part("status", Status(at=at)), unknown))
        every = store.payloads("p", run=run)
        assert [part.kind for part in every] == ["status", "hologram"] * 3
        cursors = [part.cursor for part in every]
        assert cursors == sorted(set(cursors))
        two = store.payloads("p", run=run, kinds=["status"], after=cursors[0], limit=1)
        assert [part.cursor for part in two] == [cursors[2]]
        assert every[0].source == writer.source

    def test_what_is_not_settled_comes_back_whole(self, store: PointsStore) -> None:
        """Frames that an applier may have missed, with payloads and metric summaries; settled ones are gone."""
        run = new_run()
        writer = FrameWriter(run, run)
        rows = self.commit(
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
        gone, stays = new_run(), new_run()
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
