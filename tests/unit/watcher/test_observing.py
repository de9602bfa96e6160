"""Which launches of which job an answer of Slurm is about."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepward.agent.watcher import observing
from stepward.agent.watcher.known import Launch, new_job
from stepward.model.states import State
from stepward.orchestrators.slurm.records import SlurmJob

S = 1_000_000
WORDS = {
    "PENDING": State.QUEUED,
    "RUNNING": State.RUNNING,
    "COMPLETED": State.FINISHED,
    "FAILED": State.FAILED,
    "NODE_FAIL": State.LOST,
    "REQUEUED": State.CANCELLED,
}


def record(word, *, restarts=0, submitted=1, **more):
    facts = {"id": "42", "number": 42, "name": "j", "user": "u"} | more
    return SlurmJob(state=WORDS[word], slurm_state=word, restarts=restarts, submitted_at=submitted * S, **facts)


def known(*launches, generation=1):
    job = new_job("lab", "42", generation, "default")
    job.user, job.title = "u", "j"
    for number, (submitted, end) in enumerate(launches):
        job.launches.append(Launch(number=number, writer=f"w{number}", submitted_at=submitted * S, end=end))
    return job


def told(sighting):
    return [(number, one.slurm_state) for number, one in sighting.launches], sighting.again


def test_a_new_job_is_its_first_launch():
    assert told(observing.from_queue(None, record("PENDING"), None, guess=False)) == ([(0, "PENDING")], False)


def test_what_a_requeued_job_was_before_is_asked_of_accounting():
    now = record("PENDING", restarts=1, submitted=9)
    assert observing.from_queue(known((1, "")), now, None, guess=False) is None
    rows = [record("NODE_FAIL", restarts=None), record("PENDING", restarts=None, submitted=9)]
    assert told(observing.from_queue(known((1, "")), now, rows, guess=False)) == (
        [(0, "NODE_FAIL"), (1, "PENDING")],
        False,
    )


def test_accounting_that_is_late_is_waited_for_and_then_the_end_is_guessed():
    now, late = record("RUNNING", restarts=1, submitted=9), [record("RUNNING", restarts=None)]
    assert observing.from_queue(known((1, "")), now, late, guess=False) is None
    sighting = observing.from_queue(known((1, "")), now, late, guess=True)
    assert told(sighting) == ([(0, "REQUEUED"), (1, "RUNNING")], False)
    assert sighting.launches[0][1].ended_at == 9 * S


def test_launches_that_accounting_has_forgotten_and_nobody_knows_are_left_out():
    rows = [record("NODE_FAIL", restarts=None, submitted=5), record("RUNNING", restarts=None, submitted=9)]
    sighting = observing.from_queue(None, record("RUNNING", restarts=2, submitted=9), rows, guess=True)
    assert told(sighting) == ([(1, "NODE_FAIL"), (2, "RUNNING")], False)


def test_an_end_that_was_told_is_not_asked_for_again():
    sighting = observing.from_queue(
        known((1, "NODE_FAIL")), record("RUNNING", restarts=1, submitted=9), None, guess=False
    )
    assert told(sighting) == ([(1, "RUNNING")], False)


@pytest.mark.parametrize("end", ["COMPLETED", ""])
def test_an_id_that_comes_again_unrequeued_is_another_job(end):
    assert told(observing.from_queue(known((1, end)), record("PENDING", submitted=9), None, guess=False)) == (
        [(0, "PENDING")],
        True,
    )


def test_the_same_submission_is_the_same_job_though_it_is_rounded_otherwise():
    assert not observing.used_again(known((1, "COMPLETED")), record("COMPLETED", submitted=2))


def test_a_requeue_that_is_submitted_once_more_when_its_last_launch_has_ended_is_the_same_launch():
    waiting = record("PENDING", restarts=1, submitted=13)
    assert not observing.used_again(known((1, "REQUEUED"), (9, "")), waiting)
    assert observing.used_again(known((1, "REQUEUED"), (9, "COMPLETED")), waiting)


def test_accounting_tells_launches_by_their_submission():
    rows = [record("NODE_FAIL", restarts=None), record("REQUEUED", restarts=None, submitted=5)]
    rows.append(record("COMPLETED", restarts=None, submitted=9))
    every = [(0, "NODE_FAIL"), (1, "REQUEUED"), (2, "COMPLETED")]
    assert told(observing.from_accounting(None, rows)) == (every, False)
    assert told(observing.from_accounting(known((1, "NODE_FAIL"), (5, "")), rows[1:])) == (every[1:], False)


def test_another_job_of_the_same_id_in_accounting_begins_anew():
    other = record("FAILED", restarts=None, submitted=9, user="v")
    assert told(observing.from_accounting(None, [record("COMPLETED", restarts=None), other])) == (
        [(0, "FAILED")],
        False,
    )
    assert told(observing.from_accounting(known((1, "COMPLETED")), [other])) == ([(0, "FAILED")], True)


def test_a_job_that_was_started_again_after_its_end_goes_on():
    again = record("FAILED", restarts=None, submitted=9)
    assert told(observing.from_accounting(known((1, "COMPLETED")), [again])) == ([(1, "FAILED")], False)


def test_tasks_that_wait_together_are_jobs_of_their_own():
    waiting = record("PENDING", id="42_[3-4%1]", array_job=42, array_tasks="3-4%1")
    running = record("RUNNING", id="42_1", number=43, array_job=42, array_task=1)
    assert list(observing.by_name([running, waiting])) == ["42_1", "42_3", "42_4"]


def test_parts_of_a_heterogeneous_job_are_one_of_all_nodes():
    parts = [
        record("RUNNING", id=f"42+{at}", number=42 + at, het_job=42, het_offset=at, nodes=(f"n{at}",))
        for at in (1, 0, 2)
    ]
    before = [msgspec.structs.replace(part, submitted_at=0, slurm_state="NODE_FAIL") for part in parts]
    ((name, found),) = observing.by_name([*before, *parts]).items()
    assert name == "42"
    assert [(one.number, set(one.nodes), one.slurm_state) for one in found] == [
        (42, {"n0", "n1", "n2"}, "NODE_FAIL"),
        (42, {"n0", "n1", "n2"}, "RUNNING"),
    ]


@pytest.mark.parametrize(
    ("text", "tasks"),
    [
        ("7", [7]),
        ("1,3-5%2", [1, 3, 4, 5]),
        ("0-6:3", [0, 3, 6]),
        ("1-9,...", []),
        ("0-99999", []),
        ("x", []),
        ("", []),
    ],
)
def test_waiting_tasks(text, tasks):
    assert observing.waiting_tasks(text) == tasks


@given(st.lists(st.integers(0, 500), min_size=1, max_size=observing.MAX_WAITING_TASKS, unique=True))
def test_every_task_of_a_list_is_found(numbers):
    assert observing.waiting_tasks(",".join(map(str, numbers))) == numbers
