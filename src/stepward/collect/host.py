"""Readings of the whole host: CPU, memory, disks, network interfaces, pressure.

Host-wide numbers say what the neighbours leave; what the run itself uses is in ``cgroup`` and ``process``. Only physical
disks and interfaces are read, since their virtual layers would count every byte again.
"""

import os
from collections.abc import Mapping

from stepward.collect import procfs
from stepward.collect.readings import Counters, Sample, read_text


class Host:
    """Reads one host.

    Args:
        places: label -> path; the file system of each is read.
        root: where ``proc`` and ``sys`` are mounted, another folder in tests.
    """

    def __init__(self, places: Mapping[str, str], root: str = "/") -> None:
        self._places = dict(places)
        self._root = root.rstrip("/")
        self._counters = Counters()
        self._cpu: procfs.CpuTimes | None = None
        self._physical: dict[str, bool] = {}

    def sample(self, sample: Sample, now: float) -> None:
        """Add the readings of this moment."""
        self._sample_cpu(sample)
        self._sample_memory(sample)
        self._sample_disks(sample, now)
        self._sample_nics(sample, now)
        add_pressure(sample, "system/host", self._root + "/proc/pressure/{}")
        for label, path in self._places.items():
            _sample_place(sample, label, path)

    def _read(self, path: str) -> str:
        return read_text(f"{self._root}{path}") or ""

    def _sample_cpu(self, sample: Sample) -> None:
        sample.add("system/host/load", "", procfs.load1(self._read("/proc/loadavg")))
        last, self._cpu = self._cpu, procfs.cpu_times(self._read("/proc/stat"))
        if last is None or self._cpu is None or self._cpu.total <= last.total:
            return
        share = 100.0 / (self._cpu.total - last.total)
        idle, iowait, steal = (max(0, b - a) * share for a, b in zip(last[1:], self._cpu[1:], strict=True))
        sample.add("system/host/cpu", "%", max(0.0, 100.0 - idle - iowait))
        sample.add("system/host/cpu_iowait", "%", iowait)
        sample.add("system/host/cpu_steal", "%", steal)

    def _sample_memory(self, sample: Sample) -> None:
        memory = procfs.keyed_numbers(self._read("/proc/meminfo"))
        total, available = memory.get("MemTotal"), memory.get("MemAvailable")
        if total is not None and available is not None:
            sample.add("system/host/memory_used", "B", total - available)
            sample.add("system/host/memory_total", "B", total)
        swap, free = memory.get("SwapTotal"), memory.get("SwapFree")
        if swap is not None and free is not None:
            sample.add("system/host/swap_used", "B", swap - free)
        kills = procfs.keyed_numbers(self._read("/proc/vmstat")).get("oom_kill")
        if kills is not None:
            sample.add("system/host/oom_kills", "", self._counters.total("oom_kill", kills))

    def _sample_disks(self, sample: Sample, now: float) -> None:
        read = written = busy = None
        for name, disk in procfs.disks(self._read("/proc/diskstats")).items():
            if self._is_physical(f"/sys/block/{name}/device"):
                read = _plus(read, self._counters.rate(f"{name} read", disk.read, now))
                written = _plus(written, self._counters.rate(f"{name} written", disk.written, now))
                share = self._counters.rate(f"{name} busy", disk.busy_ms, now)
                busy = share if busy is None else max(busy, share or 0.0)
        sample.add("system/disk/read", "B/s", read)
        sample.add("system/disk/written", "B/s", written)
        sample.add("system/disk/busy", "%", None if busy is None else min(100.0, busy / 10.0))

    def _sample_nics(self, sample: Sample, now: float) -> None:
        for name, nic in procfs.nics(self._read("/proc/net/dev")).items():
            if not self._is_physical(f"/sys/class/net/{name}/device"):
                continue
            prefix = f"system/network/{name}"
            sample.add(f"{prefix}/received", "B/s", self._counters.rate(f"{name} received", nic.received, now))
            sample.add(f"{prefix}/sent", "B/s", self._counters.rate(f"{name} sent", nic.sent, now))
            sample.add(f"{prefix}/errors", "", self._counters.total(f"{name} errors", nic.errors))
            sample.add(f"{prefix}/drops", "", self._counters.total(f"{name} drops", nic.drops))

    def _is_physical(self, path: str) -> bool:
        known = self._physical.get(path)
        if known is None:
            known = self._physical[path] = os.path.exists(f"{self._root}{path}")
        return known


def add_pressure(sample: Sample, prefix: str, pattern: str) -> None:
    """Add the pressure of cpu, memory and io from the three files that ``pattern`` names."""
    for resource in ("cpu", "memory", "io"):
        waits = procfs.pressure(read_text(pattern.format(resource)) or "")
        sample.add(f"{prefix}/pressure_{resource}", "%", waits.get("some"))
        if resource != "cpu":
            sample.add(f"{prefix}/pressure_{resource}_full", "%", waits.get("full"))


def _sample_place(sample: Sample, label: str, path: str) -> None:
    try:
        found = os.statvfs(path)
    except OSError:
        return
    used = found.f_blocks - found.f_bfree
    if not found.f_blocks:
        return
    sample.add(f"system/disk/{label}/free", "B", found.f_bavail * found.f_frsize)
    sample.add(f"system/disk/{label}/used", "%", 100.0 * used / max(1, used + found.f_bavail))


def _plus(total: float | None, more: float | None) -> float | None:
    return total if more is None else (total or 0.0) + more
