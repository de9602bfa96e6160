"""Step times: slowdown, stragglers, waits for data, compiles."""

import random
from pathlib import Path

import pytest
from streams import at, confirmed, detect, last, sample, start, steps, times

from stepward.detect.engine import Detection
from stepward.detect.scene import Expected
from stepward.detect.signals import Checkpoint, Step


@pytest.mark.parametrize(("cv", "rho"), [(0.02, 0.3), (0.05, 0.3), (0.05, 0.7), (0.10, 0.5)])
def test_noise_is_no_slowdown(cv, rho, full_scale):
    for seed in range(20 if full_scale else 1):
        assert confirmed(detect(steps(times(seed, 3000, cv, rho))), "slowdown") == []


@pytest.mark.parametrize(("cv", "factor", "least"), [(0.02, 1.10, 1.0), (0.05, 1.10, 0.9), (0.05, 1.2, 1.0)])
def test_a_slowdown_is_confirmed_within_120_steps(cv, factor, least, full_scale):
    runs = 100 if full_scale else 10
    found = 0
    for seed in range(runs):
        usual = times(seed, 420, cv)
        before, after = usual[:300], [factor * one for one in usual[300:]]
        events = confirmed(detect(steps([*before, *after])), "slowdown")
        found += len(events) == 1 and events[0].step >= 230
        if events:
            assert 0 < events[0].data["detectable"] < factor - 1
    assert found >= least * runs


def test_it_is_over_when_the_old_pace_is_back():
    usual = times(1, 600)
    slow = [one * (1.3 if 200 <= number < 400 else 1.0) for number, one in enumerate(usual)]
    (event,) = confirmed(detect(steps(slow)), "slowdown")
    assert event.ended_at is not None
    assert event.data["ratio"] == pytest.approx(1.3, rel=0.1)


def test_a_restart_learns_anew():
    signals = [start(1, attempt="a"), *steps(times(1, 200), attempt="a")]
    signals += [start(1, attempt="b", seconds=300), *steps(times(2, 200, step_s=1.5), attempt="b", begin=300)]
    assert confirmed(detect(signals), "slowdown") == []


def test_slow_from_the_first_step_against_earlier_runs():
    signals = steps(times(1, 200, step_s=1.2))
    assert confirmed(detect(signals), "slowdown") == []
    (event,) = confirmed(detect(signals, expected=lambda: Expected(step_s=1.0)), "slowdown")
    assert event.data["against"] == "earlier runs"
    assert event.data["ratio"] == pytest.approx(1.2, rel=0.02)
    assert event.step < 10
    apart = Expected(step_s=1.0, step_sigma=0.05)
    assert confirmed(detect(signals, expected=lambda: apart), "slowdown") == []


def test_a_run_that_begins_slow_and_gets_well_has_a_baseline_of_its_own_then():
    slow = [*times(1, 150, step_s=1.3), *times(2, 250, step_s=1.0), *times(3, 150, step_s=1.3)]
    said = confirmed(detect(steps(slow), expected=lambda: Expected(step_s=1.0)), "slowdown")
    assert [event.data.get("against") for event in said] == ["earlier runs", None]
    assert said[0].ended_at is not None


def test_a_metric_of_step_time_has_a_unit_of_its_own():
    signals = [sample(1.0 * n, "step_time_ms", 1000.0 + n % 7, step=n, rank=0) for n in range(400)]
    assert confirmed(detect(signals, expected=lambda: Expected(step_s=1.0)), "slowdown") == []


def test_the_usual_step_is_that_of_the_newest_attempt_without_its_pauses():
    signals = [start(1), *steps(times(1, 200)), start(1, attempt="b", seconds=300)]
    signals += [
        one._replace(duration_s=one.duration_s + 3, phases={"checkpoint_save": 3.0})
        for one in steps(times(2, 200, step_s=1.5), attempt="b", begin=300)
    ]
    detection = Detection("run")
    for one in signals[:80]:
        detection.take(one)
    assert detection.usual_step_s is None
    for one in signals[80:]:
        detection.take(one)
    detection.drain()
    assert detection.usual_step_s == pytest.approx(1.5, rel=0.02)


def test_saves_inside_of_steps_are_no_slowdown():
    signals = [
        step._replace(duration_s=step.duration_s + 3, phases={"checkpoint_save": 3.0}) if step.step >= 200 else step
        for step in steps(times(1, 500, step_s=4.0))
    ]
    assert confirmed(detect(signals), "slowdown") == []


def test_the_pace_of_logging_serves_where_no_step_is_timed():
    usual = [one * (1.3 if number >= 200 else 1.0) for number, one in enumerate(times(1, 320))]
    now, signals = 0.0, []
    for number, seconds in enumerate(usual):
        now += seconds
        signals.append(sample(now, "loss", 2.0, step=number, rank=0))
    (event,) = confirmed(detect(signals), "slowdown")
    assert event.data["basis"] == "pace"


@pytest.mark.parametrize("ranks", [8, 64])
def test_a_straggler_is_the_rank_that_is_late(ranks, full_scale):
    found = runs = 0
    for seed in range(20 if full_scale else (4 if ranks == 8 else 1)):
        dice = random.Random(seed)
        lasting = [0.8 * dice.gauss(1, 0.01) for _ in range(ranks)]
        slow = dice.randrange(ranks)
        own = lambda rank, step, d=dice, w=lasting, s=slow: (  # noqa: E731
            w[rank] * d.gauss(1, 0.03) * (1.15 if rank == s and step >= 200 else 1.0)
        )
        events = confirmed(detect([start(ranks), *steps(times(seed, 320), ranks, own)]), "straggler")
        runs += 1
        found += [event.ranks for event in events] == [(slow,)]
    assert found >= 0.97 * runs


def test_equal_ranks_have_no_straggler():
    dice = random.Random(1)
    lasting = [0.8 * dice.gauss(1, 0.02) for _ in range(16)]
    signals = steps(times(1, 1000), 16, lambda rank, step: lasting[rank] * dice.gauss(1, 0.05))
    assert confirmed(detect(signals), "straggler") == []


def host_clock(shares, seed=1, count=600):
    """Steps of the ranks of one host, which times them; ``shares`` says how much longer a rank takes at a step."""
    dice = random.Random(seed)
    own = lambda rank, step: 0.8 * dice.gauss(1, 0.02) * shares(rank, step)  # noqa: E731
    return [start(2), *(one._replace(device_phases=frozenset()) for one in steps(times(seed, count), 2, own))]


@pytest.mark.parametrize(
    ("shares", "count"),
    [
        (lambda rank, step: 1.6 if rank == 1 else 1.0, 0),  # always so: work of another size
        (lambda rank, step: 1.6 if rank == 1 and 200 <= step < 230 else 1.0, 0),  # scheduled away for half a minute
        (lambda rank, step: 1.6 if rank == step // 40 % 2 else 1.0, 0),  # now the one, now the other
        (lambda rank, step: 1.6 if rank == 1 and step >= 200 else 1.0, 1),
    ],
)
def test_ranks_that_share_a_host_are_held_against_their_own_past(shares, count):
    events = confirmed(detect(host_clock(shares)), "straggler")
    assert [event.ranks for event in events] == [(1,)] * count


def test_two_ranks_of_a_loaded_host():
    """Recorded: two processes on two processors that a dozen others wanted too; neither was slow by itself."""
    lines = (Path(__file__).parents[2] / "data/detect/two_ranks_of_a_loaded_host.csv").read_text().splitlines()[1:]
    signals = [start(2)]
    for rank, step, end_ms, step_ms, wait_ms in (map(int, line.split(",")) for line in lines):
        signals.append(Step(at(end_ms / 1e3), "a", rank, step, step_ms / 1e3, {"collective": wait_ms / 1e3}))
    said = last(detect(signals), "straggler")
    assert [event for event in said if event.certainty == "confirmed"] == []
    assert len(said) <= 2


def test_ranks_of_two_hosts_are_compared():
    signals = host_clock(lambda rank, step: 1.6 if rank == 1 else 1.0, count=200)
    assert confirmed(detect([start(2, per_node=1), *signals[1:]]), "straggler")[0].ranks == (1,)


def test_lasting_differences_are_no_straggler_without_a_measure_of_their_own():
    signals = [
        step._replace(duration_s=step.duration_s * (1.2 if step.rank == 2 else 1.0)) for step in steps(times(1, 400), 8)
    ]
    assert confirmed(detect(signals), "straggler") == []


def test_a_slow_node_is_one_event():
    own = lambda rank, step: 0.8 + 0.001 * rank + (0.2 if rank // 4 == 2 and step >= 100 else 0)  # noqa: E731
    (event,) = confirmed(detect([start(16), *steps(times(1, 300), 16, own)]), "straggler")
    assert event.nodes == ("n02",)
    assert sorted(event.ranks) == [8, 9, 10, 11]
    assert event.data["scope"] == "node"


def test_half_of_the_ranks_may_be_slow():
    own = lambda rank, step: 0.5 + 0.001 * rank + (0.4 if rank >= 8 else 0)  # noqa: E731
    (event,) = confirmed(detect(steps(times(1, 200), 16, own)), "straggler")
    assert sorted(event.ranks) == list(range(8, 16))


def test_steps_that_wait_for_data():
    signals = [
        step._replace(phases={"data_wait": 0.3 * step.duration_s if step.step >= 100 else 0.01})
        for step in steps(times(1, 200))
    ]
    (event,) = confirmed(detect(signals), "input_bound")
    assert 90 <= event.step <= 110
    assert event.data["share"] == pytest.approx(0.3, rel=0.05)


def test_one_long_wait_is_not_input_bound():
    signals = [step._replace(phases={"data_wait": 0.9 if step.step == 105 else 0.01}) for step in steps(times(1, 200))]
    assert confirmed(detect(signals), "input_bound") == []


def readings(duty, cpu, minutes, begin=0.0):
    """Six readings a minute of two devices and their host."""
    found = []
    for number in range(6 * minutes):
        at_s = begin + 10.0 * number
        found += [sample(at_s, "system/device/utilization", duty, node="n00", device=device) for device in (0, 1)]
        found.append(sample(at_s, "system/host/cpu", cpu, node="n00"))
    return found


@pytest.mark.parametrize(("duty", "cpu", "count"), [(40.0, 92.0, 1), (40.0, 50.0, 0), (60.0, 92.0, 0)])
def test_idle_accelerators_beside_a_busy_host(duty, cpu, count):
    signals = [start(2), *steps(times(1, 600), 2), *readings(duty, cpu, 10)]
    events = confirmed(detect(signals), "input_bound")
    assert len(events) == count
    for event in events:
        assert event.data["basis"] == "duty"
        assert event.data["duty"] == pytest.approx(0.4)


def test_low_duty_lasts_five_minutes_and_ends_with_the_third_of_higher_duty():
    signals = [start(2), *steps(times(1, 1500), 2), *readings(40.0, 92.0, 7), *readings(80.0, 92.0, 10, begin=420.0)]
    (event,) = confirmed(said := detect(signals), "input_bound")
    sure = next(one for one in said if one.id == event.id and one.certainty == "confirmed")
    assert 300 <= (sure.detected_at - event.started_at) / 1e6 <= 361
    assert (event.ended_at - at(420)) / 1e6 == pytest.approx(120, abs=61)


def test_steps_that_tell_their_waits_are_believed():
    signals = [one._replace(phases={"data_wait": 0.05}) for one in steps(times(1, 600), 2)]
    assert confirmed(detect([start(2), *signals, *readings(40.0, 92.0, 10)]), "input_bound") == []


@pytest.mark.parametrize(("every", "count"), [(20, 1), (90, 0)])
def test_a_storm_of_compiles(every, count):
    signals = [
        step._replace(phases={"compile": 0.1} if step.step % every == 0 else {}) for step in steps(times(1, 400))
    ]
    assert len(confirmed(detect(signals), "recompilation_storm")) == count


def test_a_save_that_takes_far_longer():
    signals = steps(times(1, 400))
    signals += [Checkpoint(at(60 * n), "a", 0, 60 * n, 5.0 if n != 5 else 40.0) for n in range(1, 7)]
    (event,) = last(detect(signals), "checkpoint_stall")
    assert event.certainty == "confirmed"
    assert event.step == 300
    assert event.ended_at is not None
