"""Runs as they are observed are the runs as they are judged again: over real stores, on a clock that tests set."""

import asyncio
import heapq
import random
import threading
import time

import msgspec
import pytest
import sqlalchemy as sa

from stepward.ingest.hearing import Hearing
from stepward.ingest.ingestor import Ingestor
from stepward.model import frames
from stepward.observe import observer as observing
from stepward.observe.lines import LineReader
from stepward.observe.observer import Observer
from stepward.observe.replay import Replay
from stepward.observe.reprocess import Reprocessor
from stepward.store.catalog import CatalogApplier, Edits, open_database, schema
from stepward.store.catalog.detected import DetectedEvents
from stepward.store.logs import LogStore
from stepward.store.points.duckdb import DuckDBPoints
from stepward.testing.simulator import Simulation, simulate
from stepward.testing.simulator.wire import Source, source_of

S = 1_000_000
T0 = 1_800_000_000 * S
RUN = "run_aaaaaaaaaaaaaaaaaaaaaaaaaa"


class Lab:
    """A server's inside without its threads: whatever is sent is committed, applied and observed at once."""

    def __init__(self, folder):
        self.now = T0
        self.database = open_database(f"{folder}/catalog.db")
        self.points, logs = DuckDBPoints(str(folder)), LogStore(str(folder))
        self.logs, hearing = logs, Hearing(T0 - S)
        applier = CatalogApplier(self.database, hearing, lambda changes: None, lambda *what: None)
        self.edits = Edits(self.database, hearing, self.clock, lambda changes: None)
        self.detected = DetectedEvents(self.database, lambda changes: None)
        replay = Replay(self.points, LineReader(logs), self.detected)
        self.observer = Observer(replay, LineReader(logs), self.detected, self.clock)
        again = Replay(self.points, LineReader(logs), self.detected)
        self.reprocessor = Reprocessor(again, self.detected, lambda project: (), self.observer, self.clock)
        self.reprocessor.start()
        self.followed = threading.Semaphore(0)
        self.ingestor = Ingestor(self.points, [logs, applier], self.clock, follow=self.follow)
        self.loop = asyncio.new_event_loop()

    def clock(self):
        return self.now

    def follow(self, rows):
        self.observer.follow(rows)
        for _ in rows:
            self.followed.release()

    def close(self):
        self.loop.run_until_complete(self.ingestor.stop())
        self.loop.close()
        self.reprocessor.stop()
        for part in (self.points, self.logs, self.database):
            part.close()

    def send(self, arrived):
        """Frames that come together, those of one writer one after the other."""
        by_writer = {}
        for frame in arrived:
            by_writer.setdefault(frame.writer, []).append(frames.encode(frame))

        async def one(bodies):
            for body in bodies:
                await self.ingestor.submit(body, authorize=lambda frame: None)

        async def every():
            await asyncio.gather(*map(one, by_writer.values()))

        self.loop.run_until_complete(every())
        for _ in arrived:  # it is told behind the acknowledgement
            assert self.followed.acquire(timeout=120)

    def second(self):
        """What the server does each second."""
        self.observer.turn()
        self.edits.judge_live()
        self.observer.look(self.now)

    def wait(self, seconds):
        for _ in range(seconds):
            self.now += S
            self.second()

    def differences(self):
        """What judging the run again would change."""
        job = self.reprocessor.submit("default", RUN, dry_run=True)
        end = time.monotonic() + 120
        while job.state not in ("done", "failed") and time.monotonic() < end:
            time.sleep(0.01)
        assert job.state == "done", job.error
        return job.added, job.removed, job.changed


@pytest.fixture
def lab(tmp_path):
    lab = Lab(tmp_path)
    yield lab
    lab.close()


def drive(lab, simulation, delay_s, first_s=0.0, share=1.0):
    """Every source sends once a second what it has; frames are under way for ``delay_s()``, its very first ``first_s`` more.

    ``share`` of the run is driven.
    """
    simulation = Simulation(msgspec.structs.replace(simulation.plan, start_s=T0 // S), simulation.placed)
    items, sources, arrivals, free = list(simulation.items()), {}, [], {}
    at = 0
    while at < share * len(items) or (arrivals and share == 1.0):
        lab.now += S
        due = {}
        while at < len(items) and items[at][0] <= lab.now:
            who = source_of(items[at], simulation.plan)
            if who is not None:
                due.setdefault(who, []).append(items[at])
            at += 1
        for number, (who, said) in enumerate(due.items()):
            late = delay_s() + (first_s if who not in sources else 0.0)
            source = sources.setdefault(who, Source(RUN, "default", simulation.plan, who))
            when = free[who] = max(free.get(who, 0), lab.now + round(late * S))
            heapq.heappush(arrivals, (when, lab.now, number, source.frame(said, now=lab.now)))
        arrived = []
        while arrivals and arrivals[0][0] <= lab.now:
            arrived.append(heapq.heappop(arrivals)[-1])
        lab.send(arrived)
        lab.second()


def job(seed, kind, full_scale):
    return simulate(
        seed, kind=kind, ranks=2, steps=1200 if full_scale else 200, step_s=0.2, clocking="host", sample_s=10.0
    )


@pytest.mark.parametrize("kind", ["slow_rank", "deadlock", "co_tenant"])
def test_frames_within_the_lateness_are_judged_live_as_in_a_replay(lab, monkeypatch, full_scale, kind):
    if kind != "slow_rank" and not full_scale:
        pytest.skip("one kind is enough where tests are sampled")
    monkeypatch.setattr(observing, "JUDGED_AGAIN_POINTS", 0)
    dice = random.Random(3)
    # Before the end: when that is told in another way than at first, the run is read again.
    drive(lab, job(5, kind, full_scale), lambda: dice.uniform(0.0, 0.9), share=0.9)
    (watched,) = lab.observer._runs.values()
    assert watched.detection.late == 0 and watched.replays == 0
    assert lab.differences() == ([], [], [])
    assert lab.detected.of(RUN)


def test_what_comes_late_is_in_the_end_judged_as_it_happened(lab):
    dice = random.Random(4)
    drive(lab, job(5, "slow_rank", False), lambda: dice.choice([0.0, 0.0, 0.0, 9.0]))
    (watched,) = lab.observer._runs.values()
    assert watched.detection.late or watched.replays
    lab.wait(45)
    assert not lab.observer._runs
    assert lab.differences() == ([], [], [])


def test_a_first_frame_that_was_long_under_way_is_no_wrong_clock(lab, monkeypatch):
    monkeypatch.setattr(observing, "JUDGED_AGAIN_POINTS", 0)
    drive(lab, job(5, "slow_rank", False), lambda: 0.0, first_s=4.0)
    (watched,) = lab.observer._runs.values()
    assert set(watched.offsets.values()) <= set(range(-S, 2 * S))
    lab.wait(45)
    assert lab.differences() == ([], [], [])


def test_an_end_that_turns_out_otherwise_is_told_anew(lab, monkeypatch):
    monkeypatch.setattr(observing, "JUDGED_AGAIN_POINTS", 0)
    drive(lab, job(5, "xid_79", False), lambda: 0.0)
    with lab.database.write() as connection:
        connection.execute(sa.update(schema.attempts).values(state="oom", ended_at=schema.attempts.c.ended_at + S))
    lab.wait(5)
    assert {event.type for event in lab.detected.of(RUN).values()} >= {"oom"}
    assert lab.differences() == ([], [], [])
