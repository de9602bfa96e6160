"""A file written anew says what it said, loses nothing that comes meanwhile, and gives space back; files that rest wake."""

import math
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from stepward.ingest.decode import decode_frame
from stepward.ingest.sequence import Sequencer
from stepward.model.frames import PhaseColumn, Source
from stepward.model.words import SourceKind
from stepward.store.points.duckdb import DuckDBPoints, projects, rewrite
from stepward.store.points.protocol import ChartQuery
from stepward.testing.frames import FrameWriter, points_part, steps_part


class Writer:
    """Commits frames of a run, a few hundred points each."""

    def __init__(self, store: DuckDBPoints, run: str = "run_a", project: str = "p", rank: int = 0) -> None:
        source = Source(kind=SourceKind.RANK, attempt="a0", rank=rank)
        self.frames = FrameWriter(run, f"{run}-{rank}", project=project, source=source)
        self.store, self.project, self.step = store, project, 0
        self.sequencer = Sequencer(lambda: store.positions(project))

    def commit(self, rows: int = 50) -> None:
        steps = np.arange(self.step, self.step + rows)
        self.step += rows
        random.seed(self.step)
        values = [[random.random(), float("nan")] for _ in steps]
        times = [[0.1]] * rows
        part = points_part([("loss", None), ("acc", 1)], steps, steps * 7, values)
        table = steps_part([PhaseColumn("forward")], steps, steps * 7, [0.5] * rows, times)
        admitted = self.sequencer.admit(
            decode_frame(self.frames.encoded(part, table)), allow_gap=False, received_at=self.step
        )
        assert admitted is not None
        self.store.commit(self.project, [admitted])
        self.sequencer.committed()


def contents(store: DuckDBPoints, run: str = "run_a") -> tuple[object, ...]:
    export = sorted(b"".join(store.export("p", run, attempts={})).splitlines())
    metrics = ("loss", "acc", "step/time", "step/forward")
    charts = [store.chart("p", ChartQuery(run=run, metric=metric, buckets=7, by="rank")) for metric in metrics]
    unsettled = sorted(repr(frame) for frame in store.unsettled("p"))
    return (
        export,
        repr(charts),
        store.series("p", run),
        store.steps("p", run, attempts={}),
        store.positions("p"),
        unsettled,
    )


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DuckDBPoints]:
    store = DuckDBPoints(str(tmp_path))
    yield store
    store.close()


def between_pieces(store: DuckDBPoints, monkeypatch: pytest.MonkeyPatch, act: Callable[[], None]) -> None:
    """Act once while a file is written anew."""
    insert, acted = rewrite._insert, []

    def and_act(*args: object) -> None:
        insert(*args)  # type: ignore[arg-type]
        if not acted:
            acted.append(True)
            act()

    monkeypatch.setattr(rewrite, "_insert", and_act)


def test_a_file_written_anew_says_the_same(store: DuckDBPoints, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rewrite, "PIECE_ROWS", 150)
    for rank in range(3):
        Writer(store, rank=rank).commit()
    before = contents(store)
    assert store.tidy("p")
    assert contents(store) == before
    assert store.tidy("p")
    assert contents(store) == before


def test_what_is_committed_meanwhile_is_there_once(store: DuckDBPoints, monkeypatch: pytest.MonkeyPatch) -> None:
    writer, twin = Writer(store), Writer(store, run="run_twin")
    writer.commit()
    twin.commit()
    between_pieces(store, monkeypatch, writer.commit)
    assert store.tidy("p")
    writer.commit()
    twin.commit()
    twin.commit()
    assert store.series("p", "run_a") == store.series("p", "run_twin")
    text = b"".join(store.export("p", "run_a", attempts={}))
    assert sorted(text.splitlines()) == sorted(b"".join(store.export("p", "run_twin", attempts={})).splitlines())
    assert store.chart("p", ChartQuery(run="run_a", metric="loss")).lines[0].x == list(map(float, range(150)))


def test_a_deletion_meanwhile_is_not_undone(store: DuckDBPoints, monkeypatch: pytest.MonkeyPatch) -> None:
    Writer(store).commit()
    Writer(store, run="run_b").commit()
    between_pieces(store, monkeypatch, lambda: store.delete_run("p", "run_b"))
    assert not store.tidy("p")
    assert store.series("p", "run_b") == []
    assert store.tidy("p")
    assert store.series("p", "run_b") == []
    assert len(store.series("p", "run_a")) == 4


def test_space_comes_back(store: DuckDBPoints, tmp_path: Path) -> None:
    keep, gone = Writer(store), Writer(store, run="run_gone")
    keep.commit(10)
    gone.commit(400_000)
    assert store.tidy("p")
    path = tmp_path / "projects" / "p" / "points.duckdb"
    full = path.stat().st_size
    store.delete_run("p", "run_gone")
    assert store.tidy("p")
    assert path.stat().st_size < full - 2_000_000
    assert sorted(os.listdir(path.parent)) == ["points.duckdb"]


def test_without_space_the_file_stays_as_it_is(store: DuckDBPoints, monkeypatch: pytest.MonkeyPatch) -> None:
    Writer(store).commit()
    before = contents(store)
    space = os.statvfs("/")
    with monkeypatch.context() as full:
        full.setattr(os, "statvfs", lambda _: os.statvfs_result((*space[:4], 0, *space[5:10])))
        assert not store.tidy("p")
    assert contents(store) == before


def test_when_a_rewrite_pays() -> None:
    assert not rewrite.Disorder(points=10**6, loose=50_000).worth(idle_s=1e6, rests=math.inf)
    assert rewrite.Disorder(points=3 * 10**5, loose=100_000).worth(idle_s=rewrite.QUIET_S, rests=1)
    assert not rewrite.Disorder(points=3 * 10**5, loose=100_000).worth(idle_s=1, rests=math.inf)
    assert not rewrite.Disorder(points=10**8, loose=10**7).worth(idle_s=1e6, rests=math.inf)
    assert rewrite.Disorder(points=10**7, loose=5 * 10**6).worth(idle_s=0, rests=math.inf)
    assert not rewrite.Disorder(points=10**7, loose=5 * 10**6).worth(idle_s=0, rests=rewrite.PAUSE - 1)


def test_a_rewrite_that_came_to_nothing_makes_pause_too(store: DuckDBPoints) -> None:
    at = store._projects.of("p")
    assert at.rests == math.inf
    with pytest.raises(OSError), at.rewriting():
        raise OSError
    assert at.rests < math.inf


def test_the_keeper_puts_in_order_what_is_worth_it(store: DuckDBPoints, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = Writer(store)
    writer.commit()
    at = store._projects.of("p")

    def loose() -> int:
        with at.file.plain() as connection:
            return rewrite.disorder(connection).loose

    store._look_after("p", at)
    assert loose() == 100, "too little, and somebody wrote just now"
    monkeypatch.setattr(rewrite, "LEAST_ROWS", 50)
    store._look_after("p", at)
    assert loose() == 100
    monkeypatch.setattr(rewrite, "QUIET_S", 0.0)
    store._look_after("p", at)
    assert loose() == 0
    writer.commit(10)
    store.delete_run("p", "run_a")
    assert loose() == 120, "deleted, but there"


def test_few_files_are_open_and_share_the_memory(store: DuckDBPoints, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(projects, "MAX_OPEN", 3)
    names = [f"p{number}" for number in range(8)]
    writers = {name: Writer(store, project=name) for name in names}
    for _ in range(2):
        for name in names:
            writers[name].commit()
            assert sum(store._projects.of(one).file.opened for one in names) <= 3
    assert [store.series(name, "run_a")[0].count for name in names] == [100] * 8
    with store._projects.of("p7").file.plain() as connection:
        ((limit,),) = connection.execute("SELECT current_setting('memory_limit')").fetchall()
    assert limit == "244.1 MiB"  # a third of 768 MB


def test_a_file_that_nobody_uses_rests(store: DuckDBPoints, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = Writer(store)
    writer.commit()
    monkeypatch.setattr(projects, "REST_S", -1.0)
    file = store._projects.of("p").file
    with file.read():
        store._projects.make_room()
        assert file.opened, "somebody reads it"
    store._projects.make_room()
    assert not file.opened
    writer.commit()
    assert store.series("p", "run_a")[0].count == 100
