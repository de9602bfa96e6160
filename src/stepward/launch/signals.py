"""The wrapper's signals: blocked and waited for, so that each is handled in one place, with its sender known.

A signal that was ignored when the wrapper started (``nohup``, a shell's background job) stays ignored, for the ranks
too; SIGCHLD alone does not. slurmstepd signals every process of a job step, so what it sent to the wrapper is already
with the ranks; a batch script's signal goes to the script alone (``--signal=B:``), so there it is forwarded.
"""

import contextlib
import os
import signal
from collections.abc import Mapping
from typing import NamedTuple

from stepward.collect.readings import read_text

FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
ENDING = frozenset({signal.SIGINT, signal.SIGTERM})
"""Signals by which somebody asks for the end: no attempt follows."""
_KERNEL = 0x80
"""``si_code`` of a signal that the kernel sent, as a terminal's Ctrl-C."""


class Received(NamedTuple):
    """A signal and the pid of its sender; 0 for the kernel or a sender in another pid namespace."""

    number: signal.Signals
    sender: int = 0
    code: int = 0

    def sender_name(self) -> str:
        """Name of the sending process, while it lives."""
        return (read_text(f"/proc/{self.sender}/comm") or "").strip() if self.sender else ""


class Signals:
    """Blocks the signals of this process and waits for them; to be made before any thread is.

    Attributes:
        before: the mask as it was; ranks begin with it.
    """

    def __init__(self) -> None:
        # Where the caller ignores it, the kernel would reap the ranks and nobody learn how they ended.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        wanted = {*FORWARDED, signal.SIGTSTP, signal.SIGCHLD, signal.SIGWINCH}
        # A blocked signal is queued even when it is ignored, so those must be left out.
        self._waited = {s for s in wanted if signal.getsignal(s) is not signal.SIG_IGN}
        self.before = signal.pthread_sigmask(signal.SIG_BLOCK, self._waited)

    def wait(self, timeout_s: float) -> Received | None:
        """The next signal, None when none came in time."""
        if not hasattr(signal, "sigtimedwait"):
            return self._wait_portably(timeout_s)
        info = signal.sigtimedwait(self._waited, max(0.0, timeout_s))
        return None if info is None else Received(signal.Signals(info.si_signo), info.si_pid, info.si_code)

    def release(self) -> None:
        """When nobody is supervised any more: from now on a request for the end raises KeyboardInterrupt."""
        while self.wait(0.0) is not None:
            pass
        for number in ENDING & self._waited:
            signal.signal(number, signal.default_int_handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, self.before)

    def _wait_portably(self, timeout_s: float) -> Received | None:
        """macOS has neither time limit nor sender: an alarm ends the wait."""
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
        signal.setitimer(signal.ITIMER_REAL, max(0.001, timeout_s))
        number = signal.sigwait(self._waited | {signal.SIGALRM})
        return None if number == signal.SIGALRM else Received(signal.Signals(number))


def already_delivered(received: Received, sender: str, environ: Mapping[str, str]) -> bool:
    """Whether the ranks have got this signal from its sender themselves.

    ``sender`` is the name of the sending process. Inside a job step, a user signal without a visible sender comes from
    slurmstepd outside of the container.
    """
    step = environ.get("SLURM_STEP_ID", "")
    if not step.isdigit() or int(step) >= _FIRST_SPECIAL_STEP:
        return False
    hidden = received.sender == 0 and received.code != _KERNEL
    return hidden or sender.startswith("slurmstepd")


_FIRST_SPECIAL_STEP = 4_294_967_000
"""Slurm's own steps (batch, extern, interactive) have numbers from the top of 32 bits."""


def send(group: int, number: signal.Signals) -> bool:
    """Signal a process group; False when nobody is left in it."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    except PermissionError:
        # Somebody in the group has changed its user; the others have got it.
        return True
    return True


def is_inhabited(group: int) -> bool:
    """Whether a process group has members, zombies included."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def stop_self() -> None:
    """Stop this process as Ctrl-Z would, and return when it is continued."""
    with contextlib.suppress(OSError):
        os.kill(os.getpid(), signal.SIGSTOP)
