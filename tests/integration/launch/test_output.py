"""Output is kept byte for byte and passed on, whatever the command does with it."""

import hashlib
import os
import sys
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.integration
PY = sys.executable
_FIXTURES = [HealthCheck.function_scoped_fixture]


@settings(max_examples=6, deadline=None, suppress_health_check=_FIXTURES)
@given(
    writes=st.lists(
        st.tuples(st.sampled_from([1, 2]), st.binary(max_size=300), st.sampled_from([1, 1, 7, 2000])), max_size=8
    )
)
def test_random_bytes_come_through_unchanged(run, journals, tmp_path_factory, monkeypatch, writes):
    monkeypatch.setenv("STEPWARD_DIR", str(tmp_path_factory.mktemp("spool")))
    code = f"import os\nfor fd, data, times in {writes!r}:\n  os.write(fd, data * times) if data else None"
    done = run("--", PY, "-c", code)
    expected = {fd: b"".join(data * times for to, data, times in writes if to == fd) for fd in (1, 2)}
    assert done.stdout == expected[1]
    assert done.stderr.startswith(expected[2])
    found = journals()
    assert (found.output("stdout"), found.output("stderr")) == (expected[1], expected[2])


def test_lines_of_ten_megabytes(run, journals):
    code = "import sys\nfor c in 'ab': sys.stdout.write(c * (10 << 20) + '\\n')"
    done = run("--", PY, "-c", code)
    expected = b"".join(c * (10 << 20) + b"\n" for c in (b"a", b"b"))
    assert hashlib.sha256(done.stdout).digest() == hashlib.sha256(expected).digest()
    assert journals().output("stdout") == expected
    assert all(len(chunk.data) <= 256 << 10 for chunk in journals().chunks)
    assert all(len(line.encode()) <= 4096 for line in journals().end().tail)


def test_times_of_reads_are_kept(run, journals):
    before = time.time_ns() // 1000
    # Each line is written once the one before was read: then each has a time of its own.
    unread = "int.from_bytes(fcntl.ioctl(1, termios.FIONREAD, bytes(4)), sys.byteorder)"
    code = f"import fcntl, sys, termios, time\nfor i in range(5):\n  print(i)\n  while {unread}: time.sleep(0.01)"
    run("--", PY, "-c", code)
    marks = [mark for chunk in journals().chunks for mark in chunk.marks]
    times = [at for _, at in marks]
    assert len(times) >= 5  # a line and its end may be read apart
    assert times == sorted(times)
    assert before < times[0] < times[-1] < time.time_ns() // 1000


def test_command_without_output(run, journals):
    assert run("--", PY, "-c", "pass").stdout == b""
    assert journals().output("stdout") == b""


def test_command_that_closes_its_output_goes_on(run, journals, tmp_path):
    mark = tmp_path / "mark"
    code = f"import os, time\nprint('last', flush=True)\nos.close(1); os.close(2); time.sleep(0.5); open({str(mark)!r}, 'w')"
    done = run("--", PY, "-c", code)
    assert (done.returncode, done.stdout) == (0, b"last\n")
    assert mark.exists()


def test_output_of_a_daemon_that_forked_twice(run, journals, tmp_path):
    said = tmp_path / "said"
    wait = f"while [ ! -e {said} ]; do sleep 0.1; done"
    done = run("--", "sh", "-c", f"(setsid sh -c 'echo inner; touch {said}' &) ; {wait}; echo outer")
    assert done.stdout == b"inner\nouter\n"
    assert journals().output("stdout") == b"inner\nouter\n"


def test_standard_input_is_rank_zeros(start):
    process = start(
        "--ranks", "2", "--", PY, "-c", "import os, sys; print(os.environ['RANK'], sys.stdin.read())", stdin=-1
    )
    out, _ = process.communicate(b"hello", timeout=120)
    assert sorted(out.splitlines()) == [b"[rank 0] 0 hello", b"[rank 1] 1 "]


def test_python_is_unbuffered_unless_told(run):
    code = "import os; print(os.environ.get('PYTHONUNBUFFERED'))"
    assert run("--", PY, "-c", code).stdout == b"1\n"
    assert run("--", PY, "-c", code, env=dict(os.environ, PYTHONUNBUFFERED="")).stdout == b"\n"


def test_ranks_are_kept_apart_and_prefixed_on_the_terminal_alone(run, journals):
    code = "import os\nfor i in range(50): print(os.environ['RANK'], i)"
    done = run("--ranks", "3", "--", PY, "-c", code)
    for rank in range(3):
        lines = [f"{rank} {i}".encode() for i in range(50)]
        assert [line for line in done.stdout.splitlines() if line.startswith(f"[rank {rank}] ".encode())] == [
            f"[rank {rank}] ".encode() + line for line in lines
        ]
        assert journals().output("stdout", rank).splitlines() == lines


def test_reader_that_goes_away_does_not_end_the_command(start, journals, tmp_path):
    mark = tmp_path / "mark"
    code = f"import time\nprint('first')\ntime.sleep(0.5)\nfor i in range(5000): print('x' * 100)\nopen({str(mark)!r}, 'w')"
    process = start("--", PY, "-c", code)
    assert process.stdout.readline() == b"first\n"
    process.stdout.close()
    assert process.wait(60) == 0
    assert mark.exists()
    assert len(journals().output("stdout")) == 6 + 5000 * 101


def test_terminal_in_terminal_out(start, journals):
    ours, theirs = os.openpty()
    code = "import os, sys; print([os.isatty(fd) for fd in (0, 1, 2)], os.get_terminal_size(1).columns)"
    import fcntl
    import struct
    import termios

    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 91, 0, 0))
    process = start("--", PY, "-c", code, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    assert process.wait(60) == 0
    shown = os.read(ours, 4096)
    os.close(ours)
    assert shown.startswith(b"[True, True, True] 91\r\n")
    assert journals().output("stdout") == b"[True, True, True] 91\n", "the record has the bytes before the terminal"


def test_environment_of_the_command(run, journals):
    code = (
        "import json, os; print(json.dumps({k: v for k, v in os.environ.items()"
        " if k.startswith('STEPWARD_') or k in ('RANK', 'LOCAL_RANK', 'WORLD_SIZE', 'LOCAL_WORLD_SIZE', 'MASTER_ADDR')}))"
    )
    done = run("--run", "nightly", "--project", "llm", "--name", "Night", "--ranks", "1", "--", PY, "-c", code)
    import json

    environ = json.loads(done.stdout)
    meta = journals().writers[0].meta
    assert environ["STEPWARD_RUN"] == meta.run
    assert environ["STEPWARD_PROJECT"] == meta.project == "llm"
    assert environ["STEPWARD_ATTEMPT"] == meta.source.attempt
    assert (environ["RANK"], environ["WORLD_SIZE"], environ["MASTER_ADDR"]) == ("0", "1", "127.0.0.1")
    again = run("--run", "nightly", "--project", "llm", "--", PY, "-c", "pass")
    assert again.returncode == 0
    assert {writer.meta.run for writer in journals().writers} == {meta.run}, "a key always means the same run"
    assert len({writer.meta.source.attempt for writer in journals().writers}) == 2


def test_configuration_masks_the_command_line(run, journals):
    run("--name", "Night", "--", PY, "-c", "pass", "--api-key", "hunter2-hunter2")
    (config,) = journals().configs
    assert config.name == "Night"
    assert "hunter2" not in str(config)
    assert "--api-key" in config.software["command"]


def test_readings_of_the_node_are_points(start, journals, until, tmp_path):
    seen = tmp_path / "seen"
    process = start("--", "sh", "-c", f"while [ ! -e {seen} ]; do sleep 0.1; done")
    until(lambda: any("system/process/rss" in writer.points for writer in journals().writers))
    seen.touch()
    assert process.wait(120) == 0
    (writer,) = journals().writers
    assert writer.meta.source.kind == "wrapper"
    assert writer.points["system/host/memory_used"][0] > 0
    assert writer.points["system/process/rss"][0] > 0


@pytest.mark.parametrize("broken", ["file", "server"])
def test_wrapper_that_cannot_keep_anything_runs_the_command(run, monkeypatch, tmp_path, broken):
    if broken == "server":
        monkeypatch.setenv("STEPWARD_SERVER", "not a URL")
    else:
        config = tmp_path / "stepward"
        config.mkdir()
        (config / "config.toml").write_text("server = [")
        (config / "config.toml").chmod(0o600)
        monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    done = run("--", PY, "-c", "print('hello'); raise SystemExit(4)")
    assert (done.returncode, done.stdout) == (4, b"hello\n")
    assert b"stepward: " in done.stderr


def test_full_spool_counts_what_is_lost(run, journals, tmp_path):
    """A 2 MiB file system for the spool, and 8 MiB of output: all of it passes on, what is kept is told apart."""
    import subprocess

    mount = tmp_path / "small"
    mount.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(mount)], capture_output=True, text=True
    )
    if made.returncode:
        pytest.skip(f"no small file system can be made here: {made.stderr.strip()}")
    try:
        spool = dict(os.environ, STEPWARD_DIR=str(mount / "spool"))
        done = run("--", PY, "-c", "import sys; sys.stdout.write(('x' * 1023 + '\\n') * 8192)", env=spool)
        assert (done.returncode, len(done.stdout)) == (0, 8 << 20)
        os.environ["STEPWARD_DIR"] = spool["STEPWARD_DIR"]
        kept = sum(len(chunk.data) for chunk in journals().chunks if chunk.stream == "stdout")
        assert 0 < kept < 8 << 20
    finally:
        subprocess.run(["umount", str(mount)], check=True)
