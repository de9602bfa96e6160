"""Reading a run's records: when they are read, in how many pieces, and that pieces give the same answer as the whole."""

from types import SimpleNamespace

import pytest

from stepward.api import accounts
from stepward.api.accounts import Accounts
from stepward.errors import NotFound
from stepward.goodput.peaks import peak_of, utilisation
from stepward.model.resources import (
    Attempt,
    LogLine,
    LogPage,
    LogStream,
    Run,
    RunConfig,
    RunEvent,
    StepRow,
    StepTable,
    instant,
)
from stepward.model.states import State
from stepward.model.words import Clock, RunKind

T0 = 1_800_000_000_000_000
S = 1_000_000


class Records:
    """The catalog and the points store of one run, as far as ``Accounts`` asks."""

    def __init__(self, *, running=True, config=None):
        self.rows, self.asked, self.lines, self.running = [], [], [], running
        self.settings = config or {}
        self.now = T0

    def add(self, count, seconds=1.0):
        first = len(self.rows)
        for number in range(first, first + count):
            started = instant(T0 + 10 * S + int(number * seconds * S))
            self.rows.append(StepRow(1, 0, number, started, seconds, {"data_wait": 0.25, "forward": 0.5}))
        self.now = T0 + 10 * S + int(len(self.rows) * seconds * S)

    def get(self, projects, named):
        if named != "run_a":
            raise NotFound("no such run", code="no_such_run")
        return self.run()

    def run(self):
        state = State.RUNNING if self.running else State.FINISHED
        end = None if self.running else instant(self.now)
        attempt = Attempt(
            key="k", number=1, state=state, ranks=1, nodes=["n1"], started_at=instant(T0), ended_at=end, first_step=0
        )
        return Run(
            id="run_a", name="a", project="p", kind=RunKind.TRAINING, state=state, attempts=[attempt],
            created_at=instant(T0), started_at=instant(T0), ended_at=end, last_seen_at=instant(self.now),
        )  # fmt: skip

    def steps(self, project, run, *, attempts, last):
        self.asked.append(last)
        clocks = {"data_wait": Clock.HOST, "forward": Clock.DEVICE}
        return StepTable(clocks, self.rows[-last:])

    def sources(self, projects, named):
        return []

    def events(self, projects, named, type):
        saved = [row for row in self.rows if row.step % 50 == 49] if type == "checkpoint_durable" else []
        return [
            RunEvent(id=str(row.step), type=type, started_at=row.started_at, attempt=1, step=row.step) for row in saved
        ]

    def streams(self, project, run, *, attempts):
        return [LogStream(id="out", stream="stdout", attempt=1)] if self.lines else []

    def page(self, *asked, from_n=1, limit=0, q="", **_):
        if len(asked) < 3:
            return SimpleNamespace(items=[self.run()], total=1)
        assert q.startswith("/") and "iter" in q
        return LogPage(
            stream=self.streams(*asked[:2], attempts={})[0], lines=[one for one in self.lines if one.n >= from_n]
        )

    def config(self, projects, named):
        return RunConfig(user=self.settings, system={"n1": {"devices": [{"name": "NVIDIA H100 80GB HBM3"}]}})

    def accounts(self):
        return Accounts(self, self, self, lambda: self.now)


@pytest.fixture
def no_rest(monkeypatch):
    """Every question is computed anew."""
    monkeypatch.setattr(accounts, "REST", 0)
    monkeypatch.setattr(accounts.time, "monotonic", lambda ticks=iter(range(0, 10**9, 1000)): next(ticks))


def test_an_ended_run_is_read_once():
    records = Records(running=False)
    records.add(100)
    ledger = records.accounts()
    first = ledger.run(None, "run_a")
    assert ledger.run(None, "run_a") is first and len(records.asked) == 1
    assert first.exact and first.report.wall_s == 110
    assert first.report.buckets_s["data_wait"] == 25 and first.report.buckets_s["init"] == 10


def test_a_running_run_rests_as_its_computation_took():
    records = Records()
    records.add(10)
    ledger = records.accounts()
    first = ledger.run(None, "run_a")
    records.add(10)
    assert ledger.run(None, "run_a") is first


def test_a_long_run_is_fed_in_pieces_and_gives_the_same(no_rest, monkeypatch):
    monkeypatch.setattr(accounts, "EXACT_STEPS", 1000)
    records = Records()
    records.add(1500)
    ledger = records.accounts()
    for _ in range(20):
        records.add(700)
        found = ledger.run(None, "run_a")
    assert not found.exact and records.asked[-1] == 4096
    monkeypatch.setattr(accounts, "EXACT_STEPS", 10**9)
    whole = records.accounts().run(None, "run_a")
    assert whole.exact
    assert found.report.buckets_s == pytest.approx(whole.report.buckets_s, abs=1e-3)
    assert found.report.provisional_s == pytest.approx(whole.report.provisional_s, abs=1e-3)


def test_asking_often_while_nothing_happens_grows_nothing(no_rest, monkeypatch):
    monkeypatch.setattr(accounts, "EXACT_STEPS", 100)
    records = Records()
    records.add(500)
    ledger = records.accounts()
    sizes = []
    for _ in range(5):
        ledger.run(None, "run_a")
        sizes.append(len(ledger._kept["run_a"].live._waiting))
    assert len(set(sizes)) == 1


def test_mfu_needs_flops_and_a_cited_peak():
    records = Records(running=False, config={"flops_per_step": 989e12 * 0.3})
    records.add(100)
    # The ideal step is 0.75 s beside its wait for data, on one device.
    assert records.accounts().run(None, "run_a").report.mfu == pytest.approx(0.3 / 0.75)
    assert Records(running=False).accounts is not None
    bare = Records(running=False)
    bare.add(10)
    assert bare.accounts().run(None, "run_a").report.mfu is None


def test_peaks_are_found_by_name():
    assert peak_of("NVIDIA A100-SXM4-80GB") == 312e12
    assert peak_of("NVIDIA H100 PCIe") == 756e12
    assert peak_of("Voodoo 2") is None
    assert utilisation(flops_per_step=1.0, ideal_s=None, program=None, devices=1, peak=1.0) is None


def test_who_has_no_attempt_has_no_goodput():
    records = Records()
    records.run = lambda: Run(
        id="run_a", name="a", project="p", kind=RunKind.TRAINING, state=State.QUEUED, created_at=instant(T0)
    )
    with pytest.raises(NotFound) as raised:
        records.accounts().run(None, "run_a")
    assert raised.value.code == "no_goodput"
    fleet = records.accounts().fleet(None, None, None)
    assert fleet.runs == [] and fleet.left_out == 1


def test_a_run_without_the_sdk_is_read_from_its_step_lines():
    records = Records(running=False)
    records.now = T0 + 40 * S
    records.lines = [
        LogLine(n=n, text=f"iter {n}: loss 3.1, time 1000.00ms, mfu 3%", at=instant(T0 + (10 + n) * S))
        for n in range(1, 31)
    ]
    found = records.accounts().run(None, "run_a")
    assert found.report.buckets_s["productive"] == 30 and found.report.buckets_s["init"] == 10
    assert any("printed" in words for words in found.assumptions)
