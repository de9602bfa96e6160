"""What is done about a job whose infrastructure failed."""

import msgspec
import pytest

from stepward.clusters.spec import Restarts
from stepward.diagnose.document import Cause, Document, Suspects
from stepward.model.jobs import Action
from stepward.model.states import State
from stepward.respond.restarting import done_keys, faults_of
from stepward.respond.restarts import HOUR_US, US, Attempt, Fault, JobView, decide, judge, same_death

RULES = Restarts(policy="infrastructure", per_hour=3, progress_within_s=60)
NOW = 10 * HOUR_US
FAULT = Fault("det_a", 1, "gpu_off_bus", ("n-1",), 0.9, "a GPU fell off the bus")


def attempt(number, state, last=None, saved=None, lost=(), ago_s=600):
    return Attempt(number, state, NOW - ago_s * US, last, saved, lost)


def waiting(*attempts, **more):
    return JobView("7", True, (), [*attempts, attempt(len(attempts) + 1, State.QUEUED)], **more)


def running(*attempts, faults=(), nodes=("n-0", "n-1"), **more):
    return JobView("7", False, nodes, attempts, faults=faults, **more)


def kinds(view, rules=RULES, now=NOW):
    return [one.kind for one in decide(view, rules, now)]


# ── stop ──


@pytest.mark.parametrize(
    ("first", "second", "stops"),
    [
        ((State.LOST, 75, 60), (State.LOST, 75, None), True),
        ((State.LOST, 75, 60), (State.LOST, 76, 60), True),
        ((State.LOST, 75, 60), (State.LOST, 75, 70), False),  # saved more
        ((State.LOST, 75, 60), (State.LOST, 90, None), False),  # got further
        ((State.LOST, 75, 60), (State.LOST, 62, None), False),  # died elsewhere
        ((State.LOST, None, None), (State.CRASHED, None, None), True),
        ((State.LOST, None, None), (State.CRASHED, 3, None), False),
        ((State.PREEMPTED, 75, 60), (State.LOST, 75, None), False),
        ((State.OOM, 75, None), (State.FAILED, 75, None), True),
    ],
)
def test_two_deaths_at_one_step_without_a_save_stop_the_job(first, second, stops):
    attempts = [attempt(1, *first), attempt(2, *second)]
    assert same_death(attempts) is stops
    assert kinds(waiting(*attempts)) == (["stop"] if stops else [])


def test_a_job_is_stopped_while_it_waits_and_once_an_attempt():
    deaths = attempt(1, State.LOST, 75, 60), attempt(2, State.LOST, 75)
    (stop,) = decide(waiting(*deaths), RULES, NOW)
    assert (stop.key, stop.attempt) == ("stop:2", 2)
    assert "attempts 1 and 2 died at step 75" in stop.why
    assert kinds(waiting(*deaths, done=frozenset({stop.key}))) == []  # somebody released it
    assert kinds(JobView("7", False, (), waiting(*deaths).attempts)) == []  # it is held already
    third = attempt(3, State.LOST, 75)
    assert kinds(waiting(*deaths, third, done=frozenset({stop.key}))) == ["stop"]


def test_restarts_within_an_hour_have_a_limit():
    lost = [attempt(n, State.LOST, n * 100, n * 100 - 1, ("n-0",)) for n in range(1, 5)]
    assert kinds(waiting(*lost[:3])) == []
    assert kinds(waiting(*lost)) == ["stop"]
    assert kinds(waiting(*[one._replace(started_at=NOW - 2 * HOUR_US) for one in lost])) == []
    taken = [one._replace(state=State.PREEMPTED) for one in lost]
    assert kinds(waiting(*taken)) == []  # the scheduler's business
    assert kinds(waiting(*taken, moved=frozenset({4}))) == ["stop"]


# ── follow ──


def test_what_follows_a_lost_node_or_a_move_is_watched_once():
    lost, again = attempt(1, State.LOST, 75, 60, ("n-0",)), attempt(2, State.RUNNING, ago_s=5)
    (follow,) = decide(running(lost, again), RULES, NOW)
    assert (follow.kind, follow.key, follow.attempt) == ("follow", "follow:2", 2)
    assert kinds(running(lost, again, done=frozenset({"follow:2"}))) == []
    assert kinds(running(lost._replace(lost_nodes=()), again)) == []
    assert kinds(running(lost._replace(lost_nodes=()), again, moved=frozenset({1}))) == ["follow"]


@pytest.mark.parametrize(
    ("state", "last", "ago_s", "verdict"),
    [
        (State.RUNNING, 70, 10, None),
        (State.RUNNING, 75, 10, None),
        (State.RUNNING, 76, 10, "progressed"),
        (State.RUNNING, 75, 61, "failed"),
        (State.RUNNING, None, 61, "failed"),
        (State.LOST, 70, 10, "failed"),
        (State.LOST, 80, 10, "progressed"),
        (State.FINISHED, None, 10, "progressed"),
    ],
)
def test_progress_is_a_step_that_none_had_reached(state, last, ago_s, verdict):
    attempts = [attempt(1, State.LOST, 75), attempt(2, state, last, ago_s=ago_s)]
    assert judge(attempts, 2, RULES, NOW) == verdict


def test_a_run_that_is_gone_made_no_progress():
    assert judge([], 2, RULES, NOW) == "failed"


# ── move ──


def test_a_job_is_moved_off_a_sick_node_once():
    (move,) = decide(running(attempt(1, State.RUNNING, 5), faults=[FAULT]), RULES, NOW)
    assert (move.kind, move.nodes, move.event, move.label) == ("move", ("n-1",), "det_a", "gpu_off_bus")
    assert kinds(running(attempt(1, State.RUNNING), faults=[FAULT], done=frozenset({move.key}))) == []
    assert kinds(running(attempt(1, State.RUNNING), faults=[FAULT], nodes=("n-0", "n-2"))) == []
    assert kinds(running(attempt(1, State.RUNNING), faults=[FAULT._replace(confidence=0.5)])) == []
    assert kinds(waiting(attempt(1, State.LOST, 1), faults=[FAULT])) == []
    earlier = attempt(1, State.PREEMPTED, 5), attempt(2, State.RUNNING, 6)
    assert kinds(running(*earlier, faults=[FAULT])) == []  # of the attempt before


def test_one_move_at_a_time():
    second = FAULT._replace(event="det_b", nodes=("n-0",))
    (move,) = decide(running(attempt(1, State.RUNNING), faults=[FAULT, second], room=2), RULES, NOW)
    assert move.event == "det_a"


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"room": 0}, "only 0 more nodes"),
        ({"faults": [FAULT._replace(nodes=("n-0", "n-1"))], "room": 4}, "2 of the job's 2 nodes"),
    ],
)
def test_what_looks_like_no_nodes_fault_is_refused(more, why):
    view = running(attempt(1, State.RUNNING), **{"faults": [FAULT], **more})
    (refused,) = decide(view, RULES, NOW)
    assert refused.kind == "refuse"
    assert why in refused.why
    assert kinds(view._replace(done=frozenset({refused.key}))) == []


def test_moves_wait_longer_each_time_and_have_a_limit():
    fault = FAULT._replace(attempt=3)
    before = attempt(1, State.PREEMPTED), attempt(2, State.PREEMPTED)
    early = running(*before, attempt(3, State.RUNNING, ago_s=59), faults=[fault])
    assert kinds(early) == []
    assert kinds(early, now=NOW + 2 * US) == ["move"]
    assert kinds(early, RULES.__class__(policy="infrastructure", per_hour=2)) == ["refuse"]


def test_no_attempt_no_decision():
    assert kinds(JobView("7", True, (), [])) == []


# ── the audit ──


def action(kind="job_requeue", outcome="done", *, dry_run=False, **data):
    return Action(
        id="a", at="", actor="stepward", kind=kind, outcome=outcome, dry_run=dry_run, data={"key": "k", **data}
    )


@pytest.mark.parametrize(
    ("record", "dry", "done"),
    [
        (action(), False, True),
        (action(outcome="refused", code="slurm_refused"), False, True),
        (action(outcome="refused", code="slurm_unreachable"), False, False),
        (action(outcome="begun"), False, False),
        (action("run_resume", "begun"), False, True),
        (action(dry_run=True), True, True),
        (action(dry_run=True), False, False),
    ],
)
def test_the_audit_knows_what_was_done(record, dry, done):
    assert done_keys([record], dry=dry) == (frozenset({"k"}) if done else frozenset())


# ── diagnoses ──


def document(label, nodes, confidence=0.9):
    cause = Cause(label, "infrastructure", confidence, "kernel", "so it is", [], Suspects(nodes=nodes))
    return msgspec.json.encode(Document(causes=[cause]))


def test_only_a_part_that_can_be_exchanged_is_a_sick_node():
    assert faults_of("e", 1, document("gpu_off_bus", ["n-1"])) == [
        Fault("e", 1, "gpu_off_bus", ("n-1",), 0.9, "so it is")
    ]
    for label, nodes in (("gpu_off_bus", []), ("host_oom", ["n-1"]), ("storage_full", ["n-1"]), ("gpu_oom", ["n-1"])):
        assert faults_of("e", 1, document(label, nodes)) == []
    assert faults_of("e", 1, msgspec.json.encode(Document())) == []
    assert faults_of("e", 1, b"{") == []
