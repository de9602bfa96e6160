"""What a server answers about the goodput of its runs, from real stores: what is read when, what is kept, what is pending."""

import asyncio

import msgspec
import numpy as np
import pytest
import sqlalchemy as sa

from stepward.api import accounts
from stepward.api.accounts import Accounts, by_project
from stepward.api.ledger_events import LedgerEvents
from stepward.errors import NotFound
from stepward.goodput.ledger import VERSION
from stepward.ingest.hearing import Hearing
from stepward.ingest.ingestor import Ingestor
from stepward.model import frames
from stepward.model.frames import Config, Event, Events, LogChunk, Logs, PhaseColumn, Source, Status
from stepward.model.states import Exit, Witness
from stepward.model.words import Clock, SourceKind
from stepward.store.catalog import CatalogApplier, open_database, schema
from stepward.store.catalog.ledgers import Ledgers
from stepward.store.logs import LogStore
from stepward.store.points.duckdb import DuckDBPoints
from stepward.testing.frames import FrameWriter, steps_part

T0 = 1_800_000_000_000_000
S = 1_000_000
PHASES = [PhaseColumn("data_wait", Clock.HOST), PhaseColumn("forward", Clock.DEVICE)]


class Place:
    """The stores of a server, with a clock that tests set; ``asked`` has the instants from which steps were read."""

    def __init__(self, folder):
        self.now = T0
        self.database = open_database(f"{folder}/catalog.db")
        self.points, self.logs = DuckDBPoints(folder), LogStore(folder)
        applier = CatalogApplier(self.database, Hearing(T0 - 3600 * S))
        self.ingestor = Ingestor(self.points, [self.logs, applier], lambda: self.now)
        self.writers, self.asked = {}, []
        timed = self.points.timed_steps

        def noted(project, run, **how):
            self.asked.append(how["since_us"])
            return timed(project, run, **how)

        self.points.timed_steps = noted

    def close(self):
        asyncio.run(self.ingestor.stop())
        self.points.close()
        self.logs.close()
        self.database.close()

    def accounts(self, version=VERSION):
        ledgers = Ledgers(self.database, version)
        return Accounts(ledgers, LedgerEvents(ledgers, self.points, self.logs), lambda: self.now)

    def send(self, *parts, run="run_a", kind=SourceKind.RANK, rank=0, project="p", attempt="a0", offset=0):
        source = Source(kind=kind, attempt=attempt, rank=rank if kind is SourceKind.RANK else None, node="n1")
        name = f"{run}-{kind}-{rank}-{attempt}".replace(".", "_").replace("/", "-")
        writer = self.writers.setdefault(name, FrameWriter(run, name, project=project, source=source))
        frame = msgspec.structs.replace(writer.frame(*parts), sent_at=self.now - offset)
        asyncio.run(self.ingestor.submit(frames.encode(frame), authorize=lambda _: None))

    def begin(self, run="run_a", project="p", user=None, **more):
        system = {"n1": {"devices": [{"name": "NVIDIA H100 80GB HBM3"}]}}
        config = Config(name=run, started_at=T0, ranks=1, user=user, system=system)
        self.send(frames.part("config", config), run=run, project=project, **more)

    def steps(self, first, count, seconds=1.0, run="run_a", shift=0, **more):
        """Steps from 10 s on; a checkpoint every 50."""
        numbers = np.arange(first, first + count)
        starts = T0 + 10 * S + (numbers * seconds * S).astype(np.int64) - shift
        self.now = int(starts[-1] + seconds * S) + shift
        table = steps_part(PHASES, numbers, starts, np.full(count, seconds), np.tile([0.25, 0.5], (count, 1)))
        saved = [
            Event(id=f"saved {n}", type="checkpoint_durable", started_at=int(at + seconds * S), step=int(n))
            for n, at in zip(numbers, starts, strict=True)
            if n % 50 == 49
        ]
        parts = [table, frames.part("events", Events(saved))] if saved else [table]
        self.send(*parts, run=run, **more)

    def events(self, *events, **more):
        self.send(frames.part("events", Events(list(events))), **more)

    def end(self, run="run_a", code=0, **more):
        exit = Exit(at=self.now, by=Witness.SDK, exit_code=code)
        self.send(frames.part("exit", exit), run=run, **more)


@pytest.fixture
def place(tmp_path):
    made = Place(str(tmp_path))
    yield made
    made.close()


@pytest.fixture
def no_rest(monkeypatch):
    """Every question is computed anew, and no time passes."""
    monkeypatch.setattr(accounts, "REST", 0)
    monkeypatch.setattr(accounts, "FLEET_REST_S", 0.0)
    monkeypatch.setattr(accounts.time, "monotonic", lambda ticks=iter(range(0, 10**9, 1000)): next(ticks))


def test_an_ended_run_is_computed_once_and_kept_for_the_next_server(place):
    place.begin()
    place.steps(0, 100)
    place.end()
    first = place.accounts().run(None, "run_a")
    assert first.exact and first.report.wall_s == 110 and not first.report.open
    assert first.report.buckets_s["data_wait"] == 25 and first.report.buckets_s["init"] == 10
    reads = len(place.asked)
    assert reads > 0
    assert place.accounts().run(None, "run_a") == first and len(place.asked) == reads
    assert place.accounts().fleet(None, None, None).runs[0].device_s == 110 and len(place.asked) == reads
    # Other rules: what was kept by the former ones is computed again.
    assert place.accounts(VERSION + 1).run(None, "run_a") == first and len(place.asked) > reads


def test_what_is_said_of_an_ended_run_later_counts(place):
    place.begin()
    place.steps(0, 100)
    place.end()
    ledger = place.accounts()
    assert ledger.run(None, "run_a").report.buckets_s["hang"] == 0
    found = {"detector": "hang/1", "certainty": "confirmed"}
    hang = Event(id="h", type="hang", started_at=T0 + 2 * S, ended_at=T0 + 8 * S, data=found)
    place.events(hang, kind=SourceKind.WATCHER)
    for asked in (ledger, place.accounts()):
        assert asked.run(None, "run_a").report.buckets_s["hang"] == 6
        (share,) = asked.fleet(None, None, None).runs
        assert share.buckets_device_s["hang"] == 6


@pytest.mark.parametrize("certainty", ["suspected", "withdrawn"])
def test_only_confirmed_events_of_detectors_count(place, certainty):
    place.begin()
    place.steps(0, 20)
    data = {"detector": "hang/1", "certainty": certainty}
    place.events(Event(id="h", type="hang", started_at=T0, ended_at=T0 + 5 * S, data=data), kind=SourceKind.WATCHER)
    assert place.accounts().run(None, "run_a").report.buckets_s["hang"] == 0


def test_a_slow_checkpoint_stays_the_time_of_a_checkpoint(place):
    place.begin()
    place.steps(0, 20)
    at, until = T0 + 2 * S, T0 + 9 * S
    phase = Event(id="p", type="phase", started_at=at, ended_at=until, rank=0, data={"name": "checkpoint_save"})
    stall = Event(id="s", type="checkpoint_stall", started_at=at, ended_at=until, data={"certainty": "confirmed"})
    place.events(phase, stall)
    report = place.accounts().run(None, "run_a").report
    assert report.buckets_s["checkpoint_save"] == 7 and report.buckets_s["hang"] == 0


def test_a_running_run_rests_as_its_computation_took(place):
    place.begin()
    place.steps(0, 10)
    ledger = place.accounts()
    first = ledger.run(None, "run_a")
    place.steps(10, 10)
    assert ledger.run(None, "run_a").report == first.report


def test_a_long_run_is_fed_in_pieces_and_gives_the_same(place, no_rest, monkeypatch):
    monkeypatch.setattr(accounts, "EXACT_STEPS", 1000)
    monkeypatch.setattr("stepward.api.ledger_events.PAGE_STEPS", 500)
    place.begin()
    place.steps(0, 1500)
    ledger = place.accounts()
    for turn in range(4):
        place.steps(1500 + 700 * turn, 700)
        place.asked.clear()
        found = ledger.run(None, "run_a")
    # Only what may still change is read again.
    assert not found.exact and min(place.asked) > T0
    monkeypatch.setattr(accounts, "EXACT_STEPS", 10**9)
    whole = place.accounts().run(None, "run_a")
    assert whole.exact and found.assumptions == whole.assumptions
    assert found.report.buckets_s == pytest.approx(whole.report.buckets_s, abs=1e-3)
    assert found.report.provisional_s == pytest.approx(whole.report.provisional_s, abs=1e-3)
    assert [w.window for w in found.windows] == ["1h", "24h"]
    for mine, exact in zip(found.windows, whole.windows, strict=True):
        assert mine.wall_s == exact.wall_s
        assert mine.buckets_s["productive"] == pytest.approx(exact.buckets_s["productive"], abs=1)
    assert found.attempts[0].buckets_s == pytest.approx(whole.attempts[0].buckets_s, abs=1e-3)


def test_a_run_too_long_for_two_passes_loses_nothing_when_it_ends(place, monkeypatch):
    place.begin()
    place.steps(0, 3000)
    place.end()
    whole = place.accounts().run(None, "run_a")
    monkeypatch.setattr(accounts, "MAX_STEPS", 1000)
    monkeypatch.setattr("stepward.api.ledger_events.PAGE_STEPS", 700)
    found = place.accounts(VERSION + 1).run(None, "run_a")
    assert whole.exact and not found.exact and not found.report.open
    assert found.report.buckets_s == pytest.approx(whole.report.buckets_s, abs=1e-3)


def test_steps_of_several_ranks_with_other_clocks_come_in_order(place, no_rest, monkeypatch):
    monkeypatch.setattr("stepward.api.ledger_events.PAGE_STEPS", 97)
    place.begin()
    for turn in range(3):
        place.steps(200 * turn, 200)
        place.steps(200 * turn, 200, rank=1, shift=7 * S, offset=7 * S)
    whole = place.accounts().run(None, "run_a")
    monkeypatch.setattr(accounts, "EXACT_STEPS", 100)
    found = place.accounts().run(None, "run_a")
    assert whole.exact and not found.exact and found.report.rejected == 0
    assert found.report.buckets_s == pytest.approx(whole.report.buckets_s, abs=1e-3)
    assert whole.report.buckets_s["productive"] + whole.report.buckets_s["data_wait"] == 600


def test_asking_often_while_nothing_happens_grows_nothing(place, no_rest, monkeypatch):
    monkeypatch.setattr(accounts, "EXACT_STEPS", 100)
    place.begin()
    place.steps(0, 500)
    ledger, sizes = place.accounts(), []
    for _ in range(5):
        ledger.run(None, "run_a")
        sizes.append(len(ledger._kept["run_a"].live._waiting))
    assert len(set(sizes)) == 1


def test_all_checkpoints_of_a_long_run_are_read(place):
    place.begin()
    place.steps(0, 6000)
    ids = [Event(id=f"more {n}", type="checkpoint_durable", started_at=place.now + n, step=n) for n in range(5500)]
    place.events(*ids)
    ledgers = Ledgers(place.database, VERSION)
    assert len(ledgers.events("run_a", {"checkpoint_durable"})) == 5500 + 120
    assert len(ledgers.events("run_a", {"checkpoint_durable"}, since_us=place.now + 5000)) == 500


def fleet(place, count):
    for number in range(count):
        place.begin(run=f"run_{number}", project=f"p{number % 2}")
        place.steps(0, 20, run=f"run_{number}", project=f"p{number % 2}")
        place.end(run=f"run_{number}", project=f"p{number % 2}")


def test_a_fleet_computes_for_a_limited_time_and_says_what_is_to_come(place):
    fleet(place, 6)
    ledger = place.accounts()
    none = ledger.fleet(None, None, None, budget_s=-1)
    assert none.pending == 6 and none.runs == [] and none.device_s == 0
    found = ledger.fleet(None, None, None)
    assert found.pending == 0 and len(found.runs) == 6 and found.device_s == 6 * 30
    assert [one.device_s for one in by_project(found)] == [90, 90]
    # A new server has them at hand.
    assert place.accounts().fleet(None, None, None, budget_s=-1) == found
    assert len(place.accounts().fleet(None, "p1", None, budget_s=-1).runs) == 3
    assert len(place.accounts().fleet(["p0"], None, None, budget_s=-1).runs) == 3
    assert place.accounts().fleet(None, None, place.now + 1, budget_s=-1).runs == []
    with pytest.raises(NotFound):
        ledger.fleet(None, "nobody's", None)


def test_the_clockwork_settles_what_has_ended(place):
    fleet(place, 3)
    place.begin(run="run_lives")
    place.steps(0, 20, run="run_lives")
    ledger = place.accounts()
    ledger.settle()
    with place.database.read() as connection:
        rows = connection.execute(sa.select(schema.ledgers.c.run, schema.ledgers.c.version)).fetchall()
    assert sorted(rows) == [(f"run_{n}", VERSION) for n in range(3)]
    assert place.accounts().fleet(None, None, None, budget_s=-1).pending == 1


def test_a_run_whose_account_fails_is_left_alone_for_a_while(place, monkeypatch):
    fleet(place, 2)
    ledger, asked = place.accounts(), []

    def broken(head):
        asked.append(head.id)
        raise NotFound("no file", code="x") if head.id == "run_0" else accounts.StepwardError("torn", code="x")

    monkeypatch.setattr(ledger._events, "records", broken)
    ledger.settle()
    ledger.settle()
    # run_0 has nothing to account for, which is known by now; run_1 is tried later.
    assert sorted(asked) == ["run_0", "run_1"]
    assert ledger.fleet(None, None, None).left_out == 2


def test_a_deleted_runs_ledger_goes_with_it(place):
    from stepward.store.catalog import Edits, Runs

    fleet(place, 1)
    place.accounts().settle()
    hearing = Hearing(T0)
    runs = Runs(place.database, hearing, lambda: place.now)
    Edits(place.database, hearing, lambda: place.now, lambda changes: None).delete(runs.head(None, "run_0"))
    with place.database.read() as connection:
        assert connection.execute(sa.select(schema.ledgers)).first() is None


def test_a_scheduler_s_waiting_is_accounted_for(place):
    """What a watcher says under the launch's key is about the attempts inside."""
    watcher = {"kind": SourceKind.WATCHER, "attempt": "slurm.0", "rank": None}
    place.events(Event(id="j", type="job_submitted", started_at=T0 - 100 * S), **watcher)
    waited = {"reason": "Resources", "why": "no node is free"}
    place.events(Event(id="q", type="queued", started_at=T0 - 100 * S, ended_at=T0 - 30 * S, data=waited), **watcher)
    place.events(Event(id="c", type="provision", started_at=T0 - 30 * S, ended_at=T0), **watcher)
    place.send(frames.part("config", Config(started_at=T0 - 30 * S, ranks=8, nodes=["n1", "n2"])), **watcher)
    place.begin(attempt="slurm.0/step.0")
    place.steps(0, 50, attempt="slurm.0/step.0")
    found = place.accounts().run(None, "run_a")
    buckets = {bucket: seconds for bucket, seconds in found.report.buckets_s.items() if seconds}
    assert buckets == {"queue_wait": 70, "provision": 30, "init": 10, "data_wait": 12.5, "productive": 37.5}
    assert found.report.attempts == 1 and found.report.scheduling == pytest.approx(60 / 160)


def test_mfu_needs_flops_and_a_cited_peak(place):
    place.begin(user={"flops_per_step": 989e12 * 0.3})
    place.steps(0, 100)
    # The ideal step is 0.75 s beside its wait for data, on one device.
    assert place.accounts().run(None, "run_a").report.mfu == pytest.approx(0.3 / 0.75)
    place.begin(run="run_bare")
    place.steps(0, 10, run="run_bare")
    assert place.accounts().run(None, "run_bare").report.mfu is None


def test_who_has_no_attempt_yet_has_no_goodput(place):
    watcher = {"kind": SourceKind.WATCHER, "attempt": "slurm.0", "rank": None}
    place.send(frames.part("config", Config(name="a", started_at=None)), **watcher)
    with place.database.write() as connection:
        connection.execute(sa.delete(schema.attempts))
    with pytest.raises(NotFound) as raised:
        place.accounts().run(None, "run_a")
    assert raised.value.code == "no_goodput"
    assert place.accounts().fleet(None, None, None).left_out == 1
    with pytest.raises(NotFound) as raised:
        place.accounts().run(None, "nobody")
    assert raised.value.code == "no_such_run"


def test_a_run_without_the_sdk_is_read_from_its_step_lines(place):
    wrapper = {"kind": SourceKind.WRAPPER, "rank": None}
    place.begin(**wrapper)
    for n in range(1, 31):
        place.now = T0 + (10 + n) * S
        line = f"iter {n}: loss 3.1, time 1000.00ms, mfu 3%\n".encode()
        chunk = LogChunk("stdout", 100 * n, line, [(0, place.now)])
        place.send(frames.part("logs", Logs([chunk])), frames.part("status", Status(at=place.now)), **wrapper)
    exit = Exit(at=place.now, by=Witness.REAPER, exit_code=0, final=True)
    place.send(frames.part("exit", exit), **wrapper)
    found = place.accounts().run(None, "run_a")
    assert found.report.buckets_s["productive"] == 30 and found.report.buckets_s["init"] == 10
    assert any("printed" in words for words in found.assumptions)
