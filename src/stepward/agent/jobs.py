"""The Slurm jobs on this node: which processes belong to each, and what they use.

One scan of ``/proc`` serves the jobs and the check of stuck processes. Who a process is, is looked up twice in its life,
since slurmstepd moves a task into its cgroup and environment only after it was forked; then it is remembered by pid and
start time. A scan spaces the next one, so that a host with thousands of processes does not cost more than a small one.
"""

import os
import time
from collections.abc import Mapping

import msgspec

from stepward.collect import cgroup as cgroups
from stepward.collect import procfs
from stepward.collect.process import PAGE_BYTES, TICKS_PER_S, stat_of
from stepward.collect.readings import Sample, read_text
from stepward.orchestrators.slurm import identity
from stepward.orchestrators.slurm.placement import Placement, job_folder, of_cgroup, of_environ

COST_SHARE = 0.002
"""Share of a core that scans may take."""
LOOKS = 2
"""How often a process is asked who it is."""
_KERNEL_THREADS = 2


class Known(msgspec.Struct):
    """A process that was seen. ``name`` is the job as run keys have it (``40_3`` for a task of an array)."""

    started: int
    looks: int = 0
    placement: Placement | None = None
    name: str | None = None
    devices: str = ""
    ticks: int = 0
    stuck_since: float | None = None


class Job(msgspec.Struct, kw_only=True):
    """A job with processes on this node, as the last scan found it.

    Attributes:
        id: Slurm's own number.
        name: id as run keys have it.
        devices: ``SLURM_JOB_GPUS`` as Slurm set it; "" where it set none.
    """

    id: str
    name: str
    pids: list[int]
    devices: str = ""
    rss: int = 0
    cpu: float | None = None


class Jobs:
    """The jobs of one node.

    Args:
        node: name of the node in Slurm: processes of another slurmd of this host are not ours.
        root: where ``proc`` and ``sys`` are, another folder in tests.

    Attributes:
        jobs: by Slurm's number, as of the last scan.
        stuck: (pid, seconds) of processes in state D.
        zombies: ended processes that nobody reaps.
    """

    def __init__(self, node: str, root: str = "/") -> None:
        self._node, self._root = node, root.rstrip("/")
        self._known: dict[int, Known] = {}
        self._readers: dict[str, cgroups.CgroupReader] = {}
        self._scanned_at: float | None = None
        self._not_before = 0.0
        self.jobs: dict[str, Job] = {}
        self.stuck: list[tuple[int, float]] = []
        self.zombies = 0

    def scan(self, now: float) -> bool:
        """Look at all processes, unless the last look was too dear to look again yet; whether it was done.

        Args:
            now: monotonic seconds.
        """
        if now < self._not_before:
            return False
        began = time.thread_time()
        elapsed = 0.0 if self._scanned_at is None else now - self._scanned_at
        self._scanned_at = now
        self._look(now, elapsed)
        self._not_before = now + (time.thread_time() - began) / COST_SHARE
        return True

    def sample(self, sample: Sample, now: float) -> None:
        """Add what each job uses: by its cgroup where it has one, else by its processes."""
        self._readers = {id: reader for id, reader in self._readers.items() if id in self.jobs}
        for job in self.jobs.values():
            counted = self._counted(job, now)
            prefix = f"system/job/{job.name}"
            sample.add(f"{prefix}/processes", "", len(job.pids))
            sample.add(f"{prefix}/cpu", "%", counted.get("system/cgroup/cpu", job.cpu))
            sample.add(f"{prefix}/memory", "B", counted.get("system/cgroup/memory_used", job.rss))
            sample.add(f"{prefix}/oom_kills", "", counted.get("system/cgroup/oom_kills"))

    def job_of(self, pid: int) -> Job | None:
        """The job of a process, as of the last scan."""
        known = self._known.get(pid)
        return self.jobs.get(known.placement.job) if known and known.placement else None

    def _look(self, now: float, elapsed: float) -> None:
        known, jobs = dict[int, Known](), dict[str, Job]()
        stuck, self.zombies = list[tuple[int, float]](), 0
        for pid in self._pids():
            stat = stat_of(pid, self._root)
            if stat is None or _KERNEL_THREADS in (stat.parent, pid):
                continue
            before = self._known.get(pid)
            one = before if before is not None and before.started == stat.started else Known(stat.started)
            known[pid] = one
            self.zombies += stat.state == "Z"
            one.stuck_since = (one.stuck_since if one.stuck_since is not None else now) if stat.state == "D" else None
            if one.stuck_since is not None:
                stuck.append((pid, now - one.stuck_since))
            # The environment of a process in state D may not be readable until it is out of it.
            if one.looks < LOOKS and stat.state not in "DZX":
                self._place(pid, one, known.get(stat.parent))
            if one.placement is not None and stat.state not in "ZX":
                self._count(jobs, pid, one, stat, elapsed if one is before else 0.0)
            one.ticks = stat.ticks
        self._known, self.jobs, self.stuck = known, jobs, stuck

    def _pids(self) -> list[int]:
        try:
            return sorted(int(name) for name in os.listdir(f"{self._root}/proc") if name.isdigit())
        except OSError:
            return []

    def _place(self, pid: int, one: Known, parent: Known | None) -> None:
        one.looks += 1
        environ = self._environ(pid)
        placement = of_cgroup(read_text(f"{self._root}/proc/{pid}/cgroup") or "") or of_environ(environ)
        if placement is None and not environ and parent is not None:
            # Not readable: another user's process. What its parent belongs to is the best that is known.
            placement = parent.placement
        if placement is not None and placement.node in (None, self._node):
            one.placement = placement
            one.name = identity.job_id(environ) or (parent.name if parent is not None else None)
            one.devices = environ.get("SLURM_JOB_GPUS") or environ.get("SLURM_STEP_GPUS") or ""

    def _environ(self, pid: int) -> Mapping[str, str]:
        try:
            with open(f"{self._root}/proc/{pid}/environ", "rb") as file:
                return procfs.environment(file.read())
        except OSError:
            return {}

    def _count(self, jobs: dict[str, Job], pid: int, one: Known, stat: procfs.ProcessStat, elapsed: float) -> None:
        assert one.placement is not None
        id = one.placement.job
        job = jobs.setdefault(id, Job(id=id, name=one.name or id, pids=[]))
        if one.name is not None:
            job.name = one.name
        job.pids.append(pid)
        job.devices = job.devices or one.devices
        job.rss += stat.rss_pages * PAGE_BYTES
        if elapsed > 0:
            job.cpu = (job.cpu or 0.0) + max(0, stat.ticks - one.ticks) * 100.0 / TICKS_PER_S / elapsed

    def _counted(self, job: Job, now: float) -> dict[str, float]:
        if job.id not in self._readers:
            cgroup = next((found for found in map(self._cgroup_of, job.pids) if found is not None), None)
            if cgroup is None:
                return {}
            self._readers[job.id] = cgroups.CgroupReader(cgroup)
        sample = Sample()
        self._readers[job.id].sample(sample, now)
        return {reading.metric: reading.value for reading in sample.readings}

    def _cgroup_of(self, pid: int) -> cgroups.Cgroup | None:
        """The cgroup of the whole job that a process is in; only the controllers in which Slurm made one."""
        found = cgroups.locate(pid, self._root)
        if found is None:
            return None
        folders = [job_folder(path or "") for path in (found.memory, found.cpu, found.cpu_usage)]
        if not any(folders):
            return None
        return found._replace(memory=folders[0], cpu=folders[1], cpu_usage=folders[2])
