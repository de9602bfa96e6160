"""Values of metrics: losses, memory, disks, devices, counters, silence; rules of people."""

import math
import random

import pytest
from streams import at, confirmed, detect, hit, last, sample, start, steps, times

from stepward.detect.metrics import Meaning, meaning
from stepward.detect.rules import parse_rules
from stepward.detect.signals import Heartbeat, Waited
from stepward.errors import UsageError

NAN = math.nan


@pytest.mark.parametrize(
    ("metric", "known"),
    [
        ("loss", Meaning.LOSS),
        ("train/loss", Meaning.LOSS),
        ("Train/LM-loss", Meaning.LOSS),
        ("val/loss", None),
        ("eval_loss", None),
        ("loss_scale", None),
        ("grad_norm", Meaning.GRAD_NORM),
        ("optim/gradient_norm", Meaning.GRAD_NORM),
        ("tokens_per_s", Meaning.THROUGHPUT),
        ("system/device/utilization", Meaning.DUTY),
        ("system/network/ib0/errors", Meaning.NIC_ERRORS),
        ("system/host/load", None),
        ("lr", None),
    ],
)
def test_names_of_metrics(metric, known):
    assert meaning(metric) is known


def losses(change, count=900, norm=lambda n: 1.0):
    dice = random.Random(3)
    signals = []
    for n in range(count):
        signals.append(sample(n, "loss", change(n, 2.0 + 0.02 * dice.gauss(0, 1)), step=n, rank=0))
        signals.append(sample(n, "grad_norm", norm(n) * (1 + 0.1 * dice.random()), step=n, rank=0))
    return signals


def kinds(said):
    return sorted(event.type for event in confirmed(said))


def test_a_falling_loss_is_fine():
    assert last(detect(losses(lambda n, x: x * (1 + 3 * math.exp(-n / 100))))) == []


def test_a_spike_comes_back():
    said = detect(losses(lambda n, x: x * (3 if 500 <= n < 520 else 1), norm=lambda n: 40 if n == 500 else 1))
    (event,) = confirmed(said, "loss_spike")
    assert kinds(said) == ["loss_spike"]
    assert event.step == 500


def test_a_spike_that_no_gradient_backs_is_withdrawn():
    (event,) = last(detect(losses(lambda n, x: x * (3 if 500 <= n < 520 else 1))))
    assert (event.type, event.certainty) == ("loss_spike", "withdrawn")


def test_a_spike_that_stays_is_a_divergence():
    said = detect(losses(lambda n, x: x * (3 if n >= 500 else 1), norm=lambda n: 40 if n >= 500 else 1))
    assert kinds(said) == ["divergence"]


def test_a_slow_divergence():
    said = detect(losses(lambda n, x: x + max(0, n - 600) * 0.001, count=2200))
    assert kinds(said) == ["divergence"]


@pytest.mark.parametrize(("bad", "count"), [({500}, 0), ({500, 501}, 1), (set(range(500, 900)), 1)])
def test_a_loss_that_is_no_number(bad, count):
    said = detect(losses(lambda n, x: NAN if n in bad else x))
    events = confirmed(said, "non_finite")
    assert len(events) == count
    assert all(event.step == 500 for event in events)


@pytest.mark.parametrize(("skips", "count"), [(1, 0), (4, 0), (6, 1)])
def test_a_loss_scaler_skips_steps(skips, count):
    said = detect(losses(lambda n, x: x, norm=lambda n: math.inf if 500 <= n < 500 + skips else 1))
    assert len(confirmed(said, "non_finite")) == count


def test_the_rank_whose_loss_was_bad_first():
    signals = [start(8)]
    for n in range(200):
        for rank in range(8):
            bad = n >= 100 and (rank == 5 or n >= 101)
            signals.append(sample(n + 0.01 * rank, "loss", NAN if bad else 2.0, step=n, rank=rank))
    (event,) = confirmed(detect(signals), "non_finite")
    assert event.ranks == (5,)
    assert event.step == 100


def memory(value, node="n00"):
    found = [start(4), *steps(times(1, 1800), 1)]
    for n in range(180):
        found.append(sample(10 * n, "system/host/memory_total", 100e9, node=node))
        found.append(sample(10 * n + 0.1, "system/host/memory_used", value(10 * n), node=node))
    return found


def test_memory_that_leaks_is_told_before_it_is_full():
    (event,) = confirmed(detect(memory(lambda t: 30e9 + min(t, 1700) * 35e6)), "memory_growth")
    assert event.nodes == ("n00",)
    assert event.data["full_in_s"] <= 1800


@pytest.mark.parametrize(
    "value",
    [
        lambda t: 80e9 + 1e8 * math.sin(t / 40),
        lambda t: 60e9 * (1 - math.exp(-t / 60)),
        lambda t: 30e9 + 1e6 * t,
    ],
)
def test_memory_that_settles_is_fine(value):
    assert confirmed(detect(memory(value)), "memory_growth") == []


def disk(used):
    return [sample(10 * n, "system/disk/ckpt/used", used(10 * n), node="n00") for n in range(60)]


def test_disks():
    assert confirmed(detect([start(1), *disk(lambda t: 50 + t * 0.06)]), "disk_filling")
    assert confirmed(detect([start(1), *disk(lambda t: 98.0)]), "disk_filling")
    assert [event.certainty for event in last(detect([start(1), *disk(lambda t: 93.0)]))] == ["suspected"]
    assert last(detect([start(1), *disk(lambda t: 60.0)])) == []
    assert confirmed(detect([start(1), hit(5, "storage_full", rank=0)]), "disk_filling")


def duty(value, devices=4, minutes=40):
    found = [start(4), *steps(times(1, minutes * 60), 1)]
    for n in range(minutes * 6):
        found += [
            sample(10 * n + 0.01 * d, "system/device/utilization", value(n / 6, d), node="n00", device=d)
            for d in range(devices)
        ]
    return found


def test_devices_that_work_less():
    dice = random.Random(1)
    noise = lambda: 3 * dice.gauss(0, 1)  # noqa: E731
    assert kinds(detect(duty(lambda m, d: 90 + noise()))) == []
    (event,) = confirmed(detect(duty(lambda m, d: (70 if m >= 20 else 90) + noise())), "duty_cycle")
    assert event.devices == ()
    (event,) = confirmed(detect(duty(lambda m, d: (70 if m >= 20 and d == 2 else 90) + noise())), "duty_cycle")
    assert (event.nodes, event.devices, event.ranks) == (("n00",), (2,), (2,))


def test_devices_that_do_nothing():
    (event,) = confirmed(detect(duty(lambda m, d: 1.0 if m >= 20 else 90.0)), "idle_accelerators")
    assert event.detected_at - event.started_at == pytest.approx(600e6, rel=0.02)
    assert confirmed(detect(duty(lambda m, d: 1.0 if m >= 20 and d else 90.0)), "idle_accelerators") == []


def counter(metric, growth, device=None):
    return [
        sample(10 * n + 0.01 * d, metric, growth(10 * n, d), node="n00", device=d) for n in range(60) for d in range(4)
    ]


def test_hardware_that_counts_its_errors():
    bad = counter("system/device/ecc_uncorrected", lambda t, d: float(d == 1 and t > 200))
    (event,) = confirmed(detect([start(4), *bad]), "hardware_fault")
    assert (event.devices, event.ranks) == ((1,), (1,))
    storm = counter("system/device/ecc_corrected", lambda t, d: t * (1.0 if d == 3 else 0.0))
    assert confirmed(detect([start(4), *storm]), "hardware_fault")[0].devices == (3,)
    few = counter("system/device/ecc_corrected", lambda t, d: float(d == 3 and t > 200) * 3)
    assert last(detect([start(4), *few])) == []


@pytest.mark.parametrize(
    ("role", "certainty"),
    [("root", ["confirmed"]), ("either", ["suspected"]), ("confirm", []), ("cascade", []), ("context", [])],
)
def test_roles_of_lines(role, certainty):
    said = detect([start(4), hit(5, "gpu_memory_ecc", role, node="n00")], 100)
    assert [event.certainty for event in last(said, "hardware_fault")] == certainty


def test_a_doubtful_line_is_withdrawn_or_backed():
    doubtful = [start(4), hit(5, "network_link", "either", node="n00")]
    assert [event.certainty for event in last(detect(doubtful, 700))] == ["withdrawn"]
    backed = [*doubtful, hit(9, "network_link", "confirm", node="n00")]
    assert len(confirmed(detect(backed, 100), "hardware_fault")) == 1


def test_one_device_says_it_in_many_ways():
    lines = [
        hit(5, "gpu_off_bus", node="n00"),
        hit(6, "gpu_driver_firmware", node="n00"),
        hit(8, "gpu_off_bus", rank=1),
    ]
    (event,) = confirmed(detect([start(4), *lines], 20))
    assert event.data["label"] == "gpu_off_bus"
    assert event.ranks == (1,)


@pytest.mark.parametrize(
    ("label", "text", "nodes", "ranks"),
    [
        ("node_failure", "error: Nodes n01 not responding, setting DOWN", ("n01",), ()),
        ("node_failure", "srun: error: Node failure on n01.", ("n01",), ()),
        ("node_failure", "srun: error: n01.cluster.local: task 5: Killed", ("n01",), ()),
        ("node_failure", "error: Nodes n01,n02 not responding, setting DOWN", (), ()),
        ("network_link", "NCCL WARN Call to connect from n00 to n01 failed", ("n00",), (2,)),
        ("gpu_off_bus", "n01: GPU has fallen off the bus", ("n01",), ()),
        ("gpu_off_bus", "NVRM: GPU 0000:18:00.0: GPU has fallen off the bus.", ("n00",), (2,)),
        ("network_link", "NET/IB : Got completion from peer n01<54862> with status=12", ("n01",), ()),
        ("network_link", "NET/IB : Got completion from peer 10.0.4.17<54862> with status=12", (), ()),
        ("network_link", "Connection closed by peer [10.0.4.17]:54862", (), ()),
    ],
)
def test_a_line_is_about_whom_it_names_and_not_about_who_wrote_it(label, text, nodes, ranks):
    said = detect([start(12), hit(5, label, node="n00", rank=2, text=text)])
    (event,) = confirmed(said, "hardware_fault")
    assert (event.nodes, event.ranks) == (nodes, ranks)
    assert ("unknown" in event.data) == (not nodes)
    if "peer 10" in text or "peer [" in text:
        assert event.data["peer"] == "10.0.4.17"


def test_a_device_that_falls_silent_while_its_host_answers():
    signals = duty(lambda m, d: 90.0, minutes=10)
    silent = [one for one in signals if getattr(one, "device", None) != 2 or one.time < at(200)]
    (event,) = confirmed(detect(silent), "telemetry_gap")
    assert (event.nodes, event.devices) == (("n00",), (2,))
    assert (
        last(detect([one for one in signals if getattr(one, "device", None) != 2 or not at(195) < one.time < at(215)]))
        == []
    )


def test_a_node_that_falls_silent():
    signals = [start(8), *steps(times(1, 200), 1)]
    signals += [Heartbeat(at(4.0 * n), "a", rank) for n in range(50) for rank in range(8) if rank < 4 or n < 20]
    (event,) = confirmed(detect(signals), "telemetry_gap")
    assert event.nodes == ("n01",)


def test_a_long_wait_in_the_queue():
    assert last(detect([Waited(at(0), "a", 1000.0)])) == []
    (event,) = confirmed(detect([Waited(at(0), "a", 4000.0, "Priority")]), "scheduling_delay")
    assert event.started_at == at(-4000)


RULES = """
[[rule]]
name = "hot"
metric = "system/device/temp*"
when = "above"
threshold = 80
aggregate = "mean"
window_s = 30
for_s = 20
severity = "critical"
"""


def test_a_rule_of_people():
    rules = parse_rules(RULES)
    heat = [
        sample(5 * n, "system/device/temperature", 90.0 if 20 <= n < 60 else 60.0, device=1, node="n00")
        for n in range(100)
    ]
    said = detect([start(1), *heat], rules=rules)
    (event,) = confirmed(said, "rule")
    assert (event.title, event.severity, event.devices) == ("hot", "critical", (1,))
    assert event.ended_at is not None
    assert next(one.certainty for one in said) == "suspected"


@pytest.mark.parametrize(
    ("old", "new", "line", "reason"),
    [
        ('when = "above"', 'when = "over"', 5, "over"),
        ("threshold = 80", 'threshold = "80"', 6, "float"),
        ("threshold = 80", "threshold = nan", 6, "number"),
        ("window_s = 30", "window_s = 0", 8, "mean needs"),
        ("for_s = 20", "for_s = -1", 9, "for_s"),
        ('name = "hot"', 'name = ""', 3, "name"),
        ('severity = "critical"', "colour = 3", 10, "colour"),
        ("threshold = 80", "threshold = = 80", 6, "Invalid"),
        ('metric = "system/device/temp*"', "", 2, "metric"),
        ("[[rule]]", "[rule]", 1, "[[rule]]"),
    ],
)
def test_a_wrong_rule_is_refused_with_line_and_reason(old, new, line, reason):
    with pytest.raises(UsageError) as caught:
        parse_rules(RULES.replace(old, new))
    assert caught.value.code == "bad_rule"
    assert caught.value.context["line"] == line
    assert reason in caught.value.context["reason"]


def test_two_rules_of_one_name():
    with pytest.raises(UsageError) as caught:
        parse_rules(RULES + RULES)
    assert caught.value.context["line"] == 13
