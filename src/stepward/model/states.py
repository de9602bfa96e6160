"""States of an attempt, and how the evidence of its end is weighed.

The table is that of ARCHITECTURE.md (States of an attempt). Pure: no clock, no I/O. Leases and witnesses are the
server's matter (``stepward.ingest.liveness``); this module only says what an observed end *means*.
"""

import signal as _signal
from collections.abc import Iterable
from enum import StrEnum

import msgspec

from stepward.model.words import Int64


class State(StrEnum):
    """State of an attempt; a run shows the state of its newest attempt."""

    QUEUED = "queued"
    STARTING = "starting"
    RUNNING = "running"
    HUNG = "hung"
    WAITING = "waiting"
    """A launcher has announced the next attempt. Only a run is ever in it."""
    FINISHED = "finished"
    FAILED = "failed"
    CRASHED = "crashed"
    OOM = "oom"
    TIMEOUT = "timeout"
    PREEMPTED = "preempted"
    CANCELLED = "cancelled"
    LOST = "lost"

    @property
    def terminal(self) -> bool:
        """Whether nothing more is expected of the attempt; ``lost`` reopens when a heartbeat returns."""
        return self in _TERMINAL


_TERMINAL = frozenset(
    {
        State.FINISHED,
        State.FAILED,
        State.CRASHED,
        State.OOM,
        State.TIMEOUT,
        State.PREEMPTED,
        State.CANCELLED,
        State.LOST,
    }
)


class Witness(StrEnum):
    """Who saw the end, the most trusted first."""

    SCHEDULER = "scheduler"
    KERNEL = "kernel"
    REAPER = "reaper"
    SDK = "sdk"
    LEASE = "lease"


_TRUST = {witness: trust for trust, witness in enumerate(reversed(Witness))}

CRASH_SIGNALS = frozenset({"SIGABRT", "SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL"})


class Exit(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One observation of the end of a process, of all processes of a wrapper, or of a job.

    Attributes:
        at: when it ended, µs since the epoch (sender's clock).
        by: who saw it.
        exit_code: as ``wait`` gives it, 0-255; None when a signal ended the process or nobody reaped it.
        signal: name of the ending signal (``SIGKILL``).
        exception: last line of the traceback (``ValueError: ...``), where an exception ended it.
        traceback: the whole traceback.
        oom: the kernel or the cgroup counted an out-of-memory kill.
        preempted: scheduler or kernel says that the resources were taken away.
        checkpointed: a checkpoint was completed after SIGTERM (or the signal of ``--signal``) was handled.
        state: the state that a scheduler gives outright, or a wrapper that ended it itself.
        reason: words for people.
        tail: last lines of output.
        rank: the rank that this is about, None for all ranks of the source.
        final: False when the launcher has announced another attempt.
    """

    at: Int64
    by: Witness
    exit_code: Int64 | None = None
    signal: str | None = None
    exception: str | None = None
    traceback: str | None = None
    oom: bool = False
    preempted: bool = False
    checkpointed: bool = False
    state: State | None = None
    reason: str | None = None
    tail: list[str] = msgspec.field(default_factory=list)
    rank: Int64 | None = None
    final: bool = True


class Verdict(msgspec.Struct, frozen=True, omit_defaults=True):
    """What an end means: the state, with the exit code or signal and words that back it."""

    state: State
    exit_code: int | None = None
    signal: str | None = None
    reason: str | None = None


def verdict(exit: Exit) -> Verdict:
    """The state that one observed end means.

    A shell reports a child's signal as exit 128 + n; exit codes 129-159 count as that signal, and the reason says that
    this is assumed. An exit after a handled SIGTERM with a completed checkpoint is ``preempted``.
    """
    code, name, assumed = exit.exit_code, exit.signal, False
    if name is None and code is not None and 129 <= code <= 159:
        name, assumed = signal_name(code - 128), True
    state = exit.state or _state(exit, code, name)
    reason = exit.reason or _reason(exit, state)
    if assumed and not exit.reason:
        reason = f"exit {code}, assumed to be {name}" + (f"; {reason}" if reason else "")
    return Verdict(state, None if name and not assumed else code, name, reason)


def _state(exit: Exit, code: int | None, name: str | None) -> State:
    if exit.oom:
        return State.OOM
    if exit.preempted:
        return State.PREEMPTED
    if name == "SIGTERM" and exit.checkpointed:
        return State.PREEMPTED
    if name is not None:
        return _state_of_signal(name, exit.by)
    if exit.checkpointed and code is not None:
        return State.PREEMPTED
    if exit.exception is not None:
        return State.CANCELLED if exit.exception.startswith("KeyboardInterrupt") else State.FAILED
    if code is None:
        return State.LOST
    return State.FINISHED if code == 0 else State.FAILED


def _state_of_signal(name: str, by: Witness) -> State:
    if name in CRASH_SIGNALS:
        return State.CRASHED
    if name in ("SIGINT", "SIGTERM"):
        return State.CANCELLED
    if name == "SIGKILL" and by is Witness.LEASE:
        return State.LOST
    return State.CRASHED


def _reason(exit: Exit, state: State) -> str | None:
    if exit.exception:
        return exit.exception
    if state is State.CRASHED and exit.signal:
        return f"signal {int(_signal.Signals[exit.signal])}" if exit.signal in _signal.Signals.__members__ else None
    if state is State.OOM:
        return "killed for memory by kernel or cgroup"
    return None


def signal_name(number: int) -> str:
    """``SIGKILL`` for 9; ``SIG99`` for a number that this host has no name for."""
    try:
        return _signal.Signals(number).name
    except ValueError:
        return f"SIG{number}"


def settle(exits: Iterable[Exit]) -> Verdict | None:
    """Weigh all observations of an attempt's end: the most trusted witness decides, its earliest bad end first.

    A checkpoint that the SDK saw completed after SIGTERM makes the reaper's exit a preemption, as it would make its own.
    A less trusted witness may still explain: where the deciding one says no more than ``failed`` or ``crashed``, an
    exception that the SDK kept becomes the reason. Returns None for no observation.
    """
    observed = sorted(exits, key=lambda e: (-_TRUST[e.by], e.at))
    if not observed:
        return None
    top = [e for e in observed if e.by is observed[0].by]
    bad = [e for e in top if verdict(e).state is not State.FINISHED]
    decisive = (bad or top)[0]
    if decisive.by is not Witness.SCHEDULER and any(e.checkpointed for e in observed):
        decisive = msgspec.structs.replace(decisive, checkpointed=True)
    chosen = verdict(decisive)
    # An out-of-memory kill seen by anybody outranks the bare SIGKILL that the reaper saw of the same end.
    if chosen.signal == "SIGKILL" and any(e.oom for e in observed):
        chosen = msgspec.structs.replace(chosen, state=State.OOM, reason="killed for memory by kernel or cgroup")
    if chosen.state in (State.FAILED, State.CRASHED) and chosen.reason is None:
        told = next((e.exception for e in observed if e.exception), None)
        chosen = msgspec.structs.replace(chosen, reason=told)
    return chosen
