"""How a run ended, for every way to end that the state table knows: real server, wrapper, SDK and signals.

What the server makes of it is read as a user reads it: ``stepward show RUN --format json`` and ``stepward logs RUN``.
"""

import os
import signal
import sys

import pytest

from stepward.collect.process import tree

pytestmark = [pytest.mark.integration, pytest.mark.e2e]

SCRIPT = """
import os, signal, sys, time
import stepward as sw

run = sw.init(config={"how": "HOW"})
for step in range(5):
    with run.step(step):
        time.sleep(0.01)
    run.log({"loss": 1.0 / (step + 1)}, step=step)
print("a line before the end", flush=True)
open("READY", "w").write(str(os.getpid()))

def wait(seconds=900):
    for step in range(5, 5 + int(seconds / 0.1)):
        with run.step(step):
            time.sleep(0.1)
        if os.path.exists("READY.go"):
            return

DEED
print("the last line", flush=True)
run.finish()
"""


class Victim:
    """A run in its wrapper, and the process inside it."""

    def __init__(self, house, until, name, deed, before=()):
        self.house, self.until, self.run = house, until, name
        self.ready = house.folder / f"{name}.ready"
        script = house.folder / f"{name}.py"
        script.write_text(SCRIPT.replace("READY", str(self.ready)).replace("HOW", name).replace("DEED", deed))
        command = [sys.executable, "-m", "stepward", "run", "--run", name, "--name", name, "--grace", "5", "--"]
        self.output = house.folder / f"{name}.log"
        self.wrapper = house.spawn([*before, *command, sys.executable, script], output=self.output, module=None)

    def wait_ready(self):
        def pid():
            assert self.wrapper.poll() is None, self.output.read_text()
            return self.ready.exists() and self.ready.read_text()

        self.pid = int(self.until(pid, f"{self.run} to be ready"))
        return self

    def wait_state(self, *states, limit_s=120):
        def reached():
            shown = self.house.show(self.run)
            return shown if shown and shown["state"] in states else None

        return self.until(reached, f"{self.run} to be {' or '.join(states)}", limit_s)

    def attempt(self, *states):
        """The only attempt, after the run has come to one of ``states``."""
        shown = self.wait_state(*states)
        (attempt,) = shown["attempts"]
        assert attempt["state"] == shown["state"]
        return attempt

    def lines(self):
        return self.house.cli("logs", self.run).splitlines()

    def has_said(self, text):
        return self.until(lambda: any(text in line for line in self.lines()), f"the log of {self.run} to say {text!r}")


@pytest.fixture
def start(house, until):
    return lambda name, deed, **settings: Victim(house, until, name, deed, **settings)


ENDS = {
    "exit-0": ("pass", "finished", 0, None, "the last line"),
    "exit-3": ("sys.exit(3)", "failed", 3, None, "a line before the end"),
    "exception": ("raise ValueError('boom')", "failed", 1, None, "ValueError: boom"),
    "segfault": ("import ctypes; ctypes.string_at(0)", "crashed", None, "SIGSEGV", "a line before the end"),
    "abort": ("os.abort()", "crashed", None, "SIGABRT", "a line before the end"),
    "killed": ("os.kill(os.getpid(), signal.SIGKILL)", "crashed", None, "SIGKILL", "a line before the end"),
}


@pytest.mark.parametrize("name", ENDS)
def test_ends_by_itself(start, name):
    deed, state, exit_code, signal_name, last_words = ENDS[name]
    victim = start(name, deed)
    attempt = victim.attempt(state)
    assert (attempt["exit_code"], attempt["signal"]) == (exit_code, signal_name)
    victim.has_said(last_words)
    if name == "exception":
        assert "ValueError: boom" in attempt["reason"]


def test_the_wrapper_ends_as_its_child_did(start):
    assert start("code-3", "sys.exit(3)").wrapper.wait(120) == 3
    # As shells report it, or by the same signal.
    assert start("code-kill", "os.kill(os.getpid(), signal.SIGKILL)").wrapper.wait(120) in (137, -signal.SIGKILL)


@pytest.mark.parametrize(("number", "name"), [(signal.SIGINT, "SIGINT"), (signal.SIGTERM, "SIGTERM")])
def test_a_signal_to_the_wrapper_cancels(start, number, name):
    victim = start(f"cancelled-by-{name.lower()}", "wait()").wait_ready()
    victim.wait_state("running")
    victim.wrapper.send_signal(number)
    attempt = victim.attempt("cancelled")
    assert attempt["signal"] == name
    victim.has_said("a line before the end")


def test_a_process_killed_from_outside_crashed(start):
    victim = start("shot", "wait()").wait_ready()
    os.kill(victim.pid, signal.SIGKILL)
    assert victim.attempt("crashed")["signal"] == "SIGKILL"
    victim.has_said("a line before the end")


def test_a_memory_kill_is_oom(start, small_memory):
    leak = "hoard = []\nwhile True: hoard.append(bytearray(b'1') * (32 << 20))"
    before = ["sh", "-c", 'echo $$ > "$0" && exec "$@"', f"{small_memory}/cgroup.procs"]
    victim = start("leaking", leak, before=before)
    attempt = victim.attempt("oom")
    assert attempt["signal"] == "SIGKILL"
    victim.has_said("a line before the end")


@pytest.fixture
def small_memory():
    from stepward.demo.stage import make_cgroup, remove_cgroup

    path = make_cgroup(512 << 20)
    if path is None:
        pytest.skip("no memory cgroup can be made here: it takes root or a delegated cgroup")
    yield path
    remove_cgroup(path)


def test_a_killed_wrapper_leaves_a_living_run(start):
    victim = start("orphan", "wait()").wait_ready()
    victim.wait_state("running")
    victim.wrapper.kill()
    victim.wrapper.wait(120)
    assert tree(victim.pid), "the child lives on"
    seen_at = victim.house.show("orphan")["last_seen_at"]

    def seen_later():
        shown = victim.house.show("orphan")
        return shown if shown["last_seen_at"] > seen_at and shown["state"] == "running" else None

    victim.until(seen_later, "the orphan to be seen running without its wrapper")
    victim.ready.with_suffix(".ready.go").write_text("")
    victim.attempt("finished")


def test_a_stopped_process_is_hung_and_comes_back(start):
    victim = start("stopped", "wait()").wait_ready()
    victim.wait_state("running")
    os.kill(victim.pid, signal.SIGSTOP)
    try:
        victim.wait_state("hung")
    finally:
        os.kill(victim.pid, signal.SIGCONT)
    victim.wait_state("running")
    victim.ready.with_suffix(".ready.go").write_text("")
    assert victim.attempt("finished")["exit_code"] == 0
    victim.has_said("the last line")


def test_a_run_that_nobody_reaps_is_lost(house, until):
    """Without a wrapper nobody sees the SIGKILL: the lease runs out."""
    script = house.folder / "alone.py"
    ready = house.folder / "alone.ready"
    script.write_text(SCRIPT.replace("READY", str(ready)).replace("HOW", "alone").replace("DEED", "wait()"))
    process = house.python(script, STEPWARD_RUN="alone")
    until(ready.exists, "the script to be ready")
    until(lambda: (house.show("alone") or {}).get("state") == "running", "the run to be seen")
    process.kill()
    process.wait(120)
    (attempt,) = until(
        lambda: (shown := house.show("alone"))["state"] == "lost" and shown["attempts"], "the run to be lost"
    )
    assert (attempt["exit_code"], attempt["signal"]) == (None, None)
