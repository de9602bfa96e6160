"""Interruptions and the checkpoint interval, worked out by hand."""

import math

import pytest

from stepward.goodput import history
from stepward.goodput.answers import RunShare, fleet, of_history
from stepward.goodput.events import Event
from stepward.goodput.peaks import PEAKS, peak_of, utilisation
from stepward.goodput.reliability import best_interval, checkpoint_advice, cost_per_second, reliability

NS = 10**9


def told(*rows):
    return history.build([Event(round(t * NS), kind, **fields) for t, kind, fields in rows], [])


def two_crashes():
    rows = []
    for number, start in ((1, 0), (2, 130), (3, 260)):
        rows.append((start, "attempt_started", {"attempt": number, "devices": 2}))
        for step in range(10):
            t = start + 10 + 9 * step
            rows.append((t, "step_started", {"attempt": number, "step": 10 * number + step}))
            rows.append((t + 8, "step_ended", {"attempt": number, "step": 10 * number + step}))
            rows.append((t + 8, "phase_started", {"attempt": number, "phase": "checkpoint_save"}))
            rows.append((t + 9, "phase_ended", {"attempt": number, "phase": "checkpoint_save"}))
            rows.append((t + 9, "checkpoint_durable", {"step": 10 * number + step}))
        reason = "finished" if number == 3 else "crashed" if number == 1 else "oom"
        rows.append((start + 100, "attempt_ended", {"attempt": number, "reason": reason}))
    return told(*rows, (360, "job_ended", {}))


def test_interruptions_by_cause():
    found = reliability(two_crashes())
    assert found.interruptions == {"crashed": 1, "oom": 1}
    assert found.mttf_s == 300 / 2
    # 30 s until the next attempt, 10 s until its first step.
    assert found.mttr_s == 40
    assert found.ettr == pytest.approx(3 * 90 / 360)


def test_a_wanted_end_is_no_interruption():
    quiet = told((0, "attempt_started", {"attempt": 1}), (9, "attempt_ended", {"attempt": 1, "reason": "cancelled"}))
    found = reliability(quiet)
    assert found.interruptions == {} and found.mttf_s is None and found.mttr_s is None
    assert checkpoint_advice(quiet, found.mttf_s) is None


def test_saving_each_step_is_too_often():
    crashed = two_crashes()
    advice = checkpoint_advice(crashed, reliability(crashed).mttf_s)
    assert (advice.save_s, advice.interval_s) == (1, 9)
    assert advice.best_interval_s == pytest.approx(best_interval(1, 150))
    assert advice.gain == pytest.approx(advice.cost_s / 3600 - advice.best_cost_s / 3600) and advice.gain > 0


@pytest.mark.parametrize(("save", "mttf"), [(1.0, 10_000.0), (30.0, 86_400.0), (300.0, 20_000.0)])
def test_no_other_interval_costs_less_than_the_best(save, mttf):
    best = best_interval(save, mttf)
    assert best == pytest.approx(math.sqrt(2 * save * mttf), rel=0.2)
    least = min(cost_per_second(best * share, save, mttf) for share in (0.5, 0.8, 1.25, 2.0))
    assert cost_per_second(best, save, mttf) <= least


def test_windows_are_the_end_of_the_wall():
    long = told(
        (0, "attempt_started", {"attempt": 1}),
        *[(7200 * n, "step_started", {"attempt": 1, "step": n}) for n in range(20)],
        (144_000, "job_ended", {}),
    )
    found = of_history(long, run="run_a", name="a", project="p")
    assert [(w.window, w.wall_s, w.overall) for w in found.windows] == [("1h", 3600, 1.0), ("24h", 86_400, 1.0)]
    assert [(a.start_s, a.end_s, a.buckets_s) for a in found.attempts] == [(0, 144_000, {"productive": 144_000})]


def test_a_fleet_weighs_by_device_time():
    def share(run, productive, down):
        return RunShare(
            run=run, name=run, project="p", state="finished", user="", partition="", nodes=[], started_at=None,
            wall_s=1, device_s=productive + down, overall=None,
            buckets_device_s={"productive": productive, "down": down},
        )  # fmt: skip

    found = fleet(None, [share("small", 1, 0), share("large", 30, 69)])
    assert [one.run for one in found.runs] == ["large", "small"]
    assert found.overall_device == 0.31 and found.device_s == 100
    assert fleet(None, []).overall_device is None


@pytest.mark.parametrize(
    ("device", "peak"),
    [
        ("NVIDIA A100-SXM4-80GB", 312e12),
        ("NVIDIA H100 PCIe", 756e12),
        ("NVIDIA H100 NVL", 835e12),
        ("NVIDIA H100 80GB HBM3", 989e12),
        ("NVIDIA L40", 181e12),
        ("NVIDIA GH200 480GB", 989e12),
        ("NVIDIA GB200", 2500e12),
        ("TPU v5 lite", 197e12),
        # A slice of a device, another device that has the letters of a known one in its name, and unknown ones.
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", None),
        ("NVIDIA RTX A1000", None),
        ("NVIDIA B300", None),
        ("Voodoo 2", None),
    ],
)
def test_peaks_are_found_by_the_words_of_a_name(device, peak):
    assert peak_of(device) == peak


def test_every_peak_has_its_source():
    assert all(source.split()[0] in {"NVIDIA", "AMD", "Google"} for _, _, source in PEAKS)


def test_without_a_peak_or_steps_there_is_no_utilisation():
    known = {"flops_per_step": 1e12, "ideal_s": 2.0, "program": 0.5, "devices": 4, "peak": 1e12}
    assert utilisation(**known) == 1e12 * 0.5 / (2 * 4 * 1e12)
    for missing in ({"peak": None}, {"ideal_s": None}, {"program": None}, {"devices": 0}, {"flops_per_step": 0}):
        assert utilisation(**known | missing) is None
