"""Whatever is measured of a simulated run tells the same story."""

import math
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepward.detect.signals import Heartbeat, Sample, Step
from stepward.testing.simulator import simulate
from stepward.testing.simulator.layout import Layout
from stepward.testing.simulator.noise import Noise, stream


def steps_of(simulation):
    by_step = defaultdict(dict)
    for signal in simulation.signals():
        if isinstance(signal, Step):
            by_step[signal.attempt, signal.step][signal.rank] = signal
    return by_step


@pytest.mark.parametrize("clocking", ["host", "host_async", "device"])
def test_the_phases_of_a_step_add_up_to_it(clocking):
    for seed in (1, 2, 3):
        for signal in simulate(seed, kind="slow_rank", ranks=4, steps=150, clocking=clocking).signals():
            if isinstance(signal, Step):
                assert math.isclose(sum(signal.phases.values()), signal.duration_s, rel_tol=1e-9)


def test_plain_step_times_have_no_phases():
    simulation = simulate(4, kind="clean", ranks=4, steps=60, clocking="none")
    assert all(not one.phases and not one.device_phases for one in simulation.signals() if isinstance(one, Step))


def test_everyone_leaves_the_collective_with_the_slowest():
    by_step = steps_of(simulate(5, kind="slow_rank", ranks=8, steps=120, clocking="device"))
    for ranks in by_step.values():
        assert len(ranks) == 8
        # A step ends with the optimizer, so that before it all were let go at the same instant.
        released = [one.time / 1e6 - one.phases["optimizer"] for one in ranks.values()]
        assert max(released) - min(released) < 3e-6


def test_who_works_longest_waits_least():
    simulation = simulate(6, kind="slow_rank", ranks=8, steps=200, onset=60, magnitude=1.6, clocking="device", cv=0.02)
    (fault,) = simulation.faults()
    waits = defaultdict(list)
    for (_, step), ranks in steps_of(simulation).items():
        if step >= 100 and (fault.t1 is None or ranks[0].time < fault.t1):
            for rank, signal in ranks.items():
                waits[rank].append(signal.phases["collective"])
    assert min(waits, key=lambda rank: np.median(waits[rank])) == fault.ranks[0]


def test_a_host_that_only_launches_does_not_see_who_is_slow():
    simulation = simulate(6, kind="slow_rank", ranks=8, steps=200, onset=60, magnitude=1.6, clocking="host_async")
    (fault,) = simulation.faults()
    for (_, step), ranks in steps_of(simulation).items():
        if step >= 100:
            optimizer = {rank: signal.phases["optimizer"] for rank, signal in ranks.items()}
            mine = optimizer.pop(fault.ranks[0])
            # The wait has moved to where the host looks next, and looks alike everywhere.
            assert 0.8 < mine / np.median(list(optimizer.values())) < 1.25


def test_devices_follow_what_their_ranks_do():
    simulation = simulate(7, kind="deadlock", ranks=4, steps=300, step_s=1.0, onset=200, clocking="device")
    (fault,) = simulation.faults()
    stuck = fault.ranks[0] % simulation.plan.layout.per_node
    seen = defaultdict(list)
    for signal in simulation.signals():
        if isinstance(signal, Sample) and signal.device is not None and signal.node:
            when = "before" if signal.time < fault.t0 else "after" if signal.time < fault.t1 else "later"
            who = "stuck" if (signal.node, signal.device) == (fault.nodes[0], stuck) else "others"
            seen[signal.metric.rsplit("/", 1)[-1], when, who].append(signal.value)
    before = np.median(seen["power", "before", "others"])
    # The others spin in the collective: busy at a third of the power; the stuck one does nothing.
    assert np.median(seen["utilization", "after", "others"]) > 95
    assert np.median(seen["power", "after", "others"]) < 0.45 * before
    assert np.median(seen["utilization", "after", "stuck"]) < 5
    assert np.median(seen["temperature", "after", "stuck"]) < np.median(seen["temperature", "before", "stuck"])


def test_heartbeats_know_the_step_and_when_it_began():
    simulation = simulate(8, kind="clean", ranks=2, steps=200, step_s=1.0, clocking="device", oddities=False)
    begun = {
        (one.rank, one.step): one.time - round(one.duration_s * 1e6)
        for one in simulation.signals()
        if isinstance(one, Step)
    }
    beats = [
        one for one in simulation.signals() if isinstance(one, Heartbeat) and one.step is not None and one.step < 199
    ]
    assert len(beats) > 50
    for beat in beats:
        assert abs(begun[beat.rank, beat.step] - beat.progress_at) <= 2
        assert beat.progress_at <= beat.time


def test_loss_and_gradients_are_logged_at_the_end_of_their_step():
    simulation = simulate(9, kind="clean", ranks=2, steps=100)
    ends = {one.step: one.time for one in simulation.signals() if isinstance(one, Step) and one.rank == 0}
    losses = [one for one in simulation.signals() if isinstance(one, Sample) and one.metric == "loss" and one.rank == 0]
    assert losses and all(one.time == ends[one.step] for one in losses)
    assert losses[0].value > losses[-1].value


@given(
    dp=st.integers(1, 4), pp=st.integers(1, 4), tp=st.integers(1, 4),
    late=st.lists(st.floats(0, 100), min_size=64, max_size=64),
)  # fmt: skip
def test_nobody_is_released_before_the_groups_that_it_waits_for(dp, pp, tp, late):
    layout = Layout(dp, pp, tp, 4)
    arrivals = np.array(late[: layout.ranks])
    released = layout.released(arrivals)
    # Tensor groups, pipelines and replicas chain all ranks together.
    assert (released == arrivals.max()).all()
    assert sorted(rank for ranks in layout.places().values() for rank in ranks) == list(range(layout.ranks))


@pytest.mark.parametrize(("cv", "rho"), [(0.02, 0.0), (0.05, 0.3), (0.10, 0.7)])
def test_noise_is_as_ordered(cv, rho):
    factors = Noise(stream(1, "test"), cv, rho, 4).take(20_000)
    logs = np.log(factors)
    logs -= logs.mean(axis=0)
    assert abs(factors.mean() - 1) < 0.01
    assert abs(factors.std() / factors.mean() - cv) < 0.1 * cv
    assert abs((logs[1:] * logs[:-1]).mean() / logs.var() - rho) < 0.03


def test_noise_does_not_depend_on_how_much_is_taken_at_once():
    whole = Noise(stream(3, "test"), 0.05, 0.3, 3).take(50)
    noise = Noise(stream(3, "test"), 0.05, 0.3, 3)
    assert np.array_equal(whole, np.concatenate([noise.take(7), noise.take(43)]))
