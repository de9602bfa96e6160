"""A wrapper below a wrapper: one run, one attempt, everything kept once."""

import sys

import pytest

from stepward.model.states import State, settle

pytestmark = pytest.mark.integration
PY = sys.executable
INNER = (PY, "-m", "stepward", "run")


@pytest.mark.parametrize(("code", "expected"), [("print('hello')", 0), ("print('hello'); raise SystemExit(3)", 3)])
def test_a_wrapper_that_adds_nothing_becomes_its_command(run, journals, code, expected):
    done = run("--", *INNER, "--", PY, "-c", code)
    assert (done.returncode, done.stdout) == (expected, b"hello\n")
    found = journals()
    assert len(found.writers) == 1
    assert found.output("stdout", 0) + found.output("stdout") == b"hello\n"
    assert found.end().exit_code == expected


def test_one_below_a_shell_joins_too_and_so_does_the_next_one(run, journals):
    one = " ".join([*INNER, "--", "sh", "-c", "'echo $STEPWARD_ATTEMPT'"])
    done = run("--", "sh", "-c", f"{one}; {one}")
    first, second = done.stdout.split()
    assert (done.returncode, first) == (0, second)
    (writer,) = journals().writers
    assert writer.meta.source.attempt.encode() == first


def test_ranks_of_an_inner_wrapper_end_in_the_attempt_of_the_outer(run, journals):
    code = "import os, sys; print('rank', os.environ['RANK']); sys.exit(5 * int(os.environ['RANK']))"
    done = run("--", *INNER, "--ranks", "2", "--", PY, "-c", code)
    assert done.returncode == 5
    found = journals()
    assert len({writer.meta.source.attempt for writer in found.writers}) == 1
    assert {exit.rank for exit in found.exits} >= {0, 1, None}
    assert b"".join(chunk.data for chunk in found.chunks).count(b"rank 1\n") == 1, "kept once"
    verdict = settle(found.exits)
    assert verdict is not None and (verdict.state, verdict.exit_code) == (State.FAILED, 5)


def test_restarts_of_an_inner_wrapper_are_attempts_of_their_own(run, journals, tmp_path):
    mark = tmp_path / "mark"
    code = f"import os, sys; new = not os.path.exists({str(mark)!r}); open({str(mark)!r}, 'w'); sys.exit(new)"
    done = run("--", *INNER, "--restarts", "1", "--", PY, "-c", code)
    assert done.returncode == 0
    attempts = {writer.meta.source.attempt for writer in journals().writers}
    outer = min(attempts, key=len)
    assert attempts == {outer, f"{outer}/run.1"}


def test_a_command_that_is_not_there_is_told_as_by_any_wrapper(run, journals):
    done = run("--", *INNER, "--", "/no/such/command")
    assert done.returncode == 127
    assert b"/no/such/command" in done.stderr
    assert journals().end().exit_code == 127
