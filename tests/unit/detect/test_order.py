"""Whatever the order, the batches and the repeats within the lateness: the same events."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st
from streams import S, at, beats, confirmed, hit, sample, start, steps, times

from stepward.detect.engine import Detection
from stepward.detect.order import Order
from stepward.detect.signals import AttemptEnded, Checkpoint, RankEnded, Signal, Tick
from stepward.testing.simulator import Text, simulate


def story() -> list[Signal]:
    """A run with a bit of everything: a straggler, a spike, an Xid, a hang, a crash."""
    own = lambda rank, step: 0.8 * (1.3 if rank == 3 and step >= 100 else 1.0) + 0.001 * rank  # noqa: E731
    dice = random.Random(7)
    signals: list[Signal] = [start(4), *steps(times(3, 260), 4, own)]
    end = (signals[-1][0] - at(0)) / S
    signals += [
        sample(1.05 * n, "train/loss", 2.0 + 0.01 * dice.random() + 9 * (n in (140, 141)), step=n, rank=0)
        for n in range(240)
    ]
    signals += [sample(1.05 * n, "grad_norm", 1.0 + 30 * (n in (140, 141)), step=n, rank=0) for n in range(240)]
    signals += [
        sample(10.0 * n, "system/device/utilization", 90.0, node="n00", device=d) for n in range(60) for d in range(4)
    ]
    signals += [Checkpoint(at(60.0 * n), "a", 0, 50 * n, 4.0) for n in range(1, 5)]
    signals += [hit(120.5, "gpu_memory_ecc", node="n00"), hit(end + 300, "collective_desync", "cascade", rank=1)]
    signals += beats(-20, end + 300, 4, lambda rank: "forward" if rank == 3 else "collective", 260, end)
    signals += [RankEnded(at(end + 301), "a", 1, None, "SIGABRT"), AttemptEnded(at(end + 305), "a", "crashed")]
    return sorted(signals, key=lambda one: one[0])


def said(signals: list[Signal], lateness_s: float = 2.0) -> list:
    detection = Detection("run", lateness_s=lateness_s)
    return [event for signal in signals for event in detection.take(signal)] + detection.drain()


STORY = story()
EXPECTED = said(STORY)


def test_the_story_has_its_events():
    assert {event.type for event in confirmed(EXPECTED)} == {
        "straggler", "slowdown", "loss_spike", "hardware_fault", "hang", "crash",
    }  # fmt: skip


@settings(max_examples=15)
@given(st.integers(0, 1 << 32), st.floats(0.0, 1.99), st.floats(0.0, 0.3), st.booleans())
def test_order_repeats_and_ticks_change_nothing(seed, spread, again, ticking):
    dice = random.Random(seed)
    arrivals = [(signal[0] + dice.uniform(0, spread) * S, number, signal) for number, signal in enumerate(STORY)]
    arrivals += [
        (time + dice.uniform(0, 1.99 - spread) * S, -1, signal) for time, _, signal in arrivals if dice.random() < again
    ]
    live = [signal for _, _, signal in sorted(arrivals, key=lambda one: one[:2])]
    if ticking:
        # A tick says that everything up to it has been sent: the newest time that may be claimed is that of the newest signal.
        newest, ticked = 0, []
        for signal in live:
            newest = max(newest, signal[0])
            ticked += [signal, Tick(newest)]
        live = ticked
    assert said(live) == EXPECTED


SIMULATED = {
    kind: [
        item for item in simulate(3, kind=kind, ranks=4, steps=240, step_s=0.5).items() if not isinstance(item, Text)
    ]
    for kind in ("slow_rank", "deadlock", "gpu_oom", "xid_79", "restart_loop", "co_tenant")
}
JUDGED = {kind: said(signals) for kind, signals in SIMULATED.items()}


@settings(max_examples=20)
@given(st.sampled_from(sorted(SIMULATED)), st.integers(0, 1 << 32), st.floats(0.0, 1.99))
def test_whatever_comes_within_the_lateness_of_a_clock_that_ticks_gives_the_same_events(kind, seed, spread):
    """As a server lives it: who speaks is heard a while later, and meanwhile its clock goes on."""
    dice = random.Random(seed)
    senders = {}
    arrivals = []
    for number, signal in enumerate(SIMULATED[kind]):
        delay = senders.setdefault(getattr(signal, "rank", None), dice.uniform(0, spread))
        arrivals.append((signal[0] + dice.uniform(0, delay) * S, number, signal))
    live = []
    for arrived, _, signal in sorted(arrivals, key=lambda one: one[:2]):
        live += [signal, Tick(int(arrived))] if dice.random() < 0.1 else [signal]
    assert said(live) == JUDGED[kind]


@given(st.sampled_from([0.5, 2.0, 5.0, 30.0]))
def test_the_lateness_delays_the_answer_and_does_not_change_it(lateness):
    assert said(STORY, lateness) == EXPECTED


@given(st.integers(0, len(STORY)))
@settings(max_examples=5)
def test_a_server_that_restarts_rebuilds_its_state_by_replay(cut):
    first, second = Detection("run"), Detection("run")
    before = [event for signal in STORY[:cut] for event in first.take(signal)]
    again = [event for signal in STORY for event in second.take(signal)] + second.drain()
    assert again[: len(before)] == before
    assert again == EXPECTED


def test_everything_sent_twice_is_heard_once():
    assert said([signal for signal in STORY for _ in (1, 2)]) == EXPECTED


def test_what_comes_too_late_is_heard_and_counted():
    detection = Detection("run")
    detection.take(start(1))
    detection.take(Tick(at(100)))
    late = detection.take(hit(10, "gpu_memory_ecc", node="n00"))
    assert [event.type for event in late] == ["hardware_fault"]
    assert detection.late == 1


def test_signals_of_one_instant_have_one_order():
    signals = [sample(5, name, value, step=1) for name in ("b", "a") for value in (2.0, 1.0)]
    released = []
    for order in (signals, signals[::-1]):
        buffer = Order()
        for signal in order:
            buffer.put(signal)
        released.append(buffer.ready(everything=True))
    assert released[0] == released[1]


def test_memory_is_bounded_though_time_stands_still(monkeypatch):
    monkeypatch.setattr("stepward.detect.order.MAX_HELD", 100)
    buffer = Order()
    given_out = 0
    for number in range(1000):
        if buffer.put(sample(5, "x", number, step=number)):
            given_out += len(buffer.ready())
    assert given_out > 800
