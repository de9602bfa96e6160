"""What a wrapper's heartbeats tell of processes that it sees stopped."""

from stepward.detect.signals import Heartbeat
from stepward.model.frames import Source, Status
from stepward.model.words import SourceKind
from stepward.observe.signals import RunSignals

WRAPPER = Source(kind=SourceKind.WRAPPER, attempt="a", node="n0")
RANK = Source(kind=SourceKind.RANK, attempt="a", rank=1, node="n0")


def test_a_process_that_its_wrapper_sees_stopped_is_told_of_although_it_is_not_among_the_running():
    status = Status(at=7, alive=[0, 2], stopped=[1])
    assert list(RunSignals().of_payload("a", WRAPPER, status, 3)) == [Heartbeat(10, "a", 1, stopped=True)]


def test_a_stopped_process_keeps_the_phase_that_it_was_last_heard_in():
    signals = RunSignals()
    list(signals.of_payload("a", RANK, Status(at=5, step=3, phase="collective"), 0))
    (beat,) = signals.of_payload("a", WRAPPER, Status(at=7, stopped=[1]), 0)
    assert isinstance(beat, Heartbeat) and (beat.rank, beat.phase) == (1, "collective")
