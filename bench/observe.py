"""Cost of observation: CPU time of the observer's thread for live runs, and of reading output for known lines.

    python bench/observe.py [--runs 1000] [--seconds 20]

A real catalog and log store in a temporary folder, and frames as the committer hands them over: each run sends one a second
with a step of four phases and 20 series, and a heartbeat every four. The observer's own work is called as its thread calls
it, and timed by CPU: a share below 1.0 keeps up on one core. Output: lines of which each holds a literal of the
catalogue, the worst case, and lines without any.
"""

import argparse
import json
import sys
import tempfile
import time

import numpy as np

from stepward.ingest.hearing import Hearing
from stepward.ingest.protocols import CommittedFrame, FrameRows, PointColumns, SeriesKey, StepColumns
from stepward.model.frames import Config, LogChunk, Logs, Payload, PhaseColumn, Source, Status
from stepward.model.identity import derived_run_id
from stepward.model.words import Clock, SourceKind
from stepward.observe.lines import LineReader, Place
from stepward.observe.observer import Observer
from stepward.observe.replay import Replay
from stepward.store.catalog import CatalogApplier, open_database
from stepward.store.catalog.detected import DetectedEvents
from stepward.store.logs import LogStore
from stepward.store.points.duckdb import DuckDBPoints

S = 1_000_000
NAMES = ["train/loss", "grad_norm", "step_time", "tokens_per_s", *(f"layers/{n}/norm" for n in range(16))]
KEYS = [SeriesKey(name, "", None) for name in NAMES]
PHASES = [PhaseColumn(name, Clock.HOST) for name in ("data_wait", "forward", "backward", "collective")]
SHARES = np.array([[0.02, 0.3, 0.5, 0.18]])
SOURCE = Source(kind=SourceKind.RANK, attempt="a", rank=0, node="n", pid=1)
Row = dict[str, float | str]


def frame(run: int, second: int, now: int, noise: "np.random.Generator") -> FrameRows:
    """What a run sends in one second."""
    at = now + second * S
    payloads: list[tuple[str, Payload]] = []
    if second == 0:
        payloads.append(("config", Config(name=f"r{run}", started_at=now, ranks=1)))
    if second % 4 == 0:
        payloads.append(("status", Status(at=at, step=second, progress_at=at)))
    count = len(NAMES)
    values = 2.0 + noise.random(count)
    points = PointColumns(
        np.arange(count), np.full(count, second), np.full(count, at), values, np.zeros(count, np.bool_)
    )
    steps = StepColumns(
        PHASES, np.array([second]), np.array([at - S]), np.array([1.0 + 0.02 * noise.standard_normal()]), SHARES
    )
    head = CommittedFrame(
        project="p", run=derived_run_id("p", f"r{run}"), writer=f"w{run}", seq=second, end=second + 1, sent_at=at,
        received_at=at, source=SOURCE, payloads=payloads, metrics=[], last_step=second, last_time=at,
    )  # fmt: skip
    return FrameRows(frame=head, parts=[], keys=KEYS, points=points, steps=[steps])


def live(folder: str, runs: int, seconds: int) -> Row:
    """The observer's CPU time for each second of the runs' time."""
    now, noise = 1_800_000_000 * S, np.random.default_rng(1)
    database, points, logs = open_database(f"{folder}/catalog.db"), DuckDBPoints(folder), LogStore(folder)
    catalog = DetectedEvents(database, lambda changes: None)
    applier = CatalogApplier(database, Hearing(now - 3600 * S), lambda changes: None, lambda *moved: None)
    clock = now
    reader = LineReader(logs)
    observer = Observer(Replay(points, reader, catalog), reader, catalog, lambda: clock)
    spent = []
    for second in range(seconds):
        clock = now + second * S
        rows = [frame(run, second, now, noise) for run in range(runs)]
        applier.apply([row.frame for row in rows])
        began = time.thread_time()
        observer.follow(rows)
        observer.turn()
        observer.look(clock)
        spent.append(time.thread_time() - began)
    found = {"runs": runs, "seconds": seconds, "cores": sum(spent[seconds // 2 :]) / len(spent[seconds // 2 :])}
    database.close()
    points.close()
    logs.close()
    return {"what": "live", **found}


def output(folder: str, what: str, line: str) -> Row:
    """Megabytes of output read in a second of CPU."""
    logs, at = LogStore(folder), 0
    for seq in range(20):
        text = "".join(f"2026-12-01 11:{seq:02} {line} {seq * 10_000 + n}\n" for n in range(10_000)).encode()
        parts: list[tuple[str, Payload]] = [("logs", Logs([LogChunk("stdout", at, text, [(0, seq)])]))]
        logs.apply(
            [
                CommittedFrame(
                    project="p", run=what, writer=what, seq=seq, end=seq + 1, sent_at=0, received_at=0,
                    source=SOURCE, payloads=parts, metrics=[],
                )
            ]
        )  # fmt: skip
        at += len(text)
    reader = LineReader(logs)
    began = time.thread_time()
    hits = sum(1 for _ in reader.hits("p", what, Place(), {1: "a"}))
    spent = time.thread_time() - began
    logs.close()
    return {"what": what, "mb": at / 1e6, "hits": hits, "mb_per_cpu_s": at / 1e6 / spent}


def main() -> int:
    """Measure, and print one line of JSON a figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--seconds", type=int, default=20)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(live(folder, chosen.runs, chosen.seconds)), flush=True)
        print(json.dumps(output(folder, "lines_with_literals", "INFO step 7 loss 2.3 tokens/s 4123 grad_norm 0.91")))
        print(json.dumps(output(folder, "lines_without", "INFO reading batch of shard 7, queue depth 12, ok")))
    return 0


if __name__ == "__main__":
    sys.exit(main())
