"""Facts about this process, read from /proc (Linux); elsewhere only its pid and host name are known."""

import os
import sys
from collections.abc import Iterator

from stepward.orchestrators.protocol import Ancestor, ProcFacts

_MAX_ANCESTORS = 8


def read_facts() -> ProcFacts:
    """The facts of this process; what cannot be read is left empty."""
    pid, host = os.getpid(), os.uname().nodename
    if sys.platform != "linux":
        return ProcFacts(host=host, pid=pid, start=0, ancestors=(Ancestor(os.getppid(), 0),))
    stat = _stat(pid)
    return ProcFacts(
        host=host,
        boot=_read("/proc/sys/kernel/random/boot_id").strip(),
        pid=pid,
        start=stat[1] if stat else 0,
        ancestors=tuple(_ancestors(stat[0] if stat else os.getppid())),
    )


def _ancestors(pid: int) -> Iterator[Ancestor]:
    for _ in range(_MAX_ANCESTORS):
        stat = _stat(pid) if pid > 0 else None
        if stat is None:
            return
        yield Ancestor(pid, stat[1], _rank(pid))
        pid = stat[0]


def _stat(pid: int) -> tuple[int, int] | None:
    """Parent and start time of a process; its name, in brackets, may hold blanks and brackets."""
    fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return (int(fields[1]), int(fields[19])) if len(fields) > 19 else None


def _rank(pid: int) -> str | None:
    for entry in _read(f"/proc/{pid}/environ").split("\0"):
        if entry.startswith("RANK="):
            return entry[5:]
    return None


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
