"""Pure readers of the texts in ``/proc``: text in, numbers out, no I/O.

A text that was cut off or has another shape gives None (or lacks the entry); kernels add columns, so extra ones are
ignored. Sizes come out in bytes, times in seconds unless the name says otherwise.
"""

from typing import NamedTuple

SECTOR_BYTES = 512
"""Unit of ``/proc/diskstats``, whatever the sector size of the disk (Documentation/admin-guide/iostats.rst)."""


class CpuTimes(NamedTuple):
    """Ticks since boot over all CPUs."""

    total: int
    idle: int
    iowait: int
    steal: int


class Disk(NamedTuple):
    """Counters of a block device since boot."""

    read: int
    written: int
    busy_ms: int


class Nic(NamedTuple):
    """Counters of a network interface since it came up."""

    received: int
    sent: int
    errors: int
    drops: int


class ProcessStat(NamedTuple):
    """A process as ``/proc/<pid>/stat`` has it.

    ``state`` is the kernel's letter (R, S, D, T, t, Z, ...), ``started`` the ticks after boot at which it started, with
    the pid its identity.
    """

    state: str
    parent: int
    group: int
    ticks: int
    threads: int
    started: int
    rss_pages: int


def cpu_times(stat: str) -> CpuTimes | None:
    """The first line of ``/proc/stat``. Guest time is part of user time already."""
    fields = stat.partition("\n")[0].split()
    if len(fields) < 9 or fields[0] != "cpu" or not all(f.isdigit() for f in fields[1:9]):
        return None
    user, nice, system, idle, iowait, irq, softirq, steal = map(int, fields[1:9])
    return CpuTimes(user + nice + system + idle + iowait + irq + softirq + steal, idle, iowait, steal)


def keyed_numbers(text: str) -> dict[str, int]:
    """Lines ``key number [unit]`` or ``key: number kB``: ``meminfo``, ``vmstat``, ``cpu.stat``, ``memory.events``, ``io``."""
    found = {}
    for line in text.splitlines():
        key, _, rest = line.replace(":", " ", 1).partition(" ")
        fields = rest.split()
        if key and fields and fields[0].isdigit():
            found[key] = int(fields[0]) * (1024 if fields[1:] == ["kB"] else 1)
    return found


def load1(loadavg: str) -> float | None:
    """The load average over the last minute."""
    return _number(loadavg.partition(" ")[0])


def disks(diskstats: str) -> dict[str, Disk]:
    """``/proc/diskstats`` by device name."""
    found = {}
    for line in diskstats.splitlines():
        f = line.split()
        if len(f) >= 14 and all(x.isdigit() for x in f[3:14]):
            found[f[2]] = Disk(int(f[5]) * SECTOR_BYTES, int(f[9]) * SECTOR_BYTES, int(f[12]))
    return found


def nics(netdev: str) -> dict[str, Nic]:
    """``/proc/net/dev`` by interface."""
    found = {}
    for line in netdev.splitlines():
        name, colon, rest = line.rpartition(":")
        f = rest.split()
        if colon and len(f) >= 12 and all(x.isdigit() for x in f[:12]):
            n = [int(x) for x in f[:12]]
            found[name.strip()] = Nic(n[0], n[8], n[2] + n[10], n[3] + n[11])
    return found


def pressure(text: str) -> dict[str, float]:
    """A pressure file: per cent of the last 10 s in which ``some`` or ``full`` tasks waited."""
    found = {}
    for line in text.splitlines():
        kind, _, rest = line.partition(" ")
        share = _number(rest.partition("avg10=")[2].partition(" ")[0])
        if kind in ("some", "full") and share is not None:
            found[kind] = share
    return found


def process_stat(stat: str) -> ProcessStat | None:
    """``/proc/<pid>/stat``. The command's name may hold anything, brackets and blanks too."""
    fields = stat.rpartition(")")[2].split()
    try:
        return ProcessStat(
            state=fields[0],
            parent=int(fields[1]),
            group=int(fields[2]),
            ticks=int(fields[11]) + int(fields[12]),
            threads=int(fields[17]),
            started=int(fields[19]),
            rss_pages=int(fields[21]),
        )
    except (IndexError, ValueError):
        return None


def environment(environ: bytes) -> dict[str, str]:
    """``/proc/<pid>/environ``."""
    pairs = (entry.partition(b"=") for entry in environ.split(b"\0"))
    return {name.decode("utf-8", "replace"): value.decode("utf-8", "replace") for name, eq, value in pairs if eq}


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
