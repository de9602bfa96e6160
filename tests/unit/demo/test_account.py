"""What the server knows, beside the truth: right answers agree, wrong ones are shown as wrong."""

import msgspec
import pytest

from stepward.demo import account
from stepward.demo.account import Evidence
from stepward.demo.faults import Kind, Plan, Record, Strike
from stepward.diagnose.document import Cause, Document, StoredDiagnosis, Suspects
from stepward.model.points import Chart, Line, StepRow, StepTable
from stepward.model.resources import Attempt, Run, RunEvent, Source
from stepward.model.states import State
from stepward.model.words import Clock, RunKind, SourceKind

KILLED = Plan(Kind.KILLED, 1, 454, "signal")
RECORD = Record(Strike(7, 1, 454, 0.0), last_step=453, resumed_step=400)


def source(rank, attempt=1, state=State.CANCELLED, signal="SIGTERM", exit_code=None):
    return Source(
        writer=f"w{rank}{attempt}",
        kind=SourceKind.RANK,
        attempt=attempt,
        rank=rank,
        state=state,
        signal=signal,
        exit_code=exit_code,
        tail=["last line"],
    )


def evidence(logged=453, **change):
    first = Attempt(key="a", number=1, state=State.CRASHED, signal="SIGKILL", last_step=453, first_step=0)
    second = Attempt(key="b", number=2, state=State.FINISHED, exit_code=0, last_step=999, first_step=400)
    run = Run(
        id="run_x",
        name="demo",
        project="default",
        kind=RunKind.TRAINING,
        state=State.FINISHED,
        created_at="2026-12-01T00:00:00.000000Z",
        attempts=[msgspec.structs.replace(first, **change), second],
    )
    sources = [source(0), source(1, state=State.CRASHED, signal="SIGKILL"), source(0, 2, State.FINISHED, None, 0)]
    x_last = [] if logged is None else [float(logged)]
    loss = Chart(metric="loss", x="step", lines=[Line(rank=0, attempt=1, x_last=x_last)])
    return Evidence(run, sources, loss, StepTable({}, []), events=[detected("crash", step=logged)],
                    diagnoses=[diagnosed()])  # fmt: skip


def diagnosed(*labels, attempt=1, event=None):
    causes = [Cause(label, "framework", 0.9, "log", label, [], Suspects()) for label in labels]
    document = Document(outcome="failed", causes=causes)
    made_at = "2026-12-01T00:00:00.000000Z"
    return StoredDiagnosis(run="run_x", attempt=attempt, event=event, made_at=made_at, version=1, document=document)


def detected(type, *, id="c", rank=1, step=453, attempt=1, severity="critical", **data):
    return RunEvent(
        id=id,
        type=type,
        started_at="2026-12-01T00:00:00.000000Z",
        attempt=attempt,
        step=step,
        ranks=[rank],
        severity=severity,
        certainty="confirmed",
        detector=f"{type}/1",
        data=data,
    )


def differing(**change):
    return {fact.what for fact in account.facts(evidence(**change), KILLED, RECORD) if fact.differs}


def test_a_server_that_knows_everything_agrees_with_the_truth():
    assert differing() == set()
    told = {fact.what: fact.told for fact in account.facts(evidence(), KILLED, RECORD)}
    assert told["attempt 1 ended"] == "crashed (SIGKILL)"
    assert told["through rank"] == "1"
    assert told["steps done twice"] == "54"
    assert told["last words"] == "last line"


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ({"state": State.FAILED}, {"attempt 1 ended", "through rank"}),
        ({"signal": "SIGTERM"}, {"attempt 1 ended", "through rank"}),
        ({"logged": 452}, {"stood still before step", "steps done twice", "after step"}),
        ({"logged": None}, {"stood still before step", "steps done twice", "after step"}),
    ],
)
def test_a_server_that_is_wrong_is_shown_so(change, wrong):
    assert differing(**change) == wrong


@pytest.mark.parametrize(
    ("kind", "by", "end"),
    [
        (Kind.KILLED, "signal", "crashed (SIGKILL)"),
        (Kind.STOPPED, "signal", "crashed (SIGKILL)"),
        (Kind.MEMORY, "cgroup", "oom (SIGKILL)"),
        (Kind.MEMORY, "rlimit", "failed (exit 1)"),
        (Kind.DISK, "tmpfs", "failed (exit 1)"),
        (Kind.LOADER, "signal", "failed (exit 1)"),
        (Kind.NAN, "signal", "failed (exit 1)"),
    ],
)
def test_every_fault_has_its_end(kind, by, end):
    assert str(account.true_end(Plan(kind, 0, 5, by))) == end


def test_the_first_nan_is_that_of_the_rank_asked_for():
    lines = [Line(rank=0, x=[10.0, 11.0], n_nan=[0, 1]), Line(rank=1, x=[9.0, 10.0, 11.0], n_nan=[0, 1, 1])]
    chart = Chart(metric="loss", x="step", lines=lines)
    assert (account.first_nan(chart, 0), account.first_nan(chart, 1), account.first_nan(chart, 2)) == (11, 10, None)


def test_the_first_long_wait_is_that_of_the_rank_asked_for():
    rows = [
        StepRow(1, rank, step, "2026-12-01T00:00:00Z", 0.1, phases)
        for rank, step, phases in [
            (0, 4, {"data_wait": 0.9}),
            (1, 5, {"data_wait": 0.1}),
            (1, 6, {"data_wait": 0.4}),
            (1, 7, {"data_wait": 0.4}),
            (1, 3, {}),
        ]
    ]
    table = StepTable({"data_wait": Clock.HOST}, rows)
    assert account.first_wait(table, 1) == 6
    assert account.first_wait(table, 2) is None


def test_the_event_is_the_first_critical_one_or_what_it_follows_from():
    noise = detected("straggler", id="s", severity="warning", rank=0)
    waits = detected("input_bound", id="w", severity="warning", step=400)
    crash, later = detected("crash", follows="w"), detected("oom", id="o", attempt=2)
    assert account.root_event([noise, waits, crash, later], 1) is waits
    assert account.root_event([noise, crash, later], 1) is crash  # what it follows from was withdrawn
    assert account.root_event([noise, later], 1) is None
    loader = Plan(Kind.LOADER, 1, 400, "signal")
    record = Record(Strike(7, 1, 400, 0.0), last_step=434, resumed_step=360)
    told = account.facts(evidence()._replace(events=[waits, crash]), loader, record)
    assert [
        (fact.what, fact.told, fact.differs) for fact in told if fact.what in ("event", "of rank", "from step")
    ] == [
        ("event", "input_bound", False),
        ("of rank", "1", False),
        ("from step", "400", False),
    ]
    silent = account.facts(evidence()._replace(events=[]), loader, record)
    assert {"event", "of rank", "from step"} <= {fact.what for fact in silent if fact.differs}


@pytest.mark.parametrize(
    ("diagnoses", "told", "differs"),
    [
        ([diagnosed()], "not proven", False),
        ([diagnosed("host_oom", "preemption")], "host_oom", True),
        ([diagnosed("host_oom", attempt=2), diagnosed("host_oom", event="c"), diagnosed()], "not proven", False),
        ([], "none", True),
    ],
)
def test_a_cause_is_that_of_the_end_of_the_first_attempt(diagnoses, told, differs):
    facts = account.facts(evidence()._replace(diagnoses=diagnoses), KILLED, RECORD)
    (fact,) = [fact for fact in facts if fact.what == "cause"]
    assert (fact.told, fact.differs) == (told, differs)
