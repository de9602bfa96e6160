"""What is new about a launch is told once, with Slurm's times; in whatever steps it was seen, the end is the same."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from stepward.agent.watcher import telling
from stepward.agent.watcher.known import MAX_WAITS, Launch, new_job
from stepward.model.frames import Config, Events, Status
from stepward.model.states import Exit, State, Witness, verdict
from stepward.orchestrators.slurm.records import SlurmJob

S = 1_000_000


def around(**failed):
    return telling.Surroundings("lab", lambda names: {name: why for name, why in failed.items() if name in names})


class Story:
    """A job as it goes on; ``sees`` gives what is told of it."""

    def __init__(self, number=0, **facts):
        self.job = new_job("lab", "42", 1, "default")
        self.job.launches = [Launch(number=n, writer=f"w{n}", end="COMPLETED") for n in range(number)]
        self.job.launches.append(Launch(number=number, writer="w"))
        self.facts = {"id": "42", "number": 42, "name": "train", "submitted_at": 10 * S} | facts
        self.around = around()

    def sees(self, word, state, now, *, requeued=False, **facts):
        self.facts |= facts
        record = SlurmJob(slurm_state=word, state=state, **self.facts)
        return telling.tell(self.job, self.job.last, record, now * S, self.around, requeued=requeued)

    def waits(self, reason, now):
        return self.sees("PENDING", State.QUEUED, now, reason=reason)

    def runs(self, now, start, word="RUNNING", state=State.RUNNING):
        return self.sees(word, state, now, reason="", started_at=start * S, nodes=("n0", "n1"))

    def ends(self, word, state, now, end, **facts):
        return self.sees(word, state, now, ended_at=end * S, **facts)


def of(said, kind):
    return [payload for _, payload in said if isinstance(payload, kind)]


def events(*said):
    found = {}
    for one in said:
        for batch in of(one, Events):
            found |= {event.id: event for event in batch.events}
    return found


def test_nothing_new_is_not_told_again():
    story = Story()
    assert story.waits("Priority", 11)
    assert story.waits("Priority", 12) == []
    assert story.runs(20, 15)
    assert story.runs(21, 15) == []
    assert story.sees("COMPLETING", State.RUNNING, 22) == []
    assert story.ends("COMPLETED", State.FINISHED, 30, 29, exit_code=0)
    assert story.ends("COMPLETED", State.FINISHED, 31, 29, exit_code=0) == []


def test_a_waiting_job_says_why_and_what_to_do():
    (status,) = of(Story().waits("JobHeldUser", 11), Status)
    assert status.state is State.QUEUED
    assert status.reason == "JobHeldUser: it is held by its user; stepward jobs release JOB"


def test_each_stretch_of_a_reason_is_an_interval_and_the_last_ends_when_slurm_says():
    story = Story()
    said = [story.waits("None", 10), story.waits("Priority", 11), story.waits("Resources", 14), story.runs(22, 20)]
    found = events(*said)
    waits = [found[f"slurm-queued-0-{index}"] for index in range(2)]
    assert [(w.data["reason"], w.started_at // S, w.ended_at // S) for w in waits] == [
        ("Priority", 10, 14),
        ("Resources", 14, 20),
    ]
    assert "slurm-queued-0-2" not in found


def test_a_reason_that_flaps_for_days_stays_bounded():
    story = Story()
    for turn in range(10 * MAX_WAITS):
        story.waits(("Priority", "Resources")[turn % 2], 11 + turn)
    assert len(story.job.last.waits) == MAX_WAITS


def test_a_job_that_was_only_seen_when_it_had_ended_is_told_whole():
    said = Story().ends("FAILED", State.FAILED, 30, 25, started_at=15 * S, nodes=("n0",), exit_code=3)
    told = [payload for payload in of(said, Config) if payload.started_at]
    assert (told[0].started_at, told[0].nodes) == (15 * S, ["n0"])
    (end,) = of(said, Exit)
    assert (end.at, end.by, end.exit_code, verdict(end).state) == (25 * S, Witness.SCHEDULER, 3, State.FAILED)
    found = events(said)
    assert (found["slurm-queued-0-0"].started_at, found["slurm-queued-0-0"].ended_at) == (10 * S, 15 * S)
    assert (found["slurm-allocation-0"].started_at, found["slurm-allocation-0"].ended_at) == (15 * S, 25 * S)


def test_a_job_that_is_cancelled_while_it_waits_never_began():
    story = Story()
    story.waits("JobHeldUser", 11)
    said = story.ends("CANCELLED", State.CANCELLED, 30, 29, cancelled_by=7)
    assert of(said, Config) == []
    assert events(said)["slurm-queued-0-0"].ended_at == 29 * S
    assert of(said, Exit)[0].reason == "cancelled by user 7"


def test_nodes_that_are_made_ready_are_an_interval():
    story = Story()
    first = story.runs(16, 15, "CONFIGURING", State.STARTING)
    assert of(first, Status)[0].state is State.STARTING
    assert events(first)["slurm-provision-0"].ended_at is None
    after = events(story.runs(40, 15))["slurm-provision-0"]
    assert (after.started_at, after.ended_at) == (15 * S, 40 * S)


def test_a_suspended_job_is_paused_and_goes_on():
    story = Story()
    story.runs(16, 15)
    (paused,) = of(story.sees("SUSPENDED", State.RUNNING, 17), Status)
    assert (paused.paused, paused.reason) == (True, "suspended")
    (on,) = of(story.sees("RUNNING", State.RUNNING, 18), Status)
    assert (on.paused, on.reason) == (False, None)


def test_a_node_that_failed_is_named_and_who_started_the_job_again():
    story = Story()
    story.runs(16, 15)
    story.around = around(n1="stepward:infrastructure:heartbeat:1", n2="else")
    said = story.ends("NODE_FAIL", State.LOST, 30, 25, requeued=True)
    found = events(said)
    assert found["slurm-node-failed-0"].data["nodes"] == ["n1"]
    assert found["slurm-requeued-0"].data == {"by": "stepward", "cause": "node_fail"}
    (end,) = of(said, Exit)
    assert (end.reason, end.final) == ("node failed: n1", False)


def test_who_requeued_decides_what_the_end_was():
    by_hand, preempted = Story(), Story()
    said = by_hand.ends("REQUEUED", State.CANCELLED, 30, 25, requeued=True)
    assert (events(said)["slurm-requeued-0"].data["by"], of(said, Exit)[0].state) == ("user", State.CANCELLED)
    said = preempted.ends("PREEMPTED", State.PREEMPTED, 30, 25, requeued=True)
    assert (events(said)["slurm-requeued-0"].data["by"], of(said, Exit)[0].state) == ("slurm", State.PREEMPTED)


def test_a_requeue_off_a_node_that_stepward_took_out_is_a_preemption():
    story = Story()
    story.runs(16, 15)
    story.around = around(n1="stepward:infrastructure:gpu_off_bus:det_a")
    said = story.ends("REQUEUED", State.CANCELLED, 30, 25, requeued=True)
    assert (events(said)["slurm-requeued-0"].data["by"], of(said, Exit)[0].state) == ("stepward", State.PREEMPTED)
    assert "slurm-node-failed-0" not in events(said)


def test_without_accounting_a_dead_node_tells_that_it_was_lost():
    story = Story()
    story.runs(16, 15)
    story.around = around(n1="stepward:infrastructure:heartbeat:lost-1", n0="admin: fan")
    said = story.ends("REQUEUED", State.CANCELLED, 30, 25, requeued=True)
    assert events(said)["slurm-node-failed-0"].data["nodes"] == ["n1"]
    assert events(said)["slurm-requeued-0"].data == {"by": "stepward", "cause": "node_fail"}
    assert of(said, Exit)[0].state == State.LOST


def test_a_job_that_slurm_forgot_is_lost():
    story = Story()
    story.runs(16, 15)
    (end,) = of(story.ends(telling.FORGOTTEN, State.LOST, 700, 25), Exit)
    assert (end.state, end.reason) == (State.LOST, "Slurm knows it no more, and accounting has no end of it")


def test_a_launch_is_known_by_its_last_submission():
    story = Story(1)
    story.waits("None", 11)
    story.sees("PENDING", State.QUEUED, 15, submitted_at=14 * S)
    assert story.job.last.submitted_at == 14 * S
    story.runs(20, 19)
    assert story.job.last.submitted_at == 14 * S


def test_a_program_that_asks_to_be_started_again_was_preempted():
    said = Story().ends("REQUEUED", State.CANCELLED, 30, 25, requeued=True, exit_code=75)
    assert (events(said)["slurm-requeued-0"].data["by"], of(said, Exit)[0].state) == ("slurm", State.PREEMPTED)


def test_a_job_that_had_ended_and_is_started_again_says_so():
    found = events(Story(1).waits("None", 11))
    assert found["slurm-requeued-0"].data == {"by": "user", "cause": "completed"}
    assert "slurm-submitted" not in found


def test_a_signal_is_named_and_is_no_exit_code():
    end = of(Story().ends("FAILED", State.FAILED, 30, 25, exit_code=0, signal=11), Exit)[0]
    assert (end.signal, end.exit_code) == ("SIGSEGV", None)
    assert of(Story().ends("FAILED", State.FAILED, 30, 25, exit_code=0, signal=99), Exit)[0].signal == "SIG99"


SEEN = [
    lambda story: story.waits("Priority", 11),
    lambda story: story.runs(16, 15, "CONFIGURING", State.STARTING),
    lambda story: story.runs(18, 15),
    lambda story: story.sees("COMPLETING", State.RUNNING, 27),
]


@given(st.lists(st.booleans(), min_size=len(SEEN), max_size=len(SEEN)), st.integers(0, 4))
def test_told_again_it_is_the_same_story(seen, cut):
    """For another run: whatever was seen of it, and over the watcher's own death."""
    story, said = Story(), []
    for at, (look, is_seen) in enumerate(zip(SEEN, seen, strict=True)):
        if at == cut:
            story.job = msgspec.msgpack.decode(msgspec.msgpack.encode(story.job), type=type(story.job))
        if is_seen:
            said.append(look(story))
    said.append(story.ends("NODE_FAIL", State.LOST, 30, 25, started_at=15 * S, nodes=("n0", "n1"), requeued=True))
    again = telling.retell(story.job, story.job.last, 40 * S, "lab")
    first, second = events(*said), events(again)
    assert first.keys() == second.keys()
    assert {key: (e.started_at, e.ended_at) for key, e in first.items()} == {
        key: (e.started_at, e.ended_at) for key, e in second.items()
    }
    assert of(again, Exit) == of(said[-1], Exit)
    assert of(again, Config)[0].started_at == 15 * S
