"""The processes of the demo: started with their own output file and session, ended whole.

A session of their own keeps the terminal's Ctrl-C from reaching them: the story ends them in order, the run first, then
the server, and leaves nothing behind.
"""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence

from stepward.collect.process import stat_of, tree
from stepward.errors import CommandFailed

_TAIL_LINES = 8


class Company:
    """One process and its descendants, with the file that keeps their output."""

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        output: str,
        env: Mapping[str, str],
        before: Sequence[str] = (),
    ) -> None:
        """Start ``python -m stepward ARGUMENTS``; ``before`` is a command that takes its command line and becomes it."""
        self.output = output
        self._arguments = list(arguments)
        with open(output, "wb") as file:
            self._process = subprocess.Popen(
                [*before, sys.executable, "-m", "stepward", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                env=dict(env),
                start_new_session=True,
            )

    @property
    def exit_code(self) -> int | None:
        """Its exit code, minus the signal; None while it lives."""
        return self._process.poll()

    def must_live(self) -> None:
        """Raise what it said if it has ended.

        Raises:
            CommandFailed: ``demo_process_ended``.
        """
        code = self.exit_code
        if code is not None:
            said = self.tail()
            raise CommandFailed(
                f"`stepward {' '.join(self._arguments)}` ended with {code}: {said}",
                code="demo_process_ended",
                hint=f"all of its output is in {self.output}",
            )

    def tail(self) -> str:
        """Its last lines."""
        with open(self.output, errors="replace") as file:
            return "\n".join(file.read().splitlines()[-_TAIL_LINES:])

    def end(self, *, grace_s: float) -> None:
        """SIGTERM, and SIGKILL for whatever of its tree lives after ``grace_s``."""
        family = {pid: _identity(pid) for pid in tree(self._process.pid)}
        if self.exit_code is None:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(grace_s)
        for pid, identity in family.items():
            if identity is not None and identity == _identity(pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(10)


def _identity(pid: int) -> int | None:
    """What tells a process from a later one with its number; None when it is gone or only waits to be reaped."""
    stat = stat_of(pid)
    return None if stat is None or stat.state == "Z" else stat.started
