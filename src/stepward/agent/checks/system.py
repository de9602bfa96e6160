"""Memory, clock, processes, slurmd and InfiniBand ports, from ``/proc``, ``/sys`` and one system call."""

import ctypes
import glob
import os
from collections import deque
from collections.abc import Callable

from stepward.agent.checks.protocol import Answer, Check, Severity, bad, ok, unknown
from stepward.agent.jobs import Jobs
from stepward.collect.process import stat_of
from stepward.collect.readings import read_text

OFF_S = 0.5
"""Clock error beyond which logs of several nodes do not fit together (gcm's check)."""
STUCK_S = 300.0
"""Seconds in state D that no healthy device takes (gcm, gpud)."""
ZOMBIE_SHARE = 0.05
FLAPS, FLAPS_S = 2, 300.0
"""Times that a port may not go down within so many seconds (ByteRobust, arXiv 2509.16293)."""
_UNSYNCHRONISED, _MICROSECONDS, _NANO = 0x40, 1e6, 0x2000
"""STA_UNSYNC and STA_NANO of ``adjtimex``(2)."""


class _Timex(ctypes.Structure):
    """``struct timex`` up to the fields that are read; the rest is room."""

    _fields_ = [
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("room", ctypes.c_byte * 256),
    ]


def kernel_clock() -> tuple[bool, float] | None:
    """Whether the kernel's clock is synchronised, and its offset in seconds; None where the kernel does not say."""
    try:
        timex = _Timex()
        if ctypes.CDLL(None).adjtimex(ctypes.byref(timex)) < 0:
            return None
    except (OSError, AttributeError):
        return None
    scale = 1e9 if timex.status & _NANO else _MICROSECONDS
    return not timex.status & _UNSYNCHRONISED, timex.offset / scale


def clock_sync(read: Callable[[], tuple[bool, float] | None] = kernel_clock) -> Answer:
    """Whether the clock is synchronised and near."""
    told = read()
    if told is None:
        return unknown("the kernel does not say how its clock is set")
    synchronised, offset = told
    if not synchronised:
        return unknown("the clock is not synchronised by this host; how far it is off is not known")
    return bad(f"the clock is off by {offset:.3f} s", offset) if abs(offset) > OFF_S else ok(value=offset)


def memory_errors(root: str) -> Answer:
    """What EDAC has counted since the boot; an uncorrected error is bad."""
    folders = glob.glob(f"{root}/sys/devices/system/edac/mc/mc[0-9]*")
    counts = [(_count(f"{folder}/ue_count"), _count(f"{folder}/ce_count")) for folder in folders]
    uncorrected = [count for count, _ in counts if count is not None]
    if not uncorrected:
        return unknown("this kernel counts no memory errors (EDAC)")
    corrected = sum(count or 0 for _, count in counts)
    if sum(uncorrected):
        return bad(f"{sum(uncorrected)} uncorrected memory errors", sum(uncorrected))
    return ok(f"{corrected} corrected" if corrected else "", 0)


def stuck_processes(jobs: Jobs, root: str) -> Answer:
    """Processes that the kernel holds for minutes, or zombies that fill the table."""
    held = [(pid, seconds) for pid, seconds in jobs.stuck if seconds > STUCK_S]
    if held:
        named = ", ".join(f"{pid} ({_command(root, pid)}, {seconds:.0f} s)" for pid, seconds in held[:5])
        return bad(f"{len(held)} processes in state D: {named}", len(held))
    most = _count(f"{root}/proc/sys/kernel/pid_max")
    if most and jobs.zombies > ZOMBIE_SHARE * most:
        return bad(f"{jobs.zombies} zombies of {most} possible processes", jobs.zombies)
    return ok(f"{jobs.zombies} zombies" if jobs.zombies else "", len(jobs.stuck))


class Slurmd:
    """Whether slurmd of a node runs. A connection would be the better question, but each leaves an error in its log."""

    def __init__(self, node: str, root: str) -> None:
        self._node, self._root = node, root
        self._pid: int | None = None

    def look(self, now: float) -> Answer:
        """Find it, or look whether the known one still runs."""
        if self._pid is None or not self._is_ours(self._pid):
            self._pid = next((pid for pid in self._pids() if self._is_ours(pid)), None)
        if self._pid is None:
            return bad("no slurmd of this node runs")
        stat = stat_of(self._pid, self._root)
        if stat is not None and stat.state in "Tt":
            return bad(f"slurmd ({self._pid}) is stopped", self._pid)
        return ok(value=self._pid)

    def _pids(self) -> list[int]:
        return [int(name) for name in os.listdir(f"{self._root}/proc") if name.isdigit()]

    def _is_ours(self, pid: int) -> bool:
        if _command(self._root, pid) != "slurmd":
            return False
        stat = stat_of(pid, self._root)
        words = (read_text(f"{self._root}/proc/{pid}/cmdline") or "").split("\0")
        named = next((words[at + 1] for at, word in enumerate(words[:-1]) if word == "-N"), None)
        named = named or next((word[2:] for word in words if word.startswith("-N") and len(word) > 2), None)
        return stat is not None and stat.state not in "ZX" and named in (None, self._node)


class InfiniBand:
    """Ports that were active once must stay so."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._active: set[str] = set()
        self._downs: dict[str, deque[tuple[float, int]]] = {}

    def ports(self) -> list[str]:
        """Folders of the ports of this host."""
        return sorted(glob.glob(f"{self._root}/sys/class/infiniband/*/ports/*"))

    def look(self, now: float) -> Answer:
        """Whether every port that was active is, and stays."""
        lost, flapping = [], []
        for folder in self.ports():
            name = folder.split("/infiniband/")[1].replace("/ports/", ":")
            if "ACTIVE" in (read_text(f"{folder}/state") or ""):
                self._active.add(name)
            elif name in self._active:
                lost.append(name)
            if self._flaps(name, _count(f"{folder}/counters/link_downed"), now) >= FLAPS:
                flapping.append(name)
        if lost:
            return bad(f"no longer active: {', '.join(lost)}", len(lost))
        if flapping:
            return bad(f"went down {FLAPS} times or more in {FLAPS_S:.0f} s: {', '.join(flapping)}", len(flapping))
        return ok(value=len(self._active)) if self._active else unknown("no port has been active yet")

    def _flaps(self, name: str, count: int | None, now: float) -> int:
        seen = self._downs.setdefault(name, deque())
        if count is not None:
            seen.append((now, count))
        while len(seen) > 1 and seen[0][0] < now - FLAPS_S:
            seen.popleft()
        return max(0, seen[-1][1] - seen[0][1]) if seen else 0


def system_checks(jobs: Jobs, node: str, *, slurm: bool, root: str = "/") -> list[Check]:
    """The checks of this module that this host has something for.

    Args:
        slurm: whether the node belongs to a Slurm cluster.
    """
    root = root.rstrip("/")
    found = [
        Check(name="memory_errors", severity=Severity.FATAL, look=lambda now: memory_errors(root)),
        Check(name="clock_sync", severity=Severity.HIGH, look=lambda now: clock_sync(), period_s=60.0),
        Check(name="stuck_processes", severity=Severity.HIGH, look=lambda now: stuck_processes(jobs, root)),
    ]
    if slurm:
        look = Slurmd(node, root).look
        found.append(
            Check(name="slurmd", severity=Severity.FATAL, look=look, layer="orchestrator", period_s=10.0, confirm=2)
        )
    infiniband = InfiniBand(root)
    if infiniband.ports():
        found.append(Check(name="infiniband", severity=Severity.FATAL, look=infiniband.look, period_s=10.0))
    return found


def _count(path: str) -> int | None:
    text = (read_text(path) or "").strip()
    return int(text) if text.isdigit() else None


def _command(root: str, pid: int) -> str:
    return (read_text(f"{root}/proc/{pid}/comm") or "").strip()
