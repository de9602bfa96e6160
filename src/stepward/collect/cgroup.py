"""The cgroup of a process, version 1 or 2: what it uses, what it may use, and whether the kernel killed in it.

A hybrid host mounts both versions; the controller decides which hierarchy is asked, and a unified hierarchy without
controllers is no source of anything. Limits are the tightest of the cgroup and its ancestors, since a job's limit is
often set one level above the process.
"""

import os
from typing import NamedTuple

from stepward.collect import procfs
from stepward.collect.host import add_pressure
from stepward.collect.readings import Counters, Sample, read_text

UNLIMITED = 1 << 60
"""Limits above this mean "none": version 1 writes the largest multiple of the page size."""


class Cgroup(NamedTuple):
    """Folders of one process's cgroup, by controller; None where the controller is not there.

    ``top`` is the root of the hierarchy that ``memory`` (or ``cpu``) lies in.
    """

    version: int
    memory: str | None
    cpu: str | None
    cpu_usage: str | None
    memory_top: str = ""
    cpu_top: str = ""


def locate(pid: int, root: str = "/") -> Cgroup | None:
    """The cgroup of ``pid``, None where it has none or the process is gone."""
    root = root.rstrip("/")
    membership = parse_membership(read_text(f"{root}/proc/{pid}/cgroup") or "")
    if not membership:
        return None
    mounts = parse_mounts(read_text(f"{root}/proc/self/mountinfo") or "")
    found = {name: _folder(root, mounts, membership, name) for name in ("memory", "cpu", "cpuacct")}
    memory, cpu, usage = found["memory"], found["cpu"], found["cpuacct"]
    if memory or cpu or usage:
        return Cgroup(
            1,
            memory and memory[0],
            cpu and cpu[0],
            usage and usage[0],
            memory[1] if memory else "",
            cpu[1] if cpu else "",
        )
    unified = _folder(root, mounts, membership, "")
    if unified is None:
        return None
    folder, top = unified
    return Cgroup(2, folder, folder, folder, top, top)


def _folder(
    root: str, mounts: dict[str, tuple[str, str]], membership: dict[str, str], controller: str
) -> tuple[str, str] | None:
    """Folder and hierarchy root for one controller; a container sees its cgroup at the mount itself."""
    mount, path = mounts.get(controller), membership.get(controller)
    if mount is None or path is None:
        return None
    shown, point = mount
    inside = path[len(shown) :] if shown != "/" and path.startswith(shown) else path
    top = f"{root}{point}"
    folder = os.path.normpath(f"{top}/{inside.strip('/')}")
    return (folder if os.path.isdir(folder) else top), top


def parse_membership(text: str) -> dict[str, str]:
    """``/proc/<pid>/cgroup``: controller -> path; the unified hierarchy is the controller ``""``."""
    found = {}
    for line in text.splitlines():
        fields = line.split(":", 2)
        if len(fields) == 3:
            found.update(dict.fromkeys(fields[1].split(","), fields[2]))
    return found


def parse_mounts(mountinfo: str) -> dict[str, tuple[str, str]]:
    """``/proc/self/mountinfo``: controller -> (root that is mounted, mount point); unified is ``""``."""
    found: dict[str, tuple[str, str]] = {}
    for line in mountinfo.splitlines():
        before, dash, after = line.partition(" - ")
        fields, kind = before.split(), after.split()
        if not dash or len(fields) < 5 or len(kind) < 3:
            continue
        if kind[0] == "cgroup2":
            found.setdefault("", (fields[3], fields[4]))
        elif kind[0] == "cgroup":
            for option in kind[2].split(","):
                found.setdefault(option, (fields[3], fields[4]))
    return found


def oom_kills(cgroup: Cgroup | None) -> int | None:
    """How often the kernel has killed for memory in this cgroup; None where nobody counts."""
    if cgroup is None or cgroup.memory is None:
        return None
    name = "memory.events" if cgroup.version == 2 else "memory.oom_control"
    return procfs.keyed_numbers(read_text(f"{cgroup.memory}/{name}") or "").get("oom_kill")


def memory_limit(cgroup: Cgroup) -> int | None:
    """Bytes of the tightest limit from the cgroup up to its hierarchy's root, None for no limit."""
    name = "memory.max" if cgroup.version == 2 else "memory.limit_in_bytes"
    limits = [_number(f"{folder}/{name}") for folder in _ancestry(cgroup.memory, cgroup.memory_top)]
    return min((limit for limit in limits if limit is not None and limit < UNLIMITED), default=None)


def cpu_limit(cgroup: Cgroup) -> float | None:
    """CPUs that the tightest quota allows, None for no quota."""
    quotas = [_quota(cgroup.version, folder) for folder in _ancestry(cgroup.cpu, cgroup.cpu_top)]
    return min((quota for quota in quotas if quota is not None), default=None)


def _ancestry(folder: str | None, top: str) -> list[str]:
    found: list[str] = []
    while folder and folder.startswith(top):
        found.append(folder)
        if folder == top:
            break
        folder = os.path.dirname(folder)
    return found


def _quota(version: int, folder: str) -> float | None:
    if version == 2:
        fields = (read_text(f"{folder}/cpu.max") or "").split()
        quota, period = (int(f) if f.isdigit() else None for f in [*fields, "", ""][:2])
    else:
        quota, period = _number(f"{folder}/cpu.cfs_quota_us"), _number(f"{folder}/cpu.cfs_period_us")
    return quota / period if quota and period and quota > 0 else None


def _number(path: str) -> int | None:
    text = (read_text(path) or "").strip()
    return int(text) if text.isdigit() else None


class CgroupReader:
    """Reads one cgroup."""

    def __init__(self, cgroup: Cgroup) -> None:
        self._cgroup = cgroup
        self._counters = Counters()

    def sample(self, sample: Sample, now: float) -> None:
        """Add the readings of this moment."""
        if self._cgroup.memory is not None:
            self._sample_memory(sample, self._cgroup.memory)
        self._sample_cpu(sample, now)
        if self._cgroup.version == 2:
            add_pressure(sample, "system/cgroup", f"{self._cgroup.memory}/{{}}.pressure")

    def _sample_memory(self, sample: Sample, folder: str) -> None:
        current = "memory.current" if self._cgroup.version == 2 else "memory.usage_in_bytes"
        sample.add("system/cgroup/memory_used", "B", _number(f"{folder}/{current}"))
        sample.add("system/cgroup/memory_limit", "B", memory_limit(self._cgroup))
        kills = oom_kills(self._cgroup)
        if kills is not None:
            sample.add("system/cgroup/oom_kills", "", self._counters.total("oom_kill", kills))

    def _sample_cpu(self, sample: Sample, now: float) -> None:
        used, throttled = self._cpu_seconds()
        limit = cpu_limit(self._cgroup)
        if used is not None:
            sample.add("system/cgroup/cpu", "%", _per_cent(self._counters.rate("cpu", used, now)))
        if throttled is not None:
            sample.add("system/cgroup/cpu_throttled", "%", _per_cent(self._counters.rate("throttled", throttled, now)))
        sample.add("system/cgroup/cpu_limit", "%", _per_cent(limit))

    def _cpu_seconds(self) -> tuple[float | None, float | None]:
        """CPU seconds used, and seconds in which threads were held back by the quota."""
        stat = procfs.keyed_numbers(read_text(f"{self._cgroup.cpu}/cpu.stat") or "")
        if self._cgroup.version == 2:
            return _scaled(stat.get("usage_usec"), 1e6), _scaled(stat.get("throttled_usec"), 1e6)
        return _scaled(_number(f"{self._cgroup.cpu_usage}/cpuacct.usage"), 1e9), _scaled(
            stat.get("throttled_time"), 1e9
        )


def _scaled(value: int | None, divisor: float) -> float | None:
    return None if value is None else value / divisor


def _per_cent(share: float | None) -> float | None:
    return None if share is None else 100.0 * share
