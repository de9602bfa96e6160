"""Questions to the points store: CPU and wall time of each, warm, before and after the rewrite in order.

    python bench/query.py [--points 20000000]

The store holds one run of 10^6 steps of one metric (and the same in two attempts that are stitched), one of 1,024 ranks
x 200 steps x 4 metrics, and runs of 50 metrics x 4,000 steps up to the number of points asked for. Three fifths of the
metrics are float32 noise, a fifth float64 noise, a fifth smooth; steps take 0.1 s and jitter by 1 ms. CPU is all threads of this
process; each figure is the median of seven.
"""

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from stepward.ingest.decode import decode_frame
from stepward.ingest.sequence import Sequencer
from stepward.model.frames import Source
from stepward.model.words import SourceKind
from stepward.store.points.duckdb import DuckDBPoints
from stepward.store.points.protocol import AttemptSpan, ChartQuery, ComparedRun, CompareQuery
from stepward.testing.frames import FrameWriter, points_part

PROJECT = "bench"
ROWS = 160
"""Rows of 50 scalars in a frame: 8,000 points, as a shipper cuts them in a second or two of a fast loop."""
TIMES = 7

Figure = dict[str, float]


class Filler:
    """Commits points of many runs, eight frames a group, as eight clients send them."""

    def __init__(self, store: DuckDBPoints) -> None:
        self._store = store
        self._sequencer = Sequencer(lambda: store.positions(PROJECT))
        self._random = np.random.default_rng(0)
        self._group: list[Any] = []
        self.points = 0

    def add(self, writer: FrameWriter, names: Sequence[str], steps: Any, values: Any, *, define: bool) -> None:
        """One frame."""
        times = (steps * 100_000 + self._random.normal(0, 1000, len(steps))).astype(np.int64) + 1_700_000_000_000_000
        part = points_part([(name, None) for name in names], steps, times, values, define=define)
        self._group.append(
            self._sequencer.admit(
                decode_frame(writer.encoded(part)), allow_gap=False, received_at=time.time_ns() // 1000
            )
        )
        self.points += values.size
        if len(self._group) == 8:
            self.commit()

    def commit(self) -> None:
        """Commit the open group."""
        if self._group:
            self._store.commit(PROJECT, self._group)
            self._sequencer.committed()
            self._group = []

    def values(self, steps: Any, metrics: int) -> Any:
        """Noise and curves."""
        values = self._random.standard_normal((len(steps), metrics))
        kinds = np.arange(metrics) % 5
        values[:, kinds < 3] = values[:, kinds < 3].astype(np.float32)
        values[:, kinds == 4] = np.round(np.exp(-steps / 10_000.0), 6)[:, None]
        return values


def writer(run: str, rank: int = 0, attempt: str = "a0") -> FrameWriter:
    """A rank of a run."""
    source = Source(kind=SourceKind.RANK, attempt=attempt, rank=rank, node=f"n{rank // 8}")
    return FrameWriter(run, f"{run}-{attempt}-{rank}", project=PROJECT, source=source)


def fill_special(filler: Filler) -> None:
    """The run of a million steps, the same in two attempts, and the one of 1,024 ranks."""
    for run, attempts in (("long", [(0, 1_000_000)]), ("resumed", [(0, 600_000), (500_000, 1_000_000)])):
        for number, (first, last) in enumerate(attempts):
            source = writer(run, attempt=f"a{number}")
            for start in range(first, last, 50_000):
                steps = np.arange(start, start + 50_000)
                filler.add(source, ["loss"], steps, filler.values(steps, 1), define=start == first)
    names = [f"rank/{number}" for number in range(4)]
    for rank in range(1024):
        steps = np.arange(200)
        filler.add(writer("wide", rank), names, steps, filler.values(steps, 4), define=True)
    filler.commit()


def fill_runs(filler: Filler, points: int, first: int = 0) -> int:
    """Runs of 50 metrics x 4,000 steps, eight at a time, until there are ``points``; returns how many runs there are."""
    names = [f"metric/{number}" for number in range(50)]
    run = first
    while filler.points < points:
        writers = [writer(f"run{number}") for number in range(run, run + 8)]
        for start in range(0, 4000, ROWS):
            for source in writers:
                steps = np.arange(start, start + ROWS)
                filler.add(source, names, steps, filler.values(steps, 50), define=start == 0)
        run += 8
    filler.commit()
    return run


def measure(work: Callable[[], Any], times: int = TIMES) -> Figure:
    """Median CPU and wall milliseconds, warm."""
    work()
    cpus, walls = [], []
    for _ in range(times):
        cpu, wall = time.process_time(), time.perf_counter()
        work()
        cpus.append(time.process_time() - cpu)
        walls.append(time.perf_counter() - wall)
    return {"cpu_ms": round(sorted(cpus)[times // 2] * 1e3, 2), "wall_ms": round(sorted(walls)[times // 2] * 1e3, 2)}


def questions(store: DuckDBPoints) -> Iterator[tuple[str, Callable[[], Any]]]:
    """What people ask."""

    def chart(**asked: Any) -> Callable[[], Any]:
        return lambda: store.chart(PROJECT, ChartQuery(**asked))

    yield "10^6 points, whole", chart(run="long", metric="loss")
    yield "10^6 points, a tenth", chart(run="long", metric="loss", start=400_000.0, end=500_000.0)
    yield "10^6 points, a thousandth", chart(run="long", metric="loss", start=400_000.0, end=401_000.0)
    yield "10^6 points, relative", chart(run="long", metric="loss", x="relative")
    history = [AttemptSpan("a0", 1, 0, 0), AttemptSpan("a1", 2, 500_000, 1)]
    yield "10^6 points, two attempts", chart(run="resumed", metric="loss", history=history)
    runs = [ComparedRun(f"run{number}", []) for number in range(50)]
    compared = CompareQuery(metric="metric/7", runs=runs)
    yield "50 runs x 4,000", lambda: store.compare(PROJECT, compared)
    yield "4,000 of one run", chart(run="run3", metric="metric/7")
    wide = ChartQuery(run="wide", metric="rank/1")
    yield "1,024 ranks x 200, profile", lambda: store.profile(PROJECT, wide)
    yield "1,024 ranks x 200, by rank", chart(run="wide", metric="rank/1", by="rank")
    yield "1,024 ranks x 200, one line", chart(run="wide", metric="rank/1")
    yield "one rank of 1,024", chart(run="wide", metric="rank/1", rank=700)
    yield "tail of 100", lambda: store.tail(PROJECT, ChartQuery(run="run3", metric="metric/7"), attempts={})
    yield "tail of 100 of 10^6", lambda: store.tail(PROJECT, ChartQuery(run="long", metric="loss"), attempts={})
    yield "series of a run", lambda: store.series(PROJECT, "run3")
    yield "numbers of 10^6 points", lambda: store.stats(PROJECT, ChartQuery(run="long", metric="loss"))
    yield "export of 200,000 points", lambda: sum(map(len, store.export(PROJECT, "run3", attempts={})))


def ask(store: DuckDBPoints) -> dict[str, Figure]:
    """All questions, measured."""
    return {name: measure(work) for name, work in questions(store)}


def path_of(data: str) -> str:
    """The project's file."""
    return f"{data}/projects/{PROJECT}/points.duckdb"


def measure_rewrite(store: DuckDBPoints, data: str, points: int) -> Figure:
    """Put everything in order; bytes a point before and after."""
    store.settle(PROJECT, time.time_ns() // 1000 + 1)
    before, cpu, wall = os.path.getsize(path_of(data)), time.process_time(), time.perf_counter()
    assert store.tidy(PROJECT)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    after = os.path.getsize(path_of(data))
    return {
        "cpu_s": round(cpu, 2),
        "wall_s": round(wall, 2),
        "bytes_a_point_before": round(before / points, 2),
        "bytes_a_point": round(after / points, 2),
    }


def measure_deletion(store: DuckDBPoints, data: str, filler: Filler) -> Figure:
    """Delete a run of 4 million points, and get its space back."""
    source, names = writer("doomed"), [f"metric/{number}" for number in range(50)]
    for start in range(0, 80_000, ROWS):
        steps = np.arange(start, start + ROWS)
        filler.add(source, names, steps, filler.values(steps, 50), define=start == 0)
    filler.commit()
    assert store.tidy(PROJECT)
    full, cpu, wall = os.path.getsize(path_of(data)), time.process_time(), time.perf_counter()
    store.delete_run(PROJECT, "doomed")
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    assert store.tidy(PROJECT)
    freed = full - os.path.getsize(path_of(data))
    return {"cpu_s": round(cpu, 3), "wall_s": round(wall, 3), "freed_mb": round(freed / 1e6, 1)}


def measure_all(points: int) -> dict[str, Any]:
    """Every figure of this page."""
    with tempfile.TemporaryDirectory() as data:
        store = DuckDBPoints(data)
        filler = Filler(store)
        fill_special(filler)
        fill_runs(filler, points)
        result: dict[str, Any] = {"points": filler.points, "live": ask(store)}
        result["rewrite"] = measure_rewrite(store, data, filler.points)
        result["in order"] = ask(store)
        result["delete a run of 4,000,000 points"] = measure_deletion(store, data, filler)
        store.close()
        return result


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=20_000_000)
    args = parser.parse_args(argv)
    print(json.dumps({"load_average": os.getloadavg()[0], **measure_all(args.points)}, indent=2))


if __name__ == "__main__":
    main()
