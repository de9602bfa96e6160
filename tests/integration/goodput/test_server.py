"""Real runs on a real server: their goodput by API, command line and Prometheus, beside what the script did."""

import json
import os
import re
import subprocess
import sys
import time

import pytest

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]

JOB = """
import sys, time
import stepward as sw
run = sw.init(project="llm", name="pretrain", run="pretrain")
first, last, dies = map(int, sys.argv[1:])
for i in range(first, last):
    with run.step(i):
        with run.phase("data_wait"):
            time.sleep(0.01)
        time.sleep(0.03)
    if i % 10 == 9:
        with run.checkpoint(i, "x"):
            time.sleep(0.05)
    if i == dies:
        raise SystemExit(3)
run.finish()
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A server and the environment of its user."""
    folder = tmp_path_factory.mktemp("goodput")
    env = {name: value for name, value in os.environ.items() if not name.startswith("STEPWARD_")}
    env |= {"STEPWARD_DIR": str(folder / "spool"), "PYTHONUNBUFFERED": "1"}
    env |= {"XDG_STATE_HOME": str(folder / "state"), "XDG_CONFIG_HOME": str(folder / "config")}
    command = [sys.executable, "-m", "stepward", "up", "--data", str(folder / "data"), "--port", "0"]
    server = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    url = re.search(r"serves (\S+)", server.stdout.readline())[1]
    env["STEPWARD_SERVER"] = url
    (folder / "job.py").write_text(JOB)
    for arguments, code in ((("0", "40", "25"), 3), (("20", "40", "-1"), 0)):
        job = [sys.executable, "-m", "stepward", "run", "--project", "llm", "--run", "pretrain", "--"]
        done = subprocess.run(
            [*job, sys.executable, str(folder / "job.py"), *arguments], env=env, timeout=90, check=False
        )
        assert done.returncode == code
    yield folder, env
    server.terminate()
    assert server.wait(120) == 0
    server.stdout.close()


def stepward(env, *arguments):
    command = [sys.executable, "-m", "stepward", *arguments]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=180, check=False)


def goodput(env):
    """The answer once the server knows that the run has ended."""
    until = time.monotonic() + 120
    while True:
        done = stepward(env, "goodput", "show", "pretrain", "--format", "json")
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        if not found["report"]["open"]:
            return found
        assert time.monotonic() < until
        time.sleep(0.5)


def test_what_the_script_did_is_what_the_ledger_says(place):
    _, env = place
    found = goodput(env)
    report, buckets = found["report"], found["report"]["buckets_s"]
    assert found["exact"] and report["attempts"] == 2
    # Steps 20 to 25 were done and are done again; the newest checkpoint was 19.
    assert report["lost_steps"] == 6
    assert sum(buckets.values()) == pytest.approx(report["wall_s"], abs=1e-6)
    # Sleeps last at least as long as they say: 40 kept steps, of which a quarter waits for data.
    assert buckets["data_wait"] >= 40 * 0.01 and buckets["recompute"] >= 6 * 0.04
    assert buckets["productive"] + buckets["slow_steps"] + buckets["hang"] + buckets["compile"] >= 40 * 0.03
    assert buckets["checkpoint_save"] >= 4 * 0.05
    first, second = found["attempts"]
    assert buckets["down"] == pytest.approx(second["start_s"] - first["end_s"], abs=1e-6)
    assert found["reliability"]["interruptions"] == {"failed": 1}
    factors = report["scheduling"] * report["runtime"] * report["program"]
    assert factors == pytest.approx(report["overall"], abs=1e-12)


def test_all_runs_side_by_side(place):
    _, env = place
    goodput(env)
    fleet = json.loads(stepward(env, "goodput", "show", "--project", "llm", "--since", "1h", "--format", "json").stdout)
    (share,) = fleet["runs"]
    assert share["name"] == "pretrain" and share["interruptions"] == 1
    assert fleet["device_s"] == share["device_s"] and fleet["overall_device"] == pytest.approx(share["overall"])
    table = stepward(env, "goodput", "show")
    assert "pretrain" in table.stdout and table.returncode == 0
    refused = stepward(env, "goodput", "show", "--since", "ages")
    assert refused.returncode == 2 and "bad_since" in refused.stderr and not refused.stdout


def test_prometheus_has_the_share_and_the_buckets(place):
    folder, env = place
    goodput(env)
    import urllib.request

    token = (folder / "data" / "token").read_text().strip()
    asked = urllib.request.Request(f"{env['STEPWARD_SERVER']}/metrics", headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(asked, timeout=60) as answer:
        text = answer.read().decode()
    assert re.search(r'^stepward_goodput_ratio\{project="llm"\} 0\.\d+$', text, re.MULTILINE)
    assert re.search(r'^stepward_goodput_device_seconds\{project="llm",bucket="recompute"\} \d', text, re.MULTILINE)


def test_the_table_is_a_waterfall(place):
    _, env = place
    goodput(env)
    shown = stepward(env, "goodput", "show", "pretrain").stdout
    assert shown.splitlines()[1].startswith("goodput ") and "█" in shown and "interruptions: 1 failed" in shown
    assert stepward(env, "goodput", "show", "nobody").returncode == 1


PRINTED = """
import time
for i in range(8):
    time.sleep(0.1)
    print(f"iter {i}: loss {3 - i / 10:.4f}, time 100.00ms, mfu -100.00%", flush=True)
"""


def test_a_run_without_the_sdk_is_accounted_by_what_it_printed(place):
    folder, env = place
    (folder / "printing.py").write_text(PRINTED)
    job = [sys.executable, "-m", "stepward", "run", "--project", "plain", "--run", "plain", "--"]
    subprocess.run([*job, sys.executable, str(folder / "printing.py")], env=env, timeout=180, check=True)
    until = time.monotonic() + 120
    while True:
        found = json.loads(stepward(env, "goodput", "show", "plain", "--format", "json").stdout)
        if not found["report"]["open"] and found["report"]["ideal_step_s"]:
            break
        assert time.monotonic() < until, found
        time.sleep(0.5)
    buckets = found["report"]["buckets_s"]
    assert 0.5 <= buckets["productive"] + buckets["slow_steps"] + buckets["compile"] <= found["report"]["wall_s"]
    assert any("printed" in words for words in found["assumptions"])
