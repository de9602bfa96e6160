"""Training that is killed at any moment goes on from a whole checkpoint and comes to the same end; real processes."""

import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest

pytestmark = pytest.mark.integration

STEPS = 120
TRAIN = """
import json, os, sys, time
import stepward as sw
root, out = sys.argv[1:3]
state = {"sum": 0, "noise": "x" * 200_000}
def save(path):
    with open(f"{path}/state-{run.rank}.json", "w") as file:
        file.write(json.dumps(state))
world = int(os.environ.get("WORLD_SIZE", "1"))
def reached(rank, i):
    try:
        return os.path.getsize(f"{out}.at-{rank}") > i
    except FileNotFoundError:
        return False
def together(i):  # as a collective would
    with open(f"{out}.at-{run.rank}", "w") as file:
        file.write("x" * (i + 1))
    while not all(reached(rank, i) for rank in range(world)):
        time.sleep(0.001)
run = sw.init(name="resume", run="resume")
start = run.resume(root)
if start:
    with open(f"{start.path}/state-{run.rank}.json") as file:
        state = json.load(file)
run.autocheckpoint(save, every=7, grace=10, folder=root)
begin = start.step + 1 if start else 0
print("begin", begin, flush=True)
for i in range(begin, int(os.environ["STEPS"])):
    with run.step(i):
        state["sum"] += i
        time.sleep(0.01)
        together(i)
    print("step", i, flush=True)
run.finish()
with open(f"{out}-{run.rank}", "w") as file:
    file.write(str(state["sum"]))
"""


@pytest.fixture
def train(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(TRAIN)
    env = {**os.environ, "STEPWARD_DIR": str(tmp_path / "spool"), "STEPWARD_SERVER": ""}

    def start(*before, steps=STEPS):
        command = [*before, sys.executable, str(path), str(tmp_path / "checkpoints"), str(tmp_path / "sum")]
        env["STEPS"] = str(steps)
        return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    return start


def whole(root):
    return sorted(name for name in os.listdir(root) if name.startswith("step-"))


def read_until(process, word, number=0):
    """The first line that begins with ``word`` and has at least this number."""
    for line in process.stdout:
        *_, name, value = line.split()
        if name == word and int(value) >= number:
            return int(value)
    raise AssertionError(process.stderr.read()[-3000:])


@pytest.mark.scaled
def test_a_run_killed_at_any_moment_comes_to_the_same_end(train, tmp_path):
    seed = int.from_bytes(os.urandom(4), "little")
    chance, begun = random.Random(seed), []
    for _ in range(20 if os.environ.get("STEPWARD_TEST_SCALE") == "full" else 4):
        process = train()
        begun.append(read_until(process, "begin"))
        if begun[-1] < STEPS - 20:
            read_until(process, "step", begun[-1] + chance.randrange(1, 15))
        time.sleep(chance.random() * 0.02)
        process.kill()
        process.communicate()
    last = train()
    assert last.wait(120) == 0, (seed, last.stderr.read()[-3000:])
    assert begun == sorted(begun), (seed, begun)
    assert (tmp_path / "sum-0").read_text() == str(sum(range(STEPS))), (seed, begun)


def test_sigterm_saves_and_asks_to_be_started_again(train, tmp_path):
    process = train(steps=10**6)
    read_until(process, "step", 10)
    process.send_signal(signal.SIGTERM)
    assert process.wait(120) == 75, process.stderr.read()[-3000:]
    newest = int(whole(tmp_path / "checkpoints")[-1].removeprefix("step-"))
    assert newest >= 10
    assert json.loads((tmp_path / f"checkpoints/step-{newest:012d}/manifest.json").read_text())["step"] == newest
    process.communicate()
    again = train(steps=newest + 30)
    assert read_until(again, "begin") == newest + 1
    again.communicate()
    assert (tmp_path / "sum-0").read_text() == str(sum(range(newest + 30)))


def test_the_signal_of_one_rank_ends_both_at_one_step(train, tmp_path):
    wrapped = [sys.executable, "-m", "stepward", "run", "--ranks", "2", "--"]
    process = train(*wrapped, steps=10**6)
    read_until(process, "step", 10)
    os.kill(children(process.pid)[1], signal.SIGTERM)  # a step is one of both: rank 1 has passed the ninth
    _, said = process.communicate(timeout=120)
    assert process.returncode == 75, said[-3000:]
    newest = whole(tmp_path / "checkpoints")[-1]
    assert sorted(os.listdir(tmp_path / "checkpoints" / newest)) == ["manifest.json", "state-0.json", "state-1.json"]
    steps = int(newest.removeprefix("step-")) + 30
    again = train(*wrapped, steps=steps)
    begun = [line for line in again.communicate(timeout=120)[0].splitlines() if "begin" in line]
    assert [int(line.split()[-1]) for line in begun] == [int(newest.removeprefix("step-")) + 1] * 2
    assert (tmp_path / "sum-0").read_text() == (tmp_path / "sum-1").read_text() == str(sum(range(steps)))


def children(pid):
    """The training processes below the wrapper, by rank."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat") as stat, open(f"/proc/{name}/environ", "rb") as environ:
                    parent = int(stat.read().rpartition(")")[2].split()[1])
                    variables = dict(item.partition(b"=")[::2] for item in environ.read().split(b"\0"))
            except (OSError, IndexError):
                continue
            if parent == pid and b"RANK" in variables:
                found[int(variables[b"RANK"])] = int(name)
    return found
