"""Ranks that stop, attempts that follow, and a wrapper that is killed."""

import os
import signal
import sys

import pytest

from stepward.model.states import State, settle

pytestmark = pytest.mark.integration
PY = sys.executable


def test_stopped_rank_is_told_and_comes_back(start, journals, until):
    process = start("--", PY, "-c", "import os, time; print(os.getpid(), flush=True); time.sleep(60)")
    pid = int(process.stdout.readline())
    os.kill(pid, signal.SIGSTOP)
    until(lambda: any(status.stopped == [0] and not status.alive for status in journals().statuses))
    os.kill(pid, signal.SIGCONT)
    until(lambda: journals().statuses[-1].alive == [0] and not journals().statuses[-1].stopped)
    process.terminate()
    assert process.wait(120) == 143


def test_stopped_child_of_a_shell_stops_its_rank(start, journals, until):
    process = start("--", "sh", "-c", "sleep 60 & echo $!; wait")
    pid = int(process.stdout.readline())
    os.kill(pid, signal.SIGSTOP)
    until(lambda: any(status.stopped == [0] for status in journals().statuses))
    os.kill(pid, signal.SIGKILL)
    process.wait(120)


def test_suspended_wrapper_stops_its_ranks_and_goes_on_with_them(start, until):
    process = start("--", PY, "-c", "import os, time; print(os.getpid(), flush=True)\nwhile True: time.sleep(0.1)")
    pid = int(process.stdout.readline())
    process.send_signal(signal.SIGTSTP)
    until(lambda: _state(pid) == "T" and _state(process.pid) == "T")
    process.send_signal(signal.SIGCONT)
    until(lambda: _state(pid) != "T" and _state(process.pid) != "T")
    process.terminate()
    assert process.wait(120) == 143


def test_first_bad_end_stops_the_other_ranks(run, journals):
    code = "import os, time\nif os.environ['RANK'] == '1': print('no such file'); raise SystemExit(9)\ntime.sleep(60)"
    done = run("--ranks", "2", "--", PY, "-c", code)
    assert done.returncode == 9
    ends = {exit.rank: exit for exit in journals().exits}
    assert (ends[1].exit_code, ends[0].signal) == (9, "SIGTERM")
    assert ends[1].tail == ["no such file"]
    assert ends[None].tail == ["no such file"], "the whole is explained by the rank that ended first"
    verdict = settle(journals().exits)
    assert verdict is not None and (verdict.state, verdict.exit_code) == (State.FAILED, 9)


def test_restart_is_announced_and_is_another_attempt(run, journals, tmp_path):
    mark = tmp_path / "mark"
    code = (
        "import os, time\n"
        f"first = not os.path.exists({str(mark)!r})\n"
        "print('attempt', os.environ['STEPWARD_ATTEMPT'])\n"
        "if os.environ['RANK'] == '0' and first: time.sleep(0.5); open("
        + repr(str(mark))
        + ", 'w'); raise SystemExit(1)\n"
        "time.sleep(60) if first else None"
    )
    done = run("--ranks", "2", "--restarts", "1", "--", PY, "-c", code)
    assert done.returncode == 0
    first, second = journals().writers
    launch = first.meta.source.attempt.removesuffix(".0")
    assert second.meta.source.attempt == f"{launch}.1"
    assert first.meta.run == second.meta.run
    from stepward.model.frames import Status
    from stepward.model.states import Exit

    announced = [status.next_attempt for status in first.of(Status) if status.next_attempt]
    assert set(announced) == {f"{launch}.1"}
    assert [exit.final for exit in first.of(Exit) if exit.rank is None] == [False]
    assert [(exit.exit_code, exit.final) for exit in second.of(Exit) if exit.rank is None] == [(0, True)]


def test_last_restart_is_final(run, journals):
    done = run("--restarts", "1", "--", PY, "-c", "raise SystemExit(6)")
    assert done.returncode == 6
    assert [exit.final for exit in journals().exits if exit.rank is None] == [False, True]


def test_nothing_is_restarted_after_sigterm(start, journals):
    process = start("--restarts", "5", "--", PY, "-c", "import time; print('up', flush=True); time.sleep(60)")
    process.stdout.readline()
    process.terminate()
    assert process.wait(120) == 143
    assert len(journals().writers) == 1
    assert journals().end().final


def test_command_outlives_a_killed_wrapper(start, journals, until, tmp_path):
    """No SIGPIPE, no signal; and the heir keeps its output to the end, without a hole or a repeat."""
    mark, go = tmp_path / "mark", tmp_path / "go"
    code = (
        "import os, sys, time\n"
        "print('pid', os.getpid(), flush=True)\n"
        f"while not os.path.exists({str(go)!r}): time.sleep(0.05)\n"
        "for i in range(2000): print('after', i, flush=True)\n"
        "print('last', file=sys.stderr)\n"
        f"open({str(mark)!r}, 'w')"
    )
    process = start("--", PY, "-c", code)
    pid = int(process.stdout.readline().split()[1])
    until(lambda: b"pid" in journals().output("stdout"))
    process.kill()
    process.wait()
    os.kill(pid, 0)
    go.touch()
    until(mark.exists)
    expected = f"pid {pid}\n".encode() + b"".join(f"after {i}\n".encode() for i in range(2000))
    until(lambda: journals().output("stdout") == expected and journals().output("stderr") == b"last\n")
    wrapper, heir = journals().writers
    assert heir.meta.source.attempt == wrapper.meta.source.attempt
    assert heir.meta.source.pid != wrapper.meta.source.pid
    until(lambda: _state(heir.meta.source.pid) in "ZX")


def test_heir_beats_while_the_ranks_live(start, journals, until):
    process = start("--ranks", "2", "--", PY, "-c", "import time; print('up', flush=True); time.sleep(60)")
    process.stdout.readline()
    until(lambda: any(status.alive == [0, 1] for status in journals().statuses))
    pids = [int(pid) for pid in _children(process.pid)]
    process.kill()
    process.wait()
    heir = until(lambda: journals().writers[1:])[0]
    until(lambda: any(status.alive == [0, 1] for status in journals().writers[1].of(type(journals().statuses[0]))))
    for pid in pids:
        if pid != heir.meta.source.pid:
            os.kill(pid, signal.SIGKILL)
    until(lambda: _state(heir.meta.source.pid) in "ZX")


def test_ranks_of_a_launcher_below_are_found(start, journals, until):
    launcher = (
        "import os, subprocess, sys\n"
        "for r in '01': subprocess.Popen(['sleep', '60'], env=dict(os.environ, RANK=r))\n"
        "print('up', flush=True); import time; time.sleep(60)"
    )
    process = start("--", PY, "-c", launcher)
    process.stdout.readline()
    until(lambda: journals().statuses and journals().statuses[-1].alive == [0, 1])
    process.terminate()
    process.wait(120)
    assert [exit.rank for exit in journals().exits] == [None], "the end of a launcher is the end of no rank"


def _children(pid: int) -> list[str]:
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return file.read().split()


def _state(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return "X"
