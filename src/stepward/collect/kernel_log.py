"""New lines of the kernel log, where this user may read it; and the processes that it says were killed for memory."""

import os
import re

_KILLED = re.compile(r"[Kk]illed process (\d+)")
_LINE_BYTES = 8192
_MAX_LINES = 10_000
"""A kernel that floods its log must not hold the reader up."""


class KernelLog:
    """Follows ``/dev/kmsg`` from now on; without the right to read it there are no lines."""

    def __init__(self, path: str = "/dev/kmsg") -> None:
        self._descriptor: int | None = None
        try:
            self._descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
            os.lseek(self._descriptor, 0, os.SEEK_END)
        except OSError:
            self.close()

    def lines(self) -> list[str]:
        """Messages since the last call."""
        found: list[str] = []
        while self._descriptor is not None and len(found) < _MAX_LINES:
            try:
                record = os.read(self._descriptor, _LINE_BYTES)
            except BrokenPipeError:
                # Lines were overwritten before they were read; the next read goes on behind them.
                continue
            except OSError:
                break
            if not record:
                break
            found.append(message(record))
        return found

    def close(self) -> None:
        """Read no more."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def is_first_pid_namespace() -> bool:
    """Whether this process has the kernel's own pids: the namespace that the host booted with has a fixed number."""
    try:
        return os.readlink("/proc/self/ns/pid") == "pid:[4026531836]"
    except OSError:
        return False


def message(record: bytes) -> str:
    """The text of one record of ``/dev/kmsg``: after the prefix, without its continuation lines."""
    text = record.decode("utf-8", "replace")
    return (text.partition(";")[2] or text).partition("\n")[0]


def killed_for_memory(line: str) -> int | None:
    """Pid that the line says was killed for memory (as the kernel's own pid namespace numbers it)."""
    found = _KILLED.search(line) if "emory" in line or "oom" in line else None
    return int(found[1]) if found else None
