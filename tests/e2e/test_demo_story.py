"""The demo, as a user starts it: what the server says about a fault that it was not told of is the truth.

Sampled scale takes one seed, full scale three; all six faults are run by hand with
``STEPWARD_DEMO_SEEDS=0,1,2,3,4,5``.
"""

import json
import os
import signal
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path

import pytest

pytestmark = [pytest.mark.integration, pytest.mark.e2e, pytest.mark.timeout(420)]

FULL = os.environ.get("STEPWARD_TEST_SCALE", "sampled") == "full"
STORY_S = 300
"""Limit of one story here: its own goal of 180 s is for a machine that does nothing else."""


def seeds():
    named = os.environ.get("STEPWARD_DEMO_SEEDS")
    return [int(seed) for seed in named.split(",")] if named else [3, 6, 11] if FULL else [6]


def processes_of(folder):
    """Pids of living processes that have ``folder`` in their command line or environment."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                text = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
            except OSError:
                continue
            if str(folder).encode() in text:
                found.append(int(entry.name))
    return found


def demo(folder, *arguments, **settings):
    command = [sys.executable, "-m", "stepward", "demo", "--data", str(folder), *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **settings)


def seconds_of(instant):
    return datetime.fromisoformat(instant).timestamp()


def check_goodput(truth):
    """The ledger's account of the fault, by hand: from what the processes wrote down, and each rank's own clock."""
    report, record = truth["goodput"]["report"], truth["record"]
    assert sum(report["buckets_s"].values()) == pytest.approx(report["wall_s"], abs=1e-5)
    assert report["attempts"] == 2 and report["rejected"] == 0
    ended = {}
    for row in truth["lost_rows"]:
        start = seconds_of(row["started_at"])
        ended.setdefault(row["step"], []).append((start, start + row["duration_s"]))
    resumed, lost, before = record["resumed_step"], 0.0, None
    for step in sorted(ended):
        # A step of the job lasts from its first rank's start, but not before the step before it is over, to its last rank's end.
        start = min(start for start, _ in ended[step])
        end = max(end for _, end in ended[step])
        if step >= resumed:
            lost += max(end - max(start, before if before is not None else start), 0.0)
        before = max(end, before or end)
    assert report["lost_steps"] == len([step for step in ended if step >= resumed])
    assert abs(report["lost_steps"] - (record["last_step"] + 1 - resumed)) <= 1
    first, second = truth["goodput"]["attempts"]
    # The step that the attempt died in never ended: it lasts from the one before to the attempt's end. A rank that ended
    # itself between two steps died in none.
    died_in = seconds_of(truth["goodput"]["started_at"]) + first["end_s"] - before
    taken_back = report["buckets_s"]["recompute"] + report["buckets_s"]["hang"]
    wanted = [pytest.approx(seconds, abs=0.02 * seconds + 0.05) for seconds in (lost, lost + died_in)]
    assert taken_back in wanted
    assert report["buckets_s"]["down"] == pytest.approx(second["start_s"] - first["end_s"], abs=1e-3)


@pytest.mark.scaled
@pytest.mark.parametrize("seed", seeds())
def test_the_server_knows_what_happened(seed, tmp_path):
    began = time.monotonic()
    process = demo(tmp_path, "--seed", seed, "--once", "--steps", 400)
    output, _ = process.communicate(timeout=STORY_S)
    print(f"seed {seed}: {time.monotonic() - began:.1f} s")
    assert process.returncode == 0, output
    (truth,) = (json.loads(path.read_text()) for path in tmp_path.glob("demo-*/truth.json"))
    facts = {fact["what"]: fact for fact in truth["facts"]}
    assert not [fact for fact in facts.values() if fact["differs"]], output
    assert facts["attempts"]["told"] == "2"
    assert facts["through rank"]["told"] == str(truth["record"]["strike"]["rank"])
    assert facts["attempt 2 went on at step"]["told"] == str(truth["record"]["resumed_step"])
    check_goodput(truth)
    assert "where the time went" in output
    assert "first chart" in output
    assert "stepward run -- python train.py" in output
    assert processes_of(tmp_path) == []


def test_ctrl_c_ends_everything(tmp_path):
    process = demo(tmp_path, "--seed", 0, "--steps", 400, start_new_session=True)
    lines = []
    for line in process.stdout:
        lines.append(line)
        if "first chart" in line:
            break
    assert processes_of(tmp_path) != [], "".join(lines)
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=120)
    assert process.returncode == 130
    assert processes_of(tmp_path) == []
