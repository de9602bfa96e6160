"""What is said to have befallen a run has befallen it, and nothing else."""

import msgspec
import numpy as np
import pytest

from stepward.detect.signals import AttemptEnded, AttemptStarted, RankEnded, Sample, Step
from stepward.model.taxonomy import LABELS
from stepward.testing.simulator import KINDS, Fault, simulate
from stepward.testing.simulator.plan import draw

WORDS = frozenset(
    "hang crash straggler slowdown duty_cycle input_bound loss_spike divergence non_finite memory_growth oom "  # noqa: SIM905
    "restart_loop no_progress_restart checkpoint_stall recompilation_storm idle_accelerators scheduling_delay "
    "disk_filling hardware_fault preemption telemetry_gap".split()
)


@pytest.fixture(scope="module")
def seeds(full_scale):
    return (3, 11, 12) if full_scale else (3,)


@pytest.mark.parametrize("kind", list(KINDS))
def test_every_fault_shows_in_some_signal(kind, seeds):
    for seed in seeds:
        simulation = simulate(seed, kind=kind, ranks=4, steps=420)
        first, last = [], 0
        for signal in simulation.signals():
            first = first or [signal.time]
            assert signal.time >= last
            last = signal.time
        faults = simulation.truths()
        assert [fault.kind for fault in faults] == [kind]
        (fault,) = faults
        assert fault.detectable_by, "the run is the same without it"
        assert first[0] <= fault.t0 <= last
        assert fault.t1 is None or fault.t0 < fault.t1 <= last
        assert fault.layer == LABELS[fault.label].layer.value
        assert set(fault.ranks) <= set(range(simulation.plan.layout.ranks))
        assert set(fault.nodes) <= set(simulation.plan.layout.places())
        assert set(fault.localised_by) <= set(fault.detectable_by)
        assert msgspec.json.decode(msgspec.json.encode(fault), type=Fault) == fault


def test_there_are_more_than_twenty_five_kinds_with_known_words():
    assert len(KINDS) >= 25
    for kind in KINDS.values():
        assert kind.label in LABELS and set(kind.also) <= WORDS
        assert kind.type in {*WORDS, ""}


def test_who_stands_out_is_who_was_struck():
    for kind, channel in (
        ("slow_rank", "phase:backward"), ("slow_node", "system/host/load"), ("ecc_storm", "system/device/ecc_corrected"),
        ("host_oom", "system/process/rss"), ("thermal_throttle", "system/device/throttle_hw_thermal"),
    ):  # fmt: skip
        (fault,) = simulate(3, kind=kind, ranks=8, steps=420, clocking="device").truths()
        assert channel in fault.localised_by, kind


def test_a_straggler_that_nobody_times_cannot_be_told():
    (fault,) = simulate(3, kind="slow_rank", ranks=8, steps=420, clocking="none").truths()
    assert "step_time" in fault.detectable_by and "step_time" not in fault.localised_by


@pytest.mark.parametrize("seed", range(1, 7))
def test_a_clean_run_does_all_its_steps_and_no_harm(seed):
    simulation = simulate(seed, kind="clean", ranks=4, steps=150)
    assert simulation.truths() == [] and simulation.kinds == []
    signals = list(simulation.signals())
    assert [one.state for one in signals if isinstance(one, AttemptEnded)] == [simulation.plan.ending]
    assert len({one.step for one in signals if isinstance(one, Step)}) == 150
    assert all(np.isfinite(one.value) for one in signals if isinstance(one, Sample))
    assert not any(one.exit_code or one.signal == "SIGKILL" for one in signals if isinstance(one, RankEnded))


def test_a_third_of_the_runs_is_clean_and_every_kind_comes():
    drawn = [simulate(seed).kinds for seed in range(1, 601)]
    assert 0.30 <= sum(not kinds for kinds in drawn) / len(drawn) <= 0.42
    assert {kind for kinds in drawn for kind in kinds} == set(KINDS)


def test_the_test_split_is_weaker_and_has_combinations():
    for seed in range(1, 40):
        (strong,) = simulate(seed, kind="slow_rank", steps=60, split="train").faults() or [None]
        (weak,) = simulate(seed, kind="slow_rank", steps=60, split="test").faults() or [None]
        assert 1.2 <= strong.magnitude <= 2.0 and 1.05 <= weak.magnitude <= 1.2
    assert any(len(simulate(seed, split="test").kinds) == 2 for seed in range(1, 200))
    assert not any(len(simulate(seed, split="train").kinds) > 1 for seed in range(1, 200))
    assert draw(5, split="train") != draw(5, split="test")


def test_a_restart_goes_on_from_the_last_durable_checkpoint():
    simulation = simulate(3, kind="preemption", ranks=4, steps=420)
    attempts = [one for one in simulation.signals() if isinstance(one, AttemptStarted)]
    assert len(attempts) == 2 and attempts[0].resumed_step is None
    first = next(one for one in simulation.signals() if isinstance(one, Step) and one.attempt == "1")
    assert first.step == (attempts[1].resumed_step or 0)


def test_what_is_given_does_not_change_what_is_drawn():
    free, held = draw(17), draw(17, cv=0.5, steps=7, ranks=64)
    assert (held.cv, held.steps, held.layout.ranks) == (0.5, 7, 64)
    assert (free.habits.checkpoint_every, free.shares, free.telemetry) == (
        held.habits.checkpoint_every, held.shares, held.telemetry,
    )  # fmt: skip


def test_a_fault_changes_nothing_before_it():
    sick = simulate(21, kind="global_slowdown", ranks=4, steps=300, onset=200)
    (fault,) = sick.faults()
    well = sick.without(0)
    before = [one for one in well.signals() if one.time < fault.t0 and isinstance(one, Step)]
    assert before == [one for one in sick.signals() if one.time < fault.t0 and isinstance(one, Step)]
