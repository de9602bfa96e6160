"""How a command ends is how the wrapper ends, and what it has written down of it."""

import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time

import pytest

from stepward.model.states import State, settle

pytestmark = pytest.mark.integration
PY = sys.executable


@pytest.mark.parametrize(
    ("code", "expected", "state", "signal_name"),
    [
        ("pass", 0, State.FINISHED, None),
        ("raise SystemExit(3)", 3, State.FAILED, None),
        ("raise ValueError('no such layer')", 1, State.FAILED, None),
        ("import os; os.kill(os.getpid(), 9)", 137, State.CRASHED, "SIGKILL"),
        ("import os; os.kill(os.getpid(), 15)", 143, State.CANCELLED, "SIGTERM"),
        ("import ctypes; ctypes.string_at(0)", 139, State.CRASHED, "SIGSEGV"),
        ("import os; os.abort()", 134, State.CRASHED, "SIGABRT"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGRTMIN + 3)", 165, State.CRASHED, "SIG37"),
    ],
)
def test_end_of_a_single_process(run, journals, code, expected, state, signal_name):
    done = run("--", PY, "-c", code)

    assert done.returncode == expected
    found = journals()
    verdict = settle(found.exits)
    assert verdict is not None and verdict.state == state
    end = found.end()
    assert (end.exit_code, end.signal) == (None if signal_name else expected, signal_name)
    assert end.final
    assert [exit.rank for exit in found.exits] == [0, None]


@pytest.mark.parametrize("code", [0, 3])
def test_end_is_known_though_the_caller_ignores_the_ends_of_children(run, journals, code):
    ignore = lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # noqa: E731
    assert run("--", PY, "-c", f"raise SystemExit({code})", preexec_fn=ignore).returncode == code
    assert journals().end().exit_code == code


def test_last_lines_are_kept_with_the_end(run, journals):
    run("--", PY, "-c", "for i in range(80): print(i)\nraise ValueError('no such layer')")
    tail = journals().end().tail
    assert len(tail) == 50
    assert "ValueError: no such layer" in tail
    assert "79" in tail


@pytest.mark.parametrize(("number", "state"), [(signal.SIGINT, State.CANCELLED), (signal.SIGTERM, State.CANCELLED)])
def test_signal_to_the_wrapper_reaches_the_command_once(start, journals, until, number, state, tmp_path):
    count = tmp_path / "count"
    code = (
        "import signal, sys, time\n"
        f"def got(n, f): open({str(count)!r}, 'a').write('x'); time.sleep(0.5); signal.signal(n, signal.SIG_DFL);"
        " signal.raise_signal(n)\n"
        f"signal.signal({int(number)}, got); print('ready', flush=True)\nwhile True: time.sleep(0.1)"
    )
    process = start("--", PY, "-c", code)
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(number)
    assert process.wait(120) == 128 + number
    assert count.read_text() == "x"
    verdict = settle(journals().exits)
    assert verdict is not None and (verdict.state, verdict.signal) == (state, number.name)
    assert number.name in (journals().end().reason or "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_command_that_heeds_no_signal_is_killed_when_asked_again_and_counts_as_cancelled(start, journals, number):
    code = (
        "import signal, time\n"
        f"signal.signal({int(number)}, lambda *_: print('not now', flush=True)); print('ready', flush=True)\n"
        "while True: time.sleep(1)"
    )
    process = start("--grace", "1", "--", PY, "-c", code)
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(number)
    assert process.stdout.readline() == b"not now\n"
    process.send_signal(number)
    assert process.wait(120) == 128 + signal.SIGKILL
    verdict = settle(journals().exits)
    assert verdict is not None and (verdict.state, verdict.signal) == (State.CANCELLED, "SIGKILL")


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2])
def test_other_signals_are_passed_on(start, number):
    code = (
        "import signal, sys\n"
        f"signal.signal({int(number)}, lambda n, f: sys.exit(7)); print('ready', flush=True)\nsignal.pause()"
    )
    process = start("--", PY, "-c", code)
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(number)
    assert process.wait(120) == 7


def test_signal_that_was_ignored_stays_ignored(start):
    code = "import signal; print(signal.getsignal(signal.SIGHUP) is signal.SIG_IGN, flush=True)"
    process = start("--", PY, "-c", code, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    assert process.stdout.readline() == b"True\n"
    assert process.wait(120) == 0


@pytest.mark.parametrize(("exists", "expected"), [(False, 127), (True, 126)])
def test_command_that_does_not_start(run, journals, tmp_path, exists, expected):
    command = tmp_path / "command"
    if exists:
        command.write_text("not executable")
    done = run("--", str(command))
    assert done.returncode == expected
    assert str(command).encode() in done.stderr
    assert journals().end().exit_code == expected


def test_ranks_that_the_system_has_no_room_for_leave_none_behind(run, journals, tmp_path):
    code = f"import os, time; open(f'{tmp_path}/{{os.getpid()}}', 'w'); time.sleep(60)"
    done = run(
        "--ranks", "60", "--", PY, "-c", code, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    )
    assert done.returncode == 126
    assert b"of 60 ranks could be started: Too many open files" in done.stderr
    assert "of 60 ranks" in (journals().end().reason or "")
    assert not [pid for pid in os.listdir(tmp_path) if pid.isdigit() and os.path.exists(f"/proc/{pid}")]


def test_signal_that_slurmstepd_sent_to_the_whole_step_is_not_sent_again(start, tmp_path, monkeypatch):
    """The sender is known by its name: a shell under the name of Slurm's step daemon signals wrapper and command."""
    count, daemon = tmp_path / "count", tmp_path / "slurmstepd"
    shutil.copy(shutil.which("dash") or "/bin/sh", daemon)
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURM_STEP_ID", "0")
    code = (
        "import os, signal, time\n"
        f"signal.signal(signal.SIGTERM, lambda *_: open({str(count)!r}, 'a').write('x'))\n"
        "print(os.getpid(), flush=True)\nend = time.monotonic() + 2\nwhile time.monotonic() < end: time.sleep(0.1)"
    )
    process = start("--", PY, "-c", code)
    pid = int(process.stdout.readline())
    subprocess.run([str(daemon), "-c", f"kill -TERM {process.pid}; kill -TERM {pid}; sleep 1"], check=True)
    assert process.wait(120) == 0
    assert count.read_text() == "x"


def test_task_of_a_job_step_without_ranks_below_is_that_rank(run, journals, monkeypatch):
    for name, value in {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_PROCID": "3", "SLURM_NTASKS": "4"}.items():
        monkeypatch.setenv(name, value)
    run("--", PY, "-c", "pass")
    found = journals()
    assert [exit.rank for exit in found.exits] == [3, None]
    assert {tuple(status.alive) for status in found.statuses} <= {(), (3,)}
    assert found.configs[0].ranks == 4


def test_memory_kill_in_a_cgroup(run, journals):
    cgroup = _make_cgroup()
    try:
        code = (
            f"open('{cgroup}/cgroup.procs', 'w').write('0')\nx = []\nwhile True: x.append(bytearray(b'x' * (4 << 20)))"
        )
        done = run("--", PY, "-c", code)
    finally:
        _remove_cgroup(cgroup)
    assert done.returncode == 137
    verdict = settle(journals().exits)
    assert verdict is not None and verdict.state == State.OOM
    assert any(exit.by == "kernel" and exit.oom for exit in journals().exits)


def test_memory_kill_of_a_worker_is_told_when_the_parent_fails(run, journals):
    cgroup = _make_cgroup()
    try:
        worker = (
            f"open('{cgroup}/cgroup.procs', 'w').write('0')\nx = []\nwhile True: x.append(bytearray(b'x' * (4 << 20)))"
        )
        code = (
            f"import subprocess, sys, time\np = subprocess.Popen([sys.executable, '-c', {worker!r}])\n"
            # The wrapper has to see the worker, or what is left of it, before it is reaped: it looks every second.
            "time.sleep(4); p.wait(); sys.exit(1)"
        )
        if not os.access("/dev/kmsg", os.R_OK):
            pytest.skip("the kernel log cannot be read here")
        done = run("--", PY, "-c", code)
    finally:
        _remove_cgroup(cgroup)
    assert done.returncode == 1
    verdict = settle(journals().exits)
    assert verdict is not None and verdict.state == State.OOM


def test_command_that_ignores_sigterm_is_killed_when_a_peer_failed(run, journals, tmp_path):
    ready = str(tmp_path / "ready")
    code = (
        "import os, signal, sys, time\n"
        f"if os.environ['RANK'] == '1':\n  while not os.path.exists({ready!r}): time.sleep(0.05)\n  sys.exit(5)\n"
        f"signal.signal(signal.SIGTERM, signal.SIG_IGN); open({ready!r}, 'w')\nwhile True: time.sleep(1)"
    )
    done = run("--ranks", "2", "--grace", "0.5", "--", PY, "-c", code)
    assert done.returncode == 5
    ends = {exit.rank: exit for exit in journals().exits}
    assert (ends[1].exit_code, ends[0].signal) == (5, "SIGKILL")
    assert ends[0].at - ends[1].at < 25_000_000, "the grace time of the option was not used"
    assert "rank 1" in ends[0].reason
    assert ends[None].exit_code == 5


def test_left_behind_processes_neither_hold_the_end_up_nor_lose_their_output(run, journals, until, tmp_path):
    go = tmp_path / "go"
    left = f"while [ ! -e {go} ]; do sleep 0.1; done; echo later; echo last"
    done = run("--", "sh", "-c", f"({left}) & echo done")
    assert (done.returncode, done.stdout) == (0, b"done\n")
    assert journals().end().exit_code == 0
    go.touch()
    until(lambda: journals().output("stdout") == b"done\nlater\nlast\n")


def test_end_does_not_wait_for_a_server_when_asked_to_hurry(start, until, monkeypatch):
    """A server that accepts and never answers: one Ctrl-C gives up the sending, and the exit code stays."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        monkeypatch.setenv("STEPWARD_SERVER", f"http://127.0.0.1:{silent.getsockname()[1]}")
        monkeypatch.setenv("STEPWARD_TOKEN", "x")
        process = start("--", PY, "-c", "raise SystemExit(3)")
        silent.accept()
        # Until the command has ended, the wrapper keeps signals for it blocked.
        until(lambda: not _blocks(process.pid, signal.SIGINT))
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == 3


def _blocks(pid: int, number: signal.Signals) -> bool:
    with open(f"/proc/{pid}/status") as file:
        mask = next(line for line in file if line.startswith("SigBlk:"))
    return bool(int(mask.split()[1], 16) >> (number - 1) & 1)


def _make_cgroup() -> str:
    """A memory cgroup of 64 MiB, version 1 or 2; skips with the reason where none can be made."""
    name = f"stepward-test-{os.getpid()}-{time.monotonic_ns()}"
    for root, limit in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")):
        folder = f"{root}/{name}"
        try:
            os.mkdir(folder)
            with open(f"{folder}/{limit}", "w") as file:
                file.write(str(64 << 20))
            return folder
        except OSError as error:
            reason = f"{folder}: {error}"
            if os.path.isdir(folder):
                os.rmdir(folder)
    pytest.skip(f"no memory cgroup can be made here: {reason}")


def _remove_cgroup(folder: str) -> None:
    for _ in range(100):
        try:
            return os.rmdir(folder)
        except OSError:
            time.sleep(0.05)
    subprocess.run(["cat", f"{folder}/cgroup.procs"], check=False)
    raise AssertionError(f"{folder} is still in use")
