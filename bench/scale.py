"""How questions grow with the store: the same ones at 10^6, 2*10^7 and, by hand, 10^8 points of other runs around them.

    python bench/scale.py [--points 1000000 20000000 100000000]

A question is about as much data each time; what grows is what lies around it. Live = as frames came, eight runs at a time;
in order = after the rewrite. CPU is all threads of this process, median of seven.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from query import PROJECT, Filler, fill_runs, measure, measure_rewrite, writer
from stepward.store.points.duckdb import DuckDBPoints
from stepward.store.points.protocol import ChartQuery, ComparedRun, CompareQuery

BLOCK = 1_000_000
BYTES_A_POINT = 40
"""The file as frames came, its copy in order, and the copy's room to sort."""


def fill_asked(filler: Filler) -> None:
    """What is asked about: 128 ranks x 200 steps. The rest of the first million are runs of the filler."""
    for rank in range(128):
        steps = np.arange(200)
        filler.add(writer("wide", rank), ["rank/0"], steps, filler.values(steps, 1), define=True)
    filler.commit()


def questions(store: DuckDBPoints) -> dict[str, Callable[[], Any]]:
    """A question of each kind."""
    one = ChartQuery(run="run2", metric="metric/7")
    runs = CompareQuery(metric="metric/7", runs=[ComparedRun(f"run{number}", []) for number in range(5)])
    return {
        "chart of a series": lambda: store.chart(PROJECT, one),
        "tail of a series": lambda: store.tail(PROJECT, one, attempts={}),
        "series of a run": lambda: store.series(PROJECT, "run2"),
        "profile of ranks": lambda: store.profile(PROJECT, ChartQuery(run="wide", metric="rank/0")),
        "comparison of 5 runs": lambda: store.compare(PROJECT, runs),
    }


def measure_growth(sizes: Sequence[int]) -> dict[str, Any]:
    """Figures at each size, and the growth from the first to the last."""
    result: dict[str, Any] = {"sizes": {}}
    with tempfile.TemporaryDirectory() as data:
        store = DuckDBPoints(data)
        filler, runs = Filler(store), 0
        fill_asked(filler)
        for size, following in zip(sizes, [*sizes[1:], 0], strict=True):
            began, cpu = time.monotonic(), time.process_time()
            before = filler.points
            runs = fill_runs(filler, size, runs)
            cpu = time.process_time() - cpu
            at: dict[str, Any] = {
                "points": filler.points,
                "fill_cpu_us_a_point": round(cpu * 1e6 / (filler.points - before), 3),
                "live": {name: measure(work) for name, work in questions(store).items()},
                "rewrite": measure_rewrite(store, data, filler.points),
            }
            at["in order"] = {name: measure(work) for name, work in questions(store).items()}
            result["sizes"][str(size)] = at
            took = time.monotonic() - began
            if following:
                guess = took * (following - size) / (filler.points - before) / 60
                print(f"{size:,} points took {took:.0f} s; {following:,} take about {guess:.0f} min", file=sys.stderr)
        store.close()
    first, last = (result["sizes"][str(size)] for size in (sizes[0], sizes[-1]))
    result["growth"] = {
        kind: {name: round(last[kind][name]["cpu_ms"] / first[kind][name]["cpu_ms"], 2) for name in first[kind]}
        for kind in ("live", "in order")
    }
    return result


def check_room(points: int) -> None:
    """Say what a size takes, and end where the disk has not got it."""
    need, free = points * BYTES_A_POINT, shutil.disk_usage(tempfile.gettempdir()).free
    room = f"{points:,} points take up to {need / 1e9:.1f} GB below {tempfile.gettempdir()}"
    print(f"{room}, of which {free / 1e9:.1f} GB are free", file=sys.stderr)
    if need > free:
        raise SystemExit("not enough: name another folder by TMPDIR")


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, nargs="+", default=[BLOCK, 20 * BLOCK])
    args = parser.parse_args(argv)
    check_room(max(args.points))
    print(json.dumps({"load_average": os.getloadavg()[0], **measure_growth(args.points)}, indent=2))


if __name__ == "__main__":
    main()
