"""Runs observed by a real server: live, killed in the middle, heard of late; and judged again with the same result."""

import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
import time

import pytest

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

FULL = os.environ.get("STEPWARD_TEST_SCALE", "sampled") == "full"
FAULTS = ["slow_rank", "nan_all", "gpu_oom", "deadlock"] if FULL else ["gpu_oom"]
SETTLE_S = 120.0

JOB = """
import os, sys, time
import stepward as sw
run = sw.init()
for i in range(int(sys.argv[1])):
    while i == 30 and sys.argv[2:] and not os.path.exists(sys.argv[2]):
        time.sleep(0.1)
    with run.step(i):
        time.sleep(0.1)
    run.log({"loss": float("nan") if i >= 60 else 2.0 - i / 100, "queue": float(i)}, step=i)
    if i == 70:
        raise ValueError("loss is not finite")
run.finish()
"""


class Lab:
    """A server that can be killed and started again, and everything that asks it."""

    def __init__(self, folder):
        self.folder = folder
        with socket.socket() as sock:
            sock.bind(("127.0.0.1", 0))
            self.port = sock.getsockname()[1]
        clean = {name: value for name, value in os.environ.items() if not name.startswith("STEPWARD_")}
        self.env = clean | {
            "XDG_STATE_HOME": f"{folder}/state", "XDG_CONFIG_HOME": f"{folder}/config",
            "STEPWARD_DIR": f"{folder}/spool", "STEPWARD_SERVER": f"http://127.0.0.1:{self.port}",
        }  # fmt: skip
        self.job = folder / "job.py"
        self.job.write_text(textwrap.dedent(JOB))
        self.process = None

    def start(self):
        command = [sys.executable, "-m", "stepward", "up", "--data", f"{self.folder}/data", "--port", str(self.port)]
        self.process = subprocess.Popen(
            command, env=self.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        said = self.process.stdout.readline()
        assert "serves" in said, said

    def end(self, number):
        self.process.send_signal(number)
        self.process.communicate(timeout=120)

    def ask(self, *arguments, module="stepward", check=True):
        done = subprocess.run(
            [sys.executable, "-m", module, *arguments], env=self.env, capture_output=True, text=True, timeout=240
        )
        assert not check or done.returncode == 0, done.stderr
        return done

    def json(self, *arguments, module="stepward"):
        return json.loads(self.ask(*arguments, module=module).stdout)

    def events(self, run, *more):
        return self.json("events", run, "--format", "json", *more)

    def launch(self, key, *gate, steps=200):
        """Start a run; with a ``gate`` it goes on beyond step 30 only once that file is there."""
        command = [sys.executable, "-m", "stepward", "run", "--run", key, "--name", key, "--"]
        return subprocess.Popen(
            [*command, sys.executable, str(self.job), str(steps), *map(str, gate)],
            env=self.env,
            stdout=subprocess.DEVNULL,
        )

    def until(self, found, what):
        end = time.monotonic() + SETTLE_S
        while time.monotonic() < end:
            answer = found()
            if answer:
                return answer
            time.sleep(0.5)
        raise AssertionError(f"waited in vain for {what}")

    def same_again(self, run):
        """Judged again, the run has the events that it has; late words may have to be put in their places first."""

        def nothing_changes():
            (job,) = self.json("reprocess", run, "--dry-run", "--format", "json")
            self.last = job
            return not (job["added"] or job["removed"] or job["changed"]) and job

        try:
            return self.until(nothing_changes, "the same events")
        except AssertionError:
            names = {word: self.last[word] for word in ("added", "removed", "changed")}
            raise AssertionError(json.dumps(names, indent=1)) from None


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    lab = Lab(tmp_path_factory.mktemp("observed"))
    lab.start()
    yield lab
    lab.end(signal.SIGTERM)


@pytest.mark.scaled
@pytest.mark.parametrize("kind", FAULTS)
def test_a_run_replayed_is_the_run_as_it_was_seen(lab, kind):
    options = ["--seed", "5", "--fault", kind, "--ranks", "4", "--steps", "240", "--step-s", "0.5"]
    driven = lab.json(
        *options, "--server", f"http://127.0.0.1:{lab.port}", "--speed", "30", module="stepward.testing.simulator"
    )
    (fault,) = driven["faults"]
    wanted = {fault["type"], *fault["also"]}
    seen = lab.until(
        lambda: [event for event in lab.events(driven["run"]) if event["type"] in wanted], f"one of {wanted}"
    )
    print(kind, [(event["type"], event["certainty"], event["ranks"]) for event in seen])
    assert lab.same_again(driven["run"])["unchanged"] >= 1


def test_a_server_that_is_killed_misses_nothing(lab):
    job = lab.launch("killed")
    lab.until(lambda: lab.ask("show", "killed", check=False).returncode == 0, "the run")
    lab.end(signal.SIGKILL)
    assert job.wait(120) == 1
    lab.start()
    lab.ask("sync")
    seen = lab.until(
        lambda: (
            (events := lab.events("killed", "--certainty", "confirmed"))
            and {(event["type"], event["step"] == 60) for event in events} >= {("non_finite", True)}
            and {event["type"] for event in events} >= {"non_finite", "crash"}
            and events
        ),
        "the events of a run that ended while no server was there",
    )
    by_type = {event["type"]: event for event in seen}
    assert by_type["non_finite"]["step"] == 60
    assert by_type["crash"]["ranks"] == [0]
    assert by_type["crash"]["data"]["follows"] == by_type["non_finite"]["id"]
    lab.same_again("killed")


def test_a_spool_that_is_sent_later_is_judged_as_it_happened(lab):
    port = lab.env["STEPWARD_SERVER"]
    lab.env["STEPWARD_SERVER"] = "http://127.0.0.1:1"
    try:
        assert lab.launch("late").wait(120) == 1
    finally:
        lab.env["STEPWARD_SERVER"] = port
    lab.ask("sync")
    lab.until(
        lambda: {event["type"] for event in lab.events("late", "--certainty", "confirmed")} >= {"non_finite", "crash"},
        "the events of a run that was sent when it was over",
    )
    lab.same_again("late")


def test_rules_of_people_hold_for_live_and_stored_runs(lab, tmp_path):
    rule = '[[rule]]\nname = "long queue"\nmetric = "queue"\nwhen = "above"\nthreshold = 5.0\nseverity = "info"\n'
    wrong = tmp_path / "wrong.toml"
    wrong.write_text(rule + '[[rule]]\nname = "x"\nmetric = "queue"\nwhen = "over"\n')
    refused = lab.ask("project", "rules", "default", str(wrong), check=False)
    assert refused.returncode == 2 and "line 10" in refused.stderr and "bad_rule" in refused.stderr
    right = tmp_path / "right.toml"
    right.write_text(rule)

    def ruled(run):
        """The rules' events of a stored run that is judged again, by the observer where it still follows it."""
        lab.ask("reprocess", run)
        lab.same_again(run)
        return [event["title"] for event in lab.events(run, "--type", "rule")]

    gate = tmp_path / "gate"
    job = lab.launch("ruled", gate)
    lab.until(lambda: lab.ask("show", "ruled", check=False).returncode == 0, "the run")
    lab.ask("project", "rules", "default", str(right))
    try:
        (event,) = lab.until(lambda: lab.events("ruled", "--type", "rule"), "the rule's event")
        gate.touch()
        assert (event["title"], event["severity"], event["step"]) == ("long queue", "info", 6)
        assert ruled("late") == ["long queue"]
    finally:
        gate.touch()
        job.wait(120)
        lab.ask("project", "rules", "default", "/dev/null")
    assert ruled("late") == []
