"""From frames to signals: what each part says, and when its fact could be known."""

import math

import numpy as np
import pytest

from stepward.detect.signals import (
    AttemptEnded,
    AttemptStarted,
    Checkpoint,
    Heartbeat,
    PhaseBegan,
    PhaseEnded,
    RankEnded,
    Sample,
    Step,
    Waited,
)
from stepward.ingest.protocols import PointColumns, SeriesKey, StepColumns
from stepward.model.frames import Config, Event, Events, PhaseColumn, Source, Status
from stepward.model.states import Exit, State, Witness
from stepward.model.words import Clock, SourceKind
from stepward.observe.signals import LEASE_US, RunSignals, attempt_end, clock_error, of_points, of_steps

S = 1_000_000
T0 = 1_800_000_000 * S
RANK = Source(kind=SourceKind.RANK, attempt="a", rank=3, node="n1")
WRAPPER = Source(kind=SourceKind.WRAPPER, attempt="a", node="n1")


def signals(payload, source=RANK, shift=0, conversion=None):
    return list((conversion or RunSignals()).of_payload("a", source, payload, shift))


@pytest.mark.parametrize(
    ("offset_us", "error_us"),
    [(0, 0), (1_999_999, 0), (-1_999_999, 0), (2_400_000, 2 * S), (-7_600_000, -8 * S), (3_600_400_000, 3600 * S)],
)
def test_small_offsets_are_the_way_and_large_ones_clocks(offset_us, error_us):
    assert clock_error(offset_us) == error_us


def test_a_heartbeat_says_where_its_rank_is_on_the_servers_clock():
    status = Status(at=T0, step=7, progress_at=T0 - S, phase="forward")
    assert signals(status, shift=5 * S) == [Heartbeat(T0 + 5 * S, "a", 3, 7, T0 + 4 * S, "forward")]
    assert signals(Status(at=T0)) == [Heartbeat(T0, "a", 3)]


def test_a_long_phase_begins_with_the_first_heartbeat_in_it_and_only_once():
    conversion = RunSignals()
    said = [
        [type(one) for one in signals(Status(at=T0 + n, phase=phase), conversion=conversion)]
        for n, phase in enumerate(["restore", "restore", "forward", "restore", None, "restore"])
    ]
    began = [PhaseBegan, Heartbeat]
    assert said == [began, [Heartbeat], [Heartbeat], began, [Heartbeat], began]


def test_a_wrapper_sees_ranks_that_are_stopped_and_no_progress():
    conversion = RunSignals()
    signals(Status(at=T0, phase="collective"), conversion=conversion)
    said = signals(Status(at=T0 + S, alive=[2, 3], stopped=[3]), WRAPPER, conversion=conversion)
    assert said == [Heartbeat(T0 + S, "a", 3, phase="collective", stopped=True)]


@pytest.mark.parametrize(
    ("event", "said"),
    [
        (
            Event(id="1", type="phase", started_at=T0, ended_at=T0 + 3 * S, data={"name": "evaluation"}),
            PhaseEnded(T0 + 3 * S, "a", 3, "evaluation", 3.0),
        ),
        (Event(id="1", type="phase", started_at=T0, ended_at=T0 + S, data={"name": "forward"}), None),
        (
            Event(id="1", type="checkpoint", started_at=T0, ended_at=T0 + 2 * S, step=50),
            Checkpoint(T0 + 2 * S, "a", 3, 50, 2.0),
        ),
        (
            Event(id="1", type="checkpoint_durable", started_at=T0, step=50, rank=0),
            Checkpoint(T0, "a", 0, 50, None, True),
        ),
        (Event(id="1", type="checkpoint", started_at=T0), None),
        (
            Event(id="1", type="resumed", started_at=T0, data={"step": 50}),
            AttemptStarted(T0, "a", resumed_step=50),
        ),
        (Event(id="1", type="resumed", started_at=T0, data={"step": "x"}), None),
        (
            Event(id="1", type="queued", started_at=T0, ended_at=T0 + 60 * S, data={"reason": "Priority"}),
            Waited(T0 + 60 * S, "a", 60.0, "Priority"),
        ),
        (Event(id="1", type="queued", started_at=T0), None),
        (Event(id="1", type="whatever", started_at=T0), None),
    ],
)
def test_events_are_known_when_they_end(event, said):
    assert signals(Events([event])) == ([] if said is None else [said])


def test_a_phase_that_ends_before_it_begins_takes_no_time():
    event = Event(id="1", type="phase", started_at=T0, ended_at=T0 - S, data={"name": "evaluation"})
    assert signals(Events([event]))[0].seconds == 0.0


def test_ranks_are_placed_as_they_tell_where_they_are():
    conversion = RunSignals()
    begun = Config(started_at=T0, ranks=2)
    other = Source(kind=SourceKind.RANK, attempt="a", rank=1, node="n0")
    assert signals(begun, conversion=conversion) == [AttemptStarted(T0, "a", 2, {"n1": (3,)})]
    assert signals(begun, other, conversion=conversion)[0].nodes == {"n1": (3,), "n0": (1,)}
    assert signals(Config(user={"lr": 1}), conversion=conversion) == []


@pytest.mark.parametrize(
    ("source", "exit", "rank"),
    [
        (WRAPPER, Exit(at=T0, by=Witness.REAPER, signal="SIGKILL", rank=2), 2),
        (RANK, Exit(at=T0, by=Witness.SDK, exit_code=1, rank=9), 3),
        (WRAPPER, Exit(at=T0, by=Witness.SCHEDULER, state=State.FAILED), None),
    ],
)
def test_the_end_of_a_rank_is_its_reapers_or_its_own(source, exit, rank):
    ended = RankEnded(T0 + S, "a", 0 if rank is None else rank, exit.exit_code, exit.signal, "n1")
    assert signals(exit, source, shift=S) == ([] if rank is None else [ended])


def test_points_of_one_frame():
    keys = [SeriesKey("loss", "", None, None), SeriesKey("system/device/utilization", "%", 1, None)]
    columns = PointColumns(
        series=np.array([0, 1]), step=np.array([5, 9]), time=np.array([T0, T0 + S]), value=np.array([2.5, math.nan]),
        rounded=np.array([False, False]),
    )  # fmt: skip
    loss, duty = of_points("a", RANK, keys, columns, S)
    assert loss == Sample(T0 + S, "a", "loss", 2.5, 5, 3, None, "n1")
    assert (duty.time, duty.step, duty.device, math.isnan(duty.value)) == (T0 + 2 * S, None, 1, True)
    assert next(of_points("a", WRAPPER, keys, columns, 0)).rank is None


def test_steps_of_one_frame_end_when_they_are_known():
    phases = [
        PhaseColumn("forward", Clock.HOST), PhaseColumn("forward", Clock.DEVICE), PhaseColumn("data_wait", Clock.HOST),
    ]  # fmt: skip
    columns = StepColumns(
        phases=phases, step=np.array([4, 5]), start=np.array([T0, T0 + S]), duration=np.array([1.0, 0.5]),
        seconds=np.array([[0.9, 0.7, 0.1], [0.3, math.nan, math.nan]]),
    )  # fmt: skip
    first, second = of_steps("a", 3, columns, 0)
    assert first == Step(T0 + S, "a", 3, 4, 1.0, {"forward": 0.7, "data_wait": 0.1}, frozenset({"forward"}))
    assert second.time == T0 + S + S // 2
    assert "data_wait" not in second.phases


def test_a_lost_attempt_is_known_to_be_when_its_lease_is_over():
    assert attempt_end("a", "lost", T0, None) == AttemptEnded(T0 + LEASE_US, "a", "lost", "")
    assert attempt_end("a", "failed", T0, "exit code 1") == AttemptEnded(T0, "a", "failed", "exit code 1")
