"""How a run's courses end, and whom numbers and tracebacks name: idle and unread devices, spinning ones, losses, processes."""

import json
import random

import pytest

from stepward.diagnose.engine import diagnose
from stepward.diagnose.sources import discover

WORLD = 4
STEPS = "".join(f"[rank0]: step {at} loss {3 - at / 100:.2f} time 1.0 s\n" for at in range(30))
HUNG = f"[rank0]: world size {WORLD}\n{STEPS}" + "".join(
    f"[rank{rank}]:[E ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=90, OpType=ALLREDUCE, NumelIn=4, NumelOut=4, Timeout(ms)=600000) ran for 600010 milliseconds\n"
    for rank in range(WORLD - 1)
)
"""Rank 3 says nothing while the others give up."""
NODE = {"node": "n1"}


def told(folder, log, rows):
    (folder / "job.log").write_text(log)
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return diagnose(discover([str(folder)]))


def devices(name, courses):
    return [{"name": f"system/device/{name}", **NODE, "device": at, "values": one} for at, one in enumerate(courses)]


def host(length=48):
    ranks = [{"name": "system/process/rss", "rank": rank, **NODE, "values": [9e9] * length} for rank in range(WORLD)]
    return [*ranks, {"name": "system/host/cpu", **NODE, "values": [30.0] * length}]


def first(document):
    return document.causes[0].label, document.causes[0].suspects.ranks


def test_the_silent_rank_whose_device_idles_while_the_others_spin_is_stuck(tmp_path):
    busy, stuck = [99.0] * 48, [95.0] * 24 + [0.0] * 24
    found = told(tmp_path, HUNG, host() + devices("utilization", [busy, busy, busy, stuck]))
    assert first(found) == ("hang_in_user_code", [3])


@pytest.mark.parametrize(("readings", "label"), [(48, "hang_in_user_code"), (20, None)])
def test_a_silent_rank_is_stuck_where_its_process_is_seen_to_live(tmp_path, readings, label):
    rows = [row if row.get("rank") != 3 else {**row, "values": row["values"][:readings]} for row in host()]
    found = told(tmp_path, HUNG, rows + devices("utilization", [[99.0] * 48] * WORLD))
    assert [one.label for one in found.causes] == ([label] if label else [])


def test_a_device_that_was_not_read_to_the_end_was_gone(tmp_path):
    waits, gone = [650.0] * 30 + [210.0] * 18, [650.0] * 30
    found = told(tmp_path, HUNG, host() + devices("power", [waits, waits, waits, gone]))
    assert first(found) == ("gpu_off_bus", [3])
    assert found.causes[0].suspects.devices == ["3"]


@pytest.mark.parametrize("lost", [1, 2])
def test_a_reading_that_is_lost_is_no_device_that_is_gone(tmp_path, lost):
    waits = [650.0] * 30 + [210.0] * 18
    found = told(tmp_path, HUNG, host() + devices("power", [waits, waits, waits, waits[:-lost]]))
    assert "gpu_off_bus" not in {one.label for one in found.causes}


@pytest.mark.parametrize(("power", "label"), [(490.0, "network_link"), (650.0, None)])
def test_steps_that_slow_while_all_devices_spin_wait_for_the_network(tmp_path, power, label):
    rows = host() + devices("power", [[650.0] * 24 + [power] * 24] * WORLD)
    rows += devices("utilization", [[97.0] * 48] * WORLD)
    rows += [{"name": "step_time", "rank": 0, "values": [1.0] * 24 + [1.5] * 24}]
    found = told(tmp_path, STEPS + "training finished\n", rows)
    assert [one.label for one in found.causes] == ([label] if label else [])
    assert found.outcome == "degraded"


def test_a_stage_that_works_longer_all_the_time_is_named_whole(tmp_path):
    rows = [{"name": "step_time", "rank": rank, "values": [1.0] * 48} for rank in range(WORLD)]
    rows += [
        {"name": "collective_time", "rank": rank, "values": [0.2 - 0.1 * (rank > 1)] * 48} for rank in range(WORLD)
    ]
    assert first(told(tmp_path, STEPS + "training finished\n", host() + rows)) == ("workload_imbalance", [2, 3])
    rows[-1]["values"] = rows[-2]["values"] = [0.1, 0.2] * 24
    assert not told(tmp_path, STEPS + "training finished\n", host() + rows).causes


@pytest.mark.parametrize(("seconds", "label"), [((1.0, 1.5), "input_bound"), ((1.0, 1.0), None), (None, None)])
def test_full_hosts_matter_where_steps_are_slow_with_them(tmp_path, seconds, label):
    rows = [{"name": "system/host/cpu", **NODE, "values": [20.0] * 24 + [97.0] * 24}]
    if seconds:
        rows += [{"name": "step_time", "rank": 0, "values": [seconds[0]] * 24 + [seconds[1]] * 24}]
    found = told(tmp_path, STEPS + "training finished\n", rows)
    assert [one.label for one in found.causes] == ([label] if label else [])


def losses(change, noise=0.02):
    draw = random.Random(7)
    falling = [3 + 7 / (1 + at) ** 0.5 for at in range(60)]
    values = [change(at, value) * (1 + draw.gauss(0, noise)) for at, value in enumerate(falling)]
    return [{"name": "loss", "rank": 0, "values": values}]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda at, value: value * (1 + max(0, at - 20) / 40), "rises"),
        (lambda at, value: value * (1.7 if at == 30 else 1.0), "jumped"),
    ],
)
def test_a_loss_that_rises_or_jumps_is_told_though_the_run_ended_well(tmp_path, change, says):
    found = told(tmp_path, STEPS + "training finished\n", losses(change))
    assert [one.label for one in found.causes] == ["numerics_nan"]
    assert says in found.causes[0].summary
    assert found.outcome == "degraded"


@pytest.mark.parametrize("noise", [0.0, 0.02, 0.1])
def test_a_loss_that_falls_however_noisy_is_healthy(tmp_path, noise):
    found = told(tmp_path, STEPS + "training finished\n", losses(lambda _, value: value, noise))
    assert (found.outcome, found.causes) == ("healthy", [])


def test_one_long_wait_is_a_pause_and_many_are_a_slow_loader(log):
    def steps(waits):
        return "".join(f"step {at} loss 2.0 time {1 + wait} s (data {wait} s)\n" for at, wait in enumerate(waits))

    assert not log(steps([0.01] * 40 + [2000.0] + [0.01] * 5)).causes
    assert [one.label for one in log(steps([0.01] * 6 + [4.0] * 40)).causes] == ["input_bound"]


def test_a_process_number_of_the_kernel_names_the_rank(tmp_path):
    (tmp_path / "job.log").write_text(
        "".join(
            f"n1:{4000 + rank}:99 [{rank}] NCCL INFO comm 0x5 rank {rank} nranks 4 - Init COMPLETE\n"
            for rank in range(4)
        )
        + "[rank0]: step 1 loss 2.0\n"
    )
    (tmp_path / "kernel.log").write_text(
        "n1 kernel: NVRM: Xid (PCI:0000:3b:00): 109, pid=4002, name=python3, Ch 00000026, errorString CTX SWITCH TIMEOUT\n"
    )
    assert first(diagnose(discover([str(tmp_path)]))) == ("gpu_driver_firmware", [2])


def test_the_code_in_a_traceback_has_not_happened(log):
    found = log(
        'step 1 loss 2.0\nTraceback (most recent call last):\n  File "a.py", line 3, in check\n'
        "    raise RuntimeError(\"CUDA out of memory\") if full else KeyError(name)\nKeyError: 'width'\n"
    )
    assert [one.label for one in found.causes] == ["user_code_index"]


@pytest.mark.parametrize(
    ("path", "label"),
    [
        ("/venv/lib/python3.11/site-packages/litdata/streaming/reader.py", "data_pipeline"),
        ("/app/model.py", "user_code_index"),
    ],
)
def test_the_last_frame_says_whose_error_a_plain_one_is(log, path, label):
    found = log(
        'step 1 loss 2.0\nTraceback (most recent call last):\n  File "/app/train.py", line 3, in main\n    for x in data:\n'
        f'  File "{path}", line 90, in read\n    raise IndexError(at)\nIndexError: sample 90 is not in chunk 7\n'
    )
    assert [one.label for one in found.causes] == [label]


@pytest.mark.parametrize("comma", [",", ""])
def test_stacks_in_pythons_own_form_are_read_as_those_of_a_sampler(tmp_path, comma):
    def stack(rank, *frames):
        lines = "".join(f'  File "{path}", line 9{comma} in {name}\n' for path, name in frames)
        return f'rank {rank}\nThread 0x7f (most recent call first): "MainThread"\n{lines}'

    waits = ("torch/distributed/distributed_c10d.py", "all_reduce"), ("/app/loop.py", "step")
    own = ("threading.py", "wait"), ("queue.py", "get"), ("/app/sink.py", "flush")
    (tmp_path / "stacks.txt").write_text(stack(0, *waits) + stack(1, *own) + stack(2, *waits))
    (tmp_path / "job.log").write_text(HUNG)
    assert first(diagnose(discover([str(tmp_path)]))) == ("hang_in_user_code", [1])


def test_work_that_ended_after_the_others_gave_up_was_legitimate(log):
    waited = "10:05:00 E Barrier timed out. Id: start. Timed out task names: /job:jax_worker/replica:0/task:3\n"
    ended = "10:05:30 compilation of train_step finished in 330.2 s\n"
    found = log("10:00:00 compiling train_step\n" + waited + ended)
    assert found.causes[0].label == "timeout_budget"
    assert found.causes[0].confidence > log("10:00:00 compiling train_step\n" + waited).causes[0].confidence


@pytest.mark.parametrize(("elapsed", "outcome"), [("03:00:00", "degraded"), ("00:50:00", "healthy")])
def test_a_wait_longer_than_the_work_is_told_of_a_run_that_ended_well(tmp_path, elapsed, outcome):
    steps = "".join(f"2026-03-01 10:{at:02d}:00 step {at} loss 2.0 time 60 s\n" for at in range(40))
    (tmp_path / "job.log").write_text(steps + "2026-03-01 10:40:00 training finished\n")
    (tmp_path / "scheduler.txt").write_text(
        f"JobID|State|ExitCode|Elapsed|NodeList\n77|COMPLETED|0:0|{elapsed}|n1\n77 gpu train alice PD 0:00 2 (Resources)\n"
    )
    found = diagnose(discover([str(tmp_path)]))
    assert found.outcome == outcome
    assert [one.label for one in found.causes] == (["unschedulable"] if outcome == "degraded" else [])
