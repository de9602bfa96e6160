"""What only the host can give the demo: a small disk for the checkpoints, a memory limit for the job.

Both need root (or a delegated cgroup). Where the host refuses, a limit of the process stands in (``rlimit``), and the
story says so. Everything that a ``Stage`` made is undone by ``close``.
"""

import contextlib
import os
import subprocess
import time

from stepward.demo.faults import Kind

DISK_BYTES = 12 << 20
MEMORY_BYTES = 2 << 30
_SPARE_BYTES = 512 << 20
_CGROUP_V1, _CGROUP_V2 = "/sys/fs/cgroup/memory", "/sys/fs/cgroup"


class Stage:
    """The conditions that one fault needs.

    Attributes:
        checkpoints: folder of the checkpoints.
        by: what stands for the fault, as in ``faults.Plan.by``.
        words: what the story says about it; empty where nothing special was set up.
    """

    def __init__(self, folder: str, kind: Kind) -> None:
        self.checkpoints = f"{folder}/checkpoints"
        self.by, self.words = "signal", ""
        self._cgroup: str | None = None
        self._mounted = False
        os.makedirs(self.checkpoints, exist_ok=True)
        if kind is Kind.DISK:
            self._small_disk()
        elif kind is Kind.MEMORY:
            self._small_memory()

    @property
    def before(self) -> list[str]:
        """A command to put before the job's, which takes it under the memory limit; empty without one."""
        if self._cgroup is None:
            return []
        return ["sh", "-c", 'echo $$ > "$0" && exec "$@"', f"{self._cgroup}/cgroup.procs"]

    def close(self) -> None:
        """Undo everything. The job's processes must have ended."""
        if self._mounted:
            # Lazy, since a process of the job may still be on its way out.
            subprocess.run(["umount", "-l", self.checkpoints], capture_output=True, check=False)
            self._mounted = False
        if self._cgroup:
            remove_cgroup(self._cgroup)
            self._cgroup = None

    def _small_disk(self) -> None:
        options = f"size={DISK_BYTES},mode=0700"
        mount = ["mount", "-t", "tmpfs", "-o", options, "stepward-demo", self.checkpoints]
        try:
            self._mounted = subprocess.run(mount, capture_output=True, timeout=10, check=False).returncode == 0
        except (OSError, subprocess.TimeoutExpired):
            self._mounted = False
        self.by = "tmpfs" if self._mounted else "rlimit"
        self.words = (
            f"checkpoints go to a disk of {DISK_BYTES >> 20} MiB"
            if self._mounted
            else "no right to mount a small disk here: a limit on file sizes stands in for it"
        )

    def _small_memory(self) -> None:
        self._cgroup = make_cgroup(MEMORY_BYTES)
        self.by = "cgroup" if self._cgroup else "rlimit"
        self.words = (
            f"the job may use {MEMORY_BYTES >> 30} GiB of memory"
            if self._cgroup
            else "no right to make a cgroup here: an address-space limit stands in for the memory limit"
        )


def make_cgroup(limit: int) -> str | None:
    """A new memory cgroup (v1 or v2) with ``limit``, None where none can be made or the host's memory is smaller."""
    if _available() < limit + _SPARE_BYTES:
        return None
    name = f"stepward-demo-{os.getpid()}-{time.time_ns()}"
    for parent, limit_file, swap_file in (
        (_CGROUP_V1, "memory.limit_in_bytes", "memory.memsw.limit_in_bytes"),
        (_CGROUP_V2, "memory.max", "memory.swap.max"),
    ):
        path = f"{parent}/{name}"
        try:
            os.mkdir(path)
        except OSError:
            continue
        try:
            _write(f"{path}/{limit_file}", limit)
        except OSError:
            remove_cgroup(path)
            continue
        with contextlib.suppress(OSError):  # without a swap controller there is nothing to forbid
            _write(f"{path}/{swap_file}", limit if parent is _CGROUP_V1 else 0)
        return path
    return None


def _available() -> int:
    """Memory that the host can still give; a limit above it would make the kernel kill others."""
    with open("/proc/meminfo") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith("MemAvailable"))


def remove_cgroup(path: str) -> None:
    """Remove a cgroup as soon as its last process is gone."""
    for _ in range(50):
        try:
            os.rmdir(path)
        except FileNotFoundError:
            return
        except OSError:
            time.sleep(0.1)  # busy until its last process is reaped
        else:
            return


def _write(path: str, value: object) -> None:
    with open(path, "w") as file:
        file.write(str(value))
