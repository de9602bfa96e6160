"""New lines of the kernel log, where this user may read it; and the processes that it says were killed for memory."""

import os
import re
from typing import NamedTuple

_KILLED = re.compile(r"[Kk]illed process (\d+)")
_LINE_BYTES = 8192
_MAX_LINES = 10_000
"""A kernel that floods its log must not hold the reader up."""


class KernelRecord(NamedTuple):
    """One record: its number (they count from the boot; -1 where it has none), µs since the boot, and the message."""

    number: int
    since_boot_us: int
    text: str


class KernelLog:
    """Follows ``/dev/kmsg``; without the right to read it there are no lines.

    Args:
        after: begin behind the record of this number, as far as the kernel still has it; None = from now on.
    """

    def __init__(self, path: str = "/dev/kmsg", *, after: int | None = None) -> None:
        self._descriptor: int | None = None
        self._after = -1 if after is None else after
        try:
            self._descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
            os.lseek(self._descriptor, 0, os.SEEK_END if after is None else os.SEEK_SET)
        except OSError:
            self.close()

    def lines(self) -> list[str]:
        """Messages since the last call."""
        return [record.text for record in self.records()]

    def records(self) -> list[KernelRecord]:
        """Records since the last call."""
        found: list[KernelRecord] = []
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
            read = read_record(record)
            if read.number < 0 or read.number > self._after:
                found.append(read)
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


def read_record(record: bytes) -> KernelRecord:
    """One record of ``/dev/kmsg``: ``priority,number,µs,flags;message``, without its continuation lines."""
    text = record.decode("utf-8", "replace")
    prefix, semicolon, rest = text.partition(";")
    fields = prefix.split(",")
    told = semicolon and len(fields) > 2 and fields[1].isdigit() and fields[2].isdigit()
    number, since_boot = (int(fields[1]), int(fields[2])) if told else (-1, 0)
    return KernelRecord(number, since_boot, (rest or text).partition("\n")[0])


def killed_for_memory(line: str) -> int | None:
    """Pid that the line says was killed for memory (as the kernel's own pid namespace numbers it)."""
    found = _KILLED.search(line) if "emory" in line or "oom" in line else None
    return int(found[1]) if found else None
