"""What a wait status and the kernel's evidence mean."""

import pytest

from stepward.launch.exits import End, end_of, is_memory_kill, observations
from stepward.model.states import State, settle


@pytest.mark.parametrize(
    ("status", "code", "signal", "shell"),
    [
        (0, 0, None, 0),
        (3 << 8, 3, None, 3),
        (9, None, "SIGKILL", 137),
        (11 | 0x80, None, "SIGSEGV", 139),
        (37, None, "SIG37", 165),
    ],
)
def test_wait_status(status, code, signal, shell):
    end = end_of(status)
    assert (end.code, end.signal, end.shell_code) == (code, signal, shell)
    assert end.bad is (code != 0)


@pytest.mark.parametrize(
    ("end", "counted", "named", "expected"),
    [
        (End(number=9), True, False, True),
        (End(code=137), True, False, True),
        (End(code=1), True, False, False),
        (End(code=1), False, True, True),
        (End(number=9), False, False, False),
        (End(code=0), True, True, False),
        (End(number=15), True, False, False),
    ],
    ids=["killed", "shell-saw-it", "neighbour-was-killed", "worker-was-killed", "no-evidence", "good-end", "sigterm"],
)
def test_memory_kill(end, counted, named, expected):
    assert is_memory_kill(end, counted=counted, named=named) is expected


def test_the_kernels_word_comes_beside_the_reapers():
    seen = observations(End(number=9), at=5, rank=None, tail=["x"], final=True, memory="Killed process 7")
    assert [exit.by for exit in seen] == ["reaper", "kernel"]
    verdict = settle(seen)
    assert verdict is not None and verdict.state is State.OOM


def test_a_plain_sigterm_is_not_called_a_preemption():
    (seen,) = observations(End(number=15), at=5, rank=0, tail=[], final=True, reason="SIGTERM from kill")
    verdict = settle([seen])
    assert verdict is not None and verdict.state is State.CANCELLED


@pytest.mark.parametrize(
    ("end", "memory", "state"),
    [
        (End(number=9), None, State.CANCELLED),
        (End(number=9), "Killed process 7", State.OOM),
        (End(number=11), None, State.CRASHED),
        (End(code=0), None, State.FINISHED),
    ],
)
def test_what_somebody_asked_to_end_and_had_to_be_killed_is_cancelled(end, memory, state):
    seen = observations(end, at=5, rank=0, tail=[], final=True, memory=memory, as_asked=True)
    verdict = settle(seen)
    assert verdict is not None and verdict.state is state
