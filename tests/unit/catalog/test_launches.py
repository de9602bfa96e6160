"""A watched job and what runs inside of it are one attempt for people, whoever is heard first."""

import shutil

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stepward.model.frames import Config, Event, Events, Logs, Status
from stepward.model.states import Exit, State, Witness
from stepward.model.words import SourceKind
from stepward.store.catalog import CatalogApplier, open_database

from .conftest import T0, Bench, S, point

SILENT = 13 * S
JOB = {"system": "slurm", "cluster": "lab", "id": "42"}


def told(state=State.RUNNING, at=T0, **more):
    return ("status", Status(at=at, state=state, **more))


def config(**more):
    return ("config", Config(**more))


def ended(state, at=T0, **more):
    return ("exit", Exit(at=at, by=Witness.SCHEDULER, state=state, **more))


def watcher(bench, attempt="slurm.0", run="r"):
    made = bench.writer(run, attempt=attempt, kind=SourceKind.WATCHER, node="")
    made.source = msgspec.structs.replace(made.source, vouched_by=bench.run("watcher", "_nodes"))
    return made


def beats(bench):
    """The watcher's own run, whose heartbeats stand for all of its jobs."""
    return bench.writer("watcher", "_nodes", attempt="w", kind=SourceKind.WATCHER, node="")


def attempts(bench):
    return [(attempt.number, attempt.key, attempt.state) for attempt in bench.get().attempts]


def later(bench, after=SILENT, *writers):
    bench.now += after
    for writer in writers:
        writer.send(("status", Status(at=bench.now)))
    bench.edits.judge_live()


def test_a_watched_job_is_a_run_with_the_schedulers_states(bench):
    seen = watcher(bench)
    seen.send(config(key="slurm:lab:42", name="train"), told(State.QUEUED, reason="waits for nodes"))
    run = bench.get()
    assert (run.name, run.state, run.state_reason) == ("train", State.QUEUED, "waits for nodes")
    seen.send(told(State.STARTING, at=T0 + 1))
    assert bench.get().state is State.STARTING
    seen.send(told(at=T0 + 2), config(started_at=T0 + 2 * S, nodes=["n1", "n0"]))
    run = bench.get()
    assert (run.state, run.state_reason) == (State.RUNNING, None)
    assert (run.attempts[0].nodes, run.attempts[0].started_at) == (["n0", "n1"], "2027-01-15T08:00:02.000000Z")
    seen.send(ended(State.TIMEOUT, at=T0 + 60 * S, reason="time limit"))
    run = bench.get()
    assert (run.state, run.attempts[0].reason, run.ended_at) == (
        State.TIMEOUT,
        "time limit",
        "2027-01-15T08:01:00.000000Z",
    )


@pytest.mark.parametrize(("late", "taken"), [(3 * S, "08:00:02.000000Z"), (20 * S, "08:00:22.000000Z")])
def test_a_busy_servers_delay_is_no_clock_of_the_watcher(bench, late, taken):
    watcher(bench).send(config(started_at=T0 + 2 * S), received_at=T0 + late)
    assert bench.get().attempts[0].started_at == f"2027-01-15T{taken}"


def test_an_older_word_of_the_watcher_changes_nothing(bench):
    seen = watcher(bench)
    seen.send(told(State.RUNNING, at=T0 + 5))
    watcher(bench).send(told(State.QUEUED, at=T0))
    assert bench.get().state is State.RUNNING


def test_a_heard_watcher_keeps_its_queued_job_and_a_silent_one_leaves_it_as_it_was_known(bench):
    beat = beats(bench)
    beat.send(("status", Status(at=T0)))
    watcher(bench).send(told(State.QUEUED, reason="held"))
    later(bench, 3600 * S, beat)
    assert (bench.get().state, bench.get().state_reason) == (State.QUEUED, "held")
    later(bench)
    run = bench.get()
    assert run.state is State.QUEUED
    assert run.state_reason == "watcher not heard since 2027-01-15T09:00:00.000000Z; until then: held"
    later(bench, SILENT, beat)
    assert bench.get().state_reason == "held"


def test_a_job_stays_running_while_its_watcher_is_silent_and_the_program_is_heard(bench):
    watcher(bench).send(told())
    rank = bench.writer(attempt="slurm.0/step.0")
    rank.send(("status", Status(at=T0)))
    later(bench, SILENT, rank)
    assert attempts(bench) == [(1, "slurm.0/step.0", State.RUNNING)]
    later(bench)
    assert bench.get().state is State.LOST


def test_a_silent_program_in_a_job_that_runs_is_hung_and_not_lost(bench):
    beat = beats(bench)
    watcher(bench).send(told())
    bench.writer(attempt="slurm.0/step.0").send(("status", Status(at=T0)))
    later(bench, SILENT, beat)
    run = bench.get()
    assert run.state is State.HUNG
    assert "the scheduler says that the job runs" in run.state_reason


def test_a_suspended_job_is_not_hung(bench):
    beat = beats(bench)
    seen = watcher(bench)
    seen.send(told())
    bench.writer(attempt="slurm.0/step.0").send(("status", Status(at=T0)))
    seen.send(told(at=T0 + 1, reason="suspended", paused=True))
    later(bench, SILENT, beat)
    assert (bench.get().state, bench.get().state_reason) == (State.RUNNING, "suspended")


def test_the_first_inside_takes_the_place_of_the_placeholder(bench):
    seen = watcher(bench)
    seen.send(
        told(State.QUEUED),
        config(name="job", ranks=64, key="slurm:lab:42"),
        ("events", Events([Event(id="q", type="queued", started_at=T0, ended_at=T0 + S)])),
    )
    seen.send(told(at=T0 + 1), config(started_at=T0 + S, nodes=["n0"]))
    bench.now += 10 * S
    rank = bench.writer(attempt="slurm.0/step.0")
    rank.send(config(name="pretrain", started_at=T0 + 3 * S), metrics=[point("loss", 1, 1.0)])
    (attempt,) = bench.get().attempts
    assert (attempt.number, attempt.key, attempt.nodes, attempt.ranks) == (1, "slurm.0/step.0", ["n0", "n1"], 1)
    assert attempt.started_at == "2027-01-15T08:00:01.000000Z"
    assert bench.get().name == "pretrain"
    assert [(event.type, event.attempt) for event in bench.events.of_run(None, bench.run())] == [("queued", 1)]
    assert bench.runs.head(None, bench.run()).numbers == {"slurm.0/step.0": 1, "slurm.0": 1}
    assert {source.attempt for source in bench.runs.sources(None, bench.run())} == {1}
    seen.send(ended(State.OOM, at=T0 + 9 * S), config(name="job"))
    assert attempts(bench) == [(1, "slurm.0/step.0", State.OOM)]
    assert bench.get().name == "pretrain"


def test_a_program_without_a_step_of_its_own_is_the_placeholder_itself(bench):
    watcher(bench).send(told(), config(started_at=T0 - 5 * S, ranks=64))
    bench.writer(attempt="slurm.0").send(config(started_at=T0), ("status", Status(at=T0)))
    (attempt,) = bench.get().attempts
    assert (attempt.key, attempt.ranks, attempt.started_at) == ("slurm.0", 1, "2027-01-15T07:59:55.000000Z")


def test_a_second_step_is_a_second_attempt_and_the_jobs_end_is_about_the_newest(bench):
    seen = watcher(bench)
    seen.send(told(), config(started_at=T0))
    first = bench.writer(attempt="slurm.0/step.0")
    first.send(config(started_at=T0 + S), ("exit", Exit(at=T0 + 5 * S, by=Witness.SDK, exit_code=0)))
    bench.writer(attempt="slurm.0/step.1").send(config(started_at=T0 + 6 * S), ("status", Status(at=T0)))
    seen.send(ended(State.FAILED, at=T0 + 9 * S, exit_code=3))
    assert attempts(bench) == [(1, "slurm.0/step.0", State.FINISHED), (2, "slurm.0/step.1", State.FAILED)]


def test_an_earlier_step_whose_end_nobody_saw_ended_with_its_job(bench):
    seen = watcher(bench)
    seen.send(told(), config(started_at=T0))
    bench.writer(attempt="slurm.0/step.0").send(config(started_at=T0 + S))
    bench.writer(attempt="slurm.0/step.1").send(config(started_at=T0 + 6 * S))
    later(bench)
    seen.send(ended(State.CANCELLED, at=T0 + 20 * S))
    assert {state for *_, state in attempts(bench)} == {State.CANCELLED}


def test_a_requeued_job_waits_and_then_has_a_second_attempt(bench):
    seen = watcher(bench)
    seen.send(told(), config(started_at=T0))
    bench.now += 30 * S
    seen.send(ended(State.LOST, at=bench.now, reason="node failure", final=False))
    later(bench, 3600 * S)
    assert bench.get().state is State.WAITING
    again = watcher(bench, "slurm.1")
    again.send(told(State.QUEUED, at=bench.now, reason="waits for nodes"))
    run = bench.get()
    assert (run.state, run.attempts[-1].state) == (State.WAITING, State.QUEUED)
    assert "waits for nodes" in run.state_reason
    again.send(told(at=bench.now + 1), config(started_at=bench.now))
    assert attempts(bench) == [(1, "slurm.0", State.LOST), (2, "slurm.1", State.RUNNING)]
    assert bench.get().state is State.RUNNING


def test_what_the_watcher_saw_in_between_is_about_the_attempt_of_that_time(bench):
    seen = watcher(bench)
    bench.writer(attempt="slurm.0/step.0").send(config(started_at=T0 + 10 * S))
    bench.writer(attempt="slurm.0/step.1").send(config(started_at=T0 + 20 * S))
    happened = [Event(id=str(at), type="x", started_at=T0 + at * S) for at in (1, 15, 25)]
    seen.send(("events", Events(happened)))
    assert [event.attempt for event in bench.events.of_run(None, bench.run())] == [1, 1, 2]


def test_a_claim_is_the_first_ones_and_the_watchers_own_word_is_none(bench):
    watcher(bench).send(config(job=JOB))
    assert bench.claims.after(None, "lab", 0) == []
    bench.writer("mine", "llm").send(config(job=JOB))
    bench.writer("other", "llm").send(config(job=JOB))
    (claim,) = bench.claims.after(None, "lab", 0)
    assert (claim.job, claim.project, claim.run) == ("42", "llm", bench.run("mine", "llm"))
    assert bench.claims.after(None, "lab", claim.seq) == []
    assert bench.claims.after(["default"], "lab", 0) == []
    assert bench.claims.after(None, "other", 0) == []


def test_a_claim_comes_again_once_its_output_comes_from_inside(bench):
    rank = bench.writer("mine")
    rank.send(config(job=JOB))
    (claim,) = bench.claims.after(None, "lab", 0)
    assert not claim.covered
    watcher(bench, run="mine").send(("logs", Logs([])))
    assert bench.claims.after(None, "lab", claim.seq) == []
    rank.send(("logs", Logs([])))
    (again,) = bench.claims.after(None, "lab", claim.seq)
    assert (again.job, again.run, again.covered) == (claim.job, claim.run, True)
    bench.writer("mine", kind=SourceKind.WRAPPER).send(config(job=JOB), ("logs", Logs([])))
    assert bench.claims.after(None, "lab", again.seq) == []


def test_a_wrapper_covers_the_output_from_its_first_word_on(bench):
    bench.writer("mine", kind=SourceKind.WRAPPER).send(config(job=JOB))
    assert [claim.covered for claim in bench.claims.after(None, "lab", 0)] == [True]


def test_the_server_hears_when_a_watcher_writes_elsewhere(bench):
    moved = []
    bench.applier = CatalogApplier(bench.database, bench.hearing, moved=moved.append)
    bench.writer("mine").send(("events", Events([Event(id="n", type="moved", started_at=T0)])))
    assert moved == bench.claims.superseded() == []
    watcher(bench).send(told(), ("events", Events([Event(id="m", type="moved", started_at=T0)])))
    assert moved == bench.claims.superseded() == [bench.run()]
    bench.writer(attempt="slurm.0").send(("status", Status(at=T0)))
    assert bench.claims.superseded() == []


# ── any order ──


def _story():
    """Per writer: (name, attempt, kind, frames in order) of a job that is requeued once."""
    watch0 = [
        [told(State.QUEUED, at=T0), config(name="job", key="slurm:lab:42", job=JOB)],
        [told(at=T0 + 1), config(started_at=T0 + S, nodes=["n0"])],
        [ended(State.LOST, at=T0 + 30 * S, final=False)],
    ]
    watch1 = [
        [told(State.QUEUED, at=T0 + 30 * S, reason="waits for nodes")],
        [told(at=T0 + 40 * S), config(started_at=T0 + 40 * S, nodes=["n1"])],
        [ended(State.FINISHED, at=T0 + 90 * S, exit_code=0)],
    ]
    step0 = [[config(name="pretrain", started_at=T0 + 2 * S)], [("status", Status(at=T0 + 3 * S, step=5))]]
    step1 = [[config(started_at=T0 + 10 * S)], [("status", Status(at=T0 + 11 * S, step=9))]]
    again = [[config(started_at=T0 + 42 * S)], [("exit", Exit(at=T0 + 80 * S, by=Witness.SDK, exit_code=1))]]
    return [
        ("slurm.0", SourceKind.WATCHER, watch0),
        ("slurm.1", SourceKind.WATCHER, watch1),
        ("slurm.0/step.0", SourceKind.RANK, step0),
        ("slurm.0/step.1/run.0", SourceKind.RANK, step1),
        ("slurm.1", SourceKind.RANK, again),
    ]


def _play(path, order, batch):
    bench = Bench(str(path))
    try:
        bench.now = T0 + 100 * S
        writers = [
            (bench.writer(attempt=attempt, kind=kind, node="" if kind is SourceKind.WATCHER else "n0"), iter(frames))
            for attempt, kind, frames in _story()
        ]
        for chunk in (order[start : start + batch] for start in range(0, len(order), batch)):
            frames = [writers[turn][0].send(*next(writers[turn][1]), apply=False) for turn in chunk]
            bench.applier.apply(frames)
            # What is not in the tables is forgotten between two batches, as after a restart of the server.
            bench.applier = CatalogApplier(bench.database, bench.hearing)
        bench.edits.judge_live()
        run = bench.get()
        return msgspec.structs.replace(run, created_at="", last_seen_at="")
    finally:
        bench.database.close()


TURNS = [index for index, (*_, frames) in enumerate(_story()) for _ in frames]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25, deadline=None)
@given(order=st.permutations(TURNS), batch=st.integers(1, 4))
def test_the_order_of_arrival_changes_nothing(tmp_path_factory, template, order, batch):
    path, told_in_order = template
    copy = shutil.copy(path, tmp_path_factory.mktemp("order") / "catalog.db")
    assert _play(copy, order, batch) == told_in_order


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """An empty catalog, and the run as it is when the story is told in its order."""
    folder = tmp_path_factory.mktemp("template")
    open_database(str(folder / "empty.db")).close()
    return folder / "empty.db", _play(shutil.copy(folder / "empty.db", folder / "catalog.db"), TURNS, 1)


def test_the_story_is_told_as_it_was(tmp_path):
    run = _play(tmp_path / "a.db", TURNS, 1)
    assert [(a.number, a.key, a.state) for a in run.attempts] == [
        (1, "slurm.0/step.0", State.LOST),
        (2, "slurm.0/step.1/run.0", State.LOST),
        (3, "slurm.1", State.FINISHED),
    ]
    assert run.name == "pretrain"
    assert run.started_at == "2027-01-15T08:00:01.000000Z"


@pytest.mark.parametrize(
    ("outer", "key", "inside"),
    [
        ("slurm.1", "slurm.1", True),
        ("slurm.1", "slurm.1/step.0", True),
        ("slurm.1", "slurm.10", False),
        ("slurm.1/step.0", "slurm.1", False),
    ],
)
def test_a_launch_covers_what_it_launched(outer, key, inside):
    from stepward.model.launches import covers

    assert covers(outer, key) is inside
