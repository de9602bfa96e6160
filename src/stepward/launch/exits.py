"""How a process ended, as those who saw it tell: the wrapper that reaped it, the kernel that killed it.

The wrapper reports what ``wait`` said and no more; only the cgroup's counter and the kernel's log speak of memory. A
SIGTERM is not called a preemption here: the scheduler's own word is needed for that, and its sources bring it.
"""

import os
import signal
from typing import NamedTuple

from stepward.model.states import Exit, State, Witness


class End(NamedTuple):
    """What ``wait`` said of a process: an exit code, or the number of the signal that ended it."""

    code: int | None = None
    number: int | None = None

    @property
    def bad(self) -> bool:
        """Whether it was anything but exit 0."""
        return self.code != 0

    @property
    def signal(self) -> str | None:
        """Name of the ending signal."""
        if self.number is None:
            return None
        return signal.Signals(self.number).name if self.number in _NAMED else f"SIG{self.number}"

    @property
    def shell_code(self) -> int:
        """As a shell reports it: 128 + n for signal n."""
        return self.code if self.code is not None else 128 + (self.number or 0)

    def __str__(self) -> str:
        return self.signal or f"exit {self.code}"


_NAMED = frozenset(int(number) for number in signal.Signals)


def end_of(status: int) -> End:
    """Read a wait status."""
    if os.WIFSIGNALED(status):
        return End(number=os.WTERMSIG(status))
    return End(code=os.WEXITSTATUS(status))


def is_memory_kill(end: End, *, counted: bool, named: bool) -> bool:
    """Whether memory ended the process.

    Args:
        counted: its cgroup has counted a kill since it came there; others may live in that cgroup, so only an end by
            SIGKILL (or a shell's 137) is believed to be that kill.
        named: the kernel log names one of its processes; any bad end is then of that cause (a worker was killed, and
            its parent failed).
    """
    return end.bad and (named or (counted and end.shell_code == 128 + signal.SIGKILL))


def observations(
    end: End,
    *,
    at: int,
    rank: int | None,
    tail: list[str],
    final: bool,
    reason: str | None = None,
    memory: str | None = None,
    as_asked: bool = False,
) -> list[Exit]:
    """What to record of an end.

    Args:
        at: µs since the epoch.
        rank: None for all processes of the wrapper.
        final: no other attempt follows.
        reason: what else the wrapper knows.
        memory: the kernel's words, or ours for its counter, where memory ended it.
        as_asked: the wrapper sent SIGKILL because somebody wanted the end and the process did not heed it.
    """
    cancelled = as_asked and memory is None and end.number == signal.SIGKILL
    seen = Exit(
        at=at,
        by=Witness.REAPER,
        exit_code=end.code,
        signal=end.signal,
        tail=tail,
        rank=rank,
        final=final,
        state=State.CANCELLED if cancelled else None,
        reason="asked to end and killed, since it did not" if cancelled else reason,
    )
    if memory is None:
        return [seen]
    kernel = Exit(
        at=at,
        by=Witness.KERNEL,
        exit_code=end.code,
        signal=end.signal,
        oom=True,
        rank=rank,
        final=final,
        reason=memory,
    )
    return [seen, kernel]
