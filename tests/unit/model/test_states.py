"""The state table of ARCHITECTURE.md, row by row, and the weighing of several witnesses."""

from typing import Any

import pytest

from stepward.model.states import Exit, State, Witness, settle, verdict

REAPER, SDK, SCHEDULER, KERNEL, LEASE = Witness.REAPER, Witness.SDK, Witness.SCHEDULER, Witness.KERNEL, Witness.LEASE

TABLE = [
    ("exit 0", Exit(at=0, by=REAPER, exit_code=0), State.FINISHED),
    ("exit 3", Exit(at=0, by=REAPER, exit_code=3), State.FAILED),
    ("exception", Exit(at=0, by=SDK, exit_code=1, exception="ValueError: x"), State.FAILED),
    ("MemoryError is failed", Exit(at=0, by=SDK, exit_code=1, exception="MemoryError"), State.FAILED),
    ("KeyboardInterrupt", Exit(at=0, by=SDK, exception="KeyboardInterrupt"), State.CANCELLED),
    *[
        (name, Exit(at=0, by=REAPER, signal=name), State.CRASHED)
        for name in ("SIGABRT", "SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL")
    ],
    ("SIGINT", Exit(at=0, by=REAPER, signal="SIGINT"), State.CANCELLED),
    ("SIGTERM alone", Exit(at=0, by=REAPER, signal="SIGTERM"), State.CANCELLED),
    ("SIGTERM and the scheduler says so", Exit(at=0, by=REAPER, signal="SIGTERM", preempted=True), State.PREEMPTED),
    ("SIGTERM with a checkpoint", Exit(at=0, by=REAPER, signal="SIGTERM", checkpointed=True), State.PREEMPTED),
    (
        "exit after a handled SIGTERM with a checkpoint",
        Exit(at=0, by=SDK, exit_code=0, checkpointed=True),
        State.PREEMPTED,
    ),
    ("memory kill", Exit(at=0, by=KERNEL, signal="SIGKILL", oom=True), State.OOM),
    ("SIGKILL reaped", Exit(at=0, by=REAPER, signal="SIGKILL"), State.CRASHED),
    ("SIGKILL nobody reaped", Exit(at=0, by=LEASE, signal="SIGKILL"), State.LOST),
    ("nothing known", Exit(at=0, by=LEASE), State.LOST),
    ("a shell's 139", Exit(at=0, by=REAPER, exit_code=139), State.CRASHED),
    ("a shell's 130", Exit(at=0, by=REAPER, exit_code=130), State.CANCELLED),
    ("a shell's 137", Exit(at=0, by=REAPER, exit_code=137), State.CRASHED),
    ("128 is no signal", Exit(at=0, by=REAPER, exit_code=128), State.FAILED),
    ("160 is no signal", Exit(at=0, by=REAPER, exit_code=160), State.FAILED),
    ("the scheduler's own word", Exit(at=0, by=SCHEDULER, state=State.TIMEOUT, exit_code=0), State.TIMEOUT),
]


@pytest.mark.parametrize(("exit", "state"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_table(exit: Exit, state: State) -> None:
    assert verdict(exit).state is state


def test_a_shells_exit_code_is_marked_assumed() -> None:
    told = verdict(Exit(at=0, by=REAPER, exit_code=139))
    assert told.signal == "SIGSEGV" and told.exit_code == 139
    assert told.reason is not None and "assumed" in told.reason


def test_signal_9_is_named() -> None:
    assert verdict(Exit(at=0, by=REAPER, signal="SIGKILL")).reason == "signal 9"


def test_a_real_time_signal_still_gets_a_verdict() -> None:
    assert verdict(Exit(at=0, by=REAPER, signal="SIG35")).state is State.CRASHED


def test_nobody_saw_anything() -> None:
    assert settle([]) is None


def test_the_more_trusted_witness_decides() -> None:
    reaped = Exit(at=1, by=REAPER, exit_code=0)
    scheduled = Exit(at=2, by=SCHEDULER, state=State.TIMEOUT)
    assert settle([reaped, scheduled]) == verdict(scheduled)


def test_the_first_bad_end_decides_among_equals() -> None:
    ends = [
        Exit(at=3, by=REAPER, signal="SIGTERM", rank=0),
        Exit(at=2, by=REAPER, exit_code=7, rank=1),
        Exit(at=1, by=REAPER, exit_code=0, rank=2),
    ]
    assert settle(ends) == verdict(ends[1])


def test_an_out_of_memory_kill_explains_the_reapers_sigkill() -> None:
    told = settle([Exit(at=2, by=REAPER, signal="SIGKILL"), Exit(at=1, by=SDK, oom=True)])
    assert told is not None and told.state is State.OOM and told.signal == "SIGKILL"


@pytest.mark.parametrize(
    ("reaped", "state"),
    [
        ({"exit_code": 0}, State.PREEMPTED),
        ({"exit_code": 1}, State.PREEMPTED),
        ({"signal": "SIGTERM"}, State.PREEMPTED),
        ({"signal": "SIGSEGV"}, State.CRASHED),
        ({"signal": "SIGKILL", "oom": True}, State.OOM),
    ],
)
def test_a_checkpoint_after_sigterm_counts_though_the_reaper_decides(reaped: dict[str, Any], state: State) -> None:
    told = settle([Exit(at=2, by=REAPER, **reaped), Exit(at=1, by=SDK, exit_code=0, checkpointed=True, rank=0)])
    assert told is not None and told.state is state


def test_the_scheduler_needs_no_checkpoint_to_be_believed() -> None:
    scheduled = Exit(at=3, by=SCHEDULER, state=State.CANCELLED)
    told = settle([scheduled, Exit(at=1, by=SDK, exit_code=0, checkpointed=True)])
    assert told is not None and told.state is State.CANCELLED


def test_the_sdks_exception_explains_a_bare_exit_code() -> None:
    told = settle([Exit(at=2, by=REAPER, exit_code=1), Exit(at=1, by=SDK, exit_code=1, exception="ValueError: x")])
    assert told is not None and (told.exit_code, told.reason) == (1, "ValueError: x")


def test_which_states_are_terminal() -> None:
    living = {State.QUEUED, State.STARTING, State.RUNNING, State.HUNG, State.WAITING}
    assert {state for state in State if not state.terminal} == living
