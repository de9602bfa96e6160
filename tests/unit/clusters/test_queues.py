"""The queues of a server: each question is asked once in a while, whoever wants to know, and errors are answers too."""

import threading

import pytest

from stepward.clusters.queues import HISTORY_S, LIVE_S, NAME_S, STALE_S, Queue, Queues, Remembered
from stepward.clusters.reading import spec_of
from stepward.clusters.record import ClusterRecord, Records
from stepward.errors import NotFound, Unavailable
from stepward.orchestrators.slurm.commands import Slurm


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


class Asked(Slurm):
    """A Slurm that notes what it is asked, and answers nothing."""

    def __init__(self):
        super().__init__()
        self.asked = []

    def jobs(self):
        self.asked.append("jobs")
        return []

    def history(self, since, until=None):
        self.asked.append(since)
        return []

    def attempts(self, job):
        self.asked.append(job)
        return []

    def cluster(self):
        self.asked.append("cluster")
        return "theirs"


def test_an_answer_is_good_for_a_while():
    clock, slurm = Clock(), Asked()
    queue = Queue("host", slurm, "lab", clock)
    for _ in range(3):
        queue.jobs()
    assert slurm.asked == ["jobs"]
    clock.now += LIVE_S
    queue.jobs()
    queue.forget()
    queue.jobs()
    assert slurm.asked == ["jobs"] * 3


def test_a_window_of_history_moves_with_the_clock():
    clock, slurm = Clock(), Asked()
    queue = Queue("host", slurm, "lab", clock)
    queue.history(10_000_000, now=50_000_000)
    queue.history(10_000_000, now=50_000_001)
    clock.now += HISTORY_S
    queue.history(10_000_000, now=99_000_000)
    assert slurm.asked == [40_000_000, 40_000_000 + int(HISTORY_S * 1e6)]


def test_what_is_remembered_is_bounded():
    queue = Queue("host", Asked(), "lab", Clock())
    for number in range(500):
        queue.attempts(str(number))
        queue.history(number, now=0)
    assert len(queue._attempts) <= 64 and len(queue._history) <= 4


def test_an_error_is_an_answer_for_a_while():
    clock, calls = Clock(), []

    def ask():
        calls.append(clock.now)
        raise Unavailable("down", code="slurm_unreachable")

    remembered = Remembered(ask, 1.0, clock)
    for _ in range(3):
        with pytest.raises(Unavailable):
            remembered.get()
    clock.now += 1.0
    with pytest.raises(Unavailable):
        remembered.get()
    assert calls == [100.0, 101.0]


def test_a_host_without_a_slurm_is_asked_for_its_name_once_in_a_while():
    class Away(Asked):
        up = False

        def cluster(self):
            name = super().cluster()
            if not self.up:
                raise Unavailable("no answer", code="slurm_unreachable")
            return name

    clock, slurm = Clock(), Away()
    queue = Queue("host", slurm, None, clock)
    for _ in range(5):
        with pytest.raises(Unavailable):
            _ = queue.slurm_name
    assert slurm.asked == ["cluster"]
    clock.now += NAME_S
    slurm.up = True
    for _ in range(5):
        assert queue.slurm_name == "theirs"
        clock.now += NAME_S
    assert slurm.asked == ["cluster", "cluster"]


def test_who_comes_while_it_is_asked_waits_for_that_answer():
    clock, entered, go, calls = Clock(), threading.Event(), threading.Event(), []

    def ask():
        calls.append(1)
        entered.set()
        assert go.wait(30)
        return len(calls)

    remembered = Remembered(ask, 1.0, clock)
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(remembered.get())) for _ in range(8)]
    threads[0].start()
    assert entered.wait(30)
    for thread in threads[1:]:
        thread.start()
    go.set()
    for thread in threads:
        thread.join(30)
    assert answers == [1] * 8


def test_who_comes_while_it_is_asked_again_has_the_last_answer_for_a_while():
    clock, entered, go, calls = Clock(), threading.Event(), threading.Event(), []

    def ask():
        calls.append(1)
        if len(calls) == 2:
            entered.set()
            assert go.wait(30)
        return len(calls)

    remembered = Remembered(ask, 1.0, clock)
    assert remembered.get() == 1
    clock.now += 2.0
    answers = []
    asking = threading.Thread(target=lambda: answers.append(remembered.get()))
    asking.start()
    assert entered.wait(30)
    # Slurm hangs: nobody else hangs with it.
    assert [remembered.get() for _ in range(5)] == [1] * 5
    clock.now += STALE_S
    late = threading.Thread(target=lambda: answers.append(remembered.get()))
    late.start()
    go.set()
    for thread in (asking, late):
        thread.join(30)
    assert answers == [2, 2] and len(calls) == 2


def test_what_was_asked_before_a_change_is_not_remembered():
    clock, calls = Clock(), []

    def ask():
        calls.append(1)
        if len(calls) == 1:
            remembered.forget()
        return len(calls)

    remembered = Remembered(ask, 1.0, clock)
    assert (remembered.get(), remembered.get(), remembered.get()) == (1, 2, 2)


def test_the_host_is_known_by_slurms_name_too(tmp_path):
    slurm = Asked()
    queues = Queues(Records(str(tmp_path / "clusters"), str(tmp_path / "operations")), slurm)
    assert queues.of("host").slurm is slurm
    assert queues.of("theirs") is queues.of("host")
    assert queues.slurm_name("host") == "theirs"
    assert queues.slurm_name("gone_a1b2c3") == "gone_a1b2c3"
    with pytest.raises(NotFound) as caught:
        queues.of("nowhere")
    assert caught.value.code == "no_such_cluster"
    assert slurm.asked == ["cluster"]


def test_an_operation_on_a_cluster_makes_what_slurm_said_before_it_old(tmp_path, whole):
    records = Records(str(tmp_path / "clusters"), str(tmp_path / "operations"))
    record = ClusterRecord(name="lab", slurm_name="lab_a1b2c3", spec=spec_of(whole), state="ready", operation="op_1")
    (tmp_path / "clusters" / "lab").mkdir(parents=True)
    records.put(record)
    queues = Queues(records, Asked())
    queue = queues.of("lab")
    queue._partitions = queue._nodes = Remembered(list, LIVE_S, lambda: 0.0)
    before = queue.nodes()
    assert queues.of("lab_a1b2c3").nodes() is before
    for record.operation, record.state in (("op_2", "updating"), ("op_2", "ready")):
        records.put(record)
        now = queues.of("lab").nodes()
        assert now is not before
        assert queues.of("lab").partitions() is now
        before = now
