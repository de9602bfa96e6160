"""The agent of a node: one thread beats and looks after the others, each of which may hang without harm (docs/agent.md)."""

import os
import resource
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

from stepward.agent.checks.devices import DeviceChecks
from stepward.agent.checks.protocol import Check, Severity, bad, ok
from stepward.agent.checks.rounds import Rounds
from stepward.agent.checks.storage import Storage
from stepward.agent.checks.system import system_checks
from stepward.agent.group import Group
from stepward.agent.jobs import Jobs
from stepward.agent.lock import NodeLock
from stepward.agent.plan import Options, Plan, lock_path, make_plan
from stepward.agent.record import NodeRecord
from stepward.agent.scrape import Target
from stepward.collect.devices import Devices, Nvml, load_nvml, value_of
from stepward.collect.host import Host
from stepward.collect.kernel_log import KernelLog
from stepward.collect.process import PAGE_BYTES, stat_of
from stepward.collect.readings import Counters, Reading, Sample
from stepward.launch.notes import guarded, say
from stepward.launch.record import now_us
from stepward.model.frames import Config
from stepward.model.words import HEARTBEAT_S
from stepward.orchestrators.local.proc import read_facts

CHECK_TICK_S = 10.0
STANDING_S = 300.0
"""Longest pause between two words on checks and jobs while nothing changes."""
BOOT_S = 600.0
"""An agent that starts within this time after the boot reads what the kernel said while it booted."""
DRIVER_S = 30.0
"""Time after which an NVML call that has not returned means that the driver does not respond (Azure NHC2015)."""


def run_agent(options: Options) -> int:
    """Watch this node until SIGTERM or SIGINT; the exit code.

    Raises:
        UsageError, Conflict: what ``make_plan`` and ``NodeLock`` raise, before anything is written.
    """
    plan = make_plan(options, os.environ, read_facts())
    lock = NodeLock(lock_path(plan))
    over = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: over.set())
    agent = Agent(plan, lock, load_nvml())
    say(f"the agent of node {plan.node} of cluster {plan.cluster} writes to run {plan.run}")
    agent.run(over)
    lock.release()
    return 0


class Agent:
    """What watches one node.

    Args:
        nvml: None for a node without accelerators.
    """

    def __init__(self, plan: Plan, lock: NodeLock, nvml: Nvml | None) -> None:
        self._plan, self._lock, self._nvml = plan, lock, nvml
        self._record = NodeRecord(plan)
        self._jobs = Jobs(plan.node)
        self._host = Host({"root": "/", "spool": plan.root})
        self._devices = Devices(nvml, {})
        self._cost = OwnCost()
        self._kernel_log = KernelLog(after=_kernel_position(lock))
        self._targets = [Target(url) for url in plan.options.scrape]
        self._told_at, self._changed = 0.0, threading.Event()
        storage, system = Storage(), system_checks(self._jobs, plan.node, slurm=plan.slurm)
        self._host_checks = self._rounds([*storage.checks(), *system])
        self._device_checks = self._rounds(DeviceChecks(nvml, self._devices).checks() if nvml else [])
        self._driver = self._rounds([self._driver_check()] if self._devices.present else [])
        tick = min(plan.options.interval_s, CHECK_TICK_S)
        self._groups = [Group("host", self._tick(self._sample_host, self._host_checks), tick)]
        self._device_group: Group | None = None
        if self._devices.present:
            self._device_group = Group("devices", self._tick(self._sample_devices, self._device_checks), tick)
            self._groups.append(self._device_group)
        if self._targets:
            self._groups.append(Group("scrape", self._scrape, plan.options.interval_s))

    def run(self, over: threading.Event) -> None:
        """Beat until ``over`` is set."""
        self._record.config(self._description())
        self._record.start()
        for group in self._groups:
            group.start()
        due = time.monotonic()
        while not over.is_set():
            guarded("beating", self._record.beat, None)
            guarded("looking after the others", self._look_after, None)
            due = max(due + HEARTBEAT_S, time.monotonic())
            over.wait(due - time.monotonic())
        for group in self._groups:
            group.stop()
        self._kernel_log.close()
        self._record.finish()

    def _rounds(self, checks: list[Check]) -> Rounds:
        return Rounds(checks, now_us, self._record.event, self._lock.kept.bad)

    def _description(self) -> Config:
        system = os.uname()
        node: dict[str, Any] = {"name": self._plan.node, "cluster": self._plan.cluster, "boot": self._plan.boot}
        node |= {"kernel": system.release, "machine": system.machine, "cpus": os.cpu_count(), "agent_pid": os.getpid()}
        return Config(
            key=self._plan.key,
            name=self._plan.node,
            started_at=now_us(),
            system={"node": node, "devices": self._devices.describe()},
        )

    # ── what the groups do ──

    def _tick(self, sample: Callable[[], None], rounds: Rounds) -> Callable[[], None]:
        """One tick of a group: sample where an interval has passed, then the checks that are due."""
        next_sample = 0.0

        def work() -> None:
            nonlocal next_sample
            now = time.monotonic()
            if now >= next_sample - 0.1:
                next_sample = max(next_sample + self._plan.options.interval_s, now)
                guarded("sampling", sample, None)
            if rounds.turn(time.monotonic):
                self._changed.set()

        return work

    def _sample_host(self) -> None:
        at, now, sample = now_us(), time.monotonic(), Sample()
        before = {id: job.devices for id, job in self._jobs.jobs.items()}
        self._host.sample(sample, now)
        self._cost.sample(sample, now)
        self._record.readings(sample.readings, at)
        if self._jobs.scan(now):
            if {id: job.devices for id, job in self._jobs.jobs.items()} != before:
                self._changed.set()
            self._keep_jobs(at, now)

    def _keep_jobs(self, at: int, now: float) -> None:
        sample, rows = Sample(), dict[str, list[Reading]]()
        self._jobs.sample(sample, now)
        for reading in sample.readings:
            rows.setdefault(reading.metric.rpartition("/")[0], []).append(reading)
        for row in rows.values():
            self._record.readings(row, at)

    def _sample_devices(self) -> None:
        at, sample = now_us(), Sample()
        self._devices.sample(sample)
        self._record.readings(sample.readings, at)
        for name, used in self._device_memory().items():
            self._record.readings([Reading(f"system/job/{name}/device_memory", "B", used)], at)

    def _device_memory(self) -> dict[str, float]:
        """Bytes of device memory by job, as the driver knows its processes."""
        used: dict[str, float] = {}
        for device in self._devices.present if self._nvml is not None else ():
            assert self._nvml is not None
            for process in value_of(self._nvml.nvmlDeviceGetComputeRunningProcesses, device.handle) or ():
                job = self._jobs.job_of(process.pid)
                if job is not None:
                    used[job.name] = used.get(job.name, 0.0) + (process.usedGpuMemory or 0)
        return used

    def _scrape(self) -> None:
        for target in self._targets:
            at, rows = now_us(), target.scrape()
            for row in rows:
                self._record.readings(row, at)
            if target.problem:
                say(f"scraping {target.instance} gives nothing: {target.problem}")

    # ── what the main thread does beside beating ──

    def _look_after(self) -> None:
        self._follow_kernel()
        now = time.monotonic()
        overdue = [rounds.overdue(now) for rounds in (self._host_checks, self._device_checks)]
        if self._driver.turn(time.monotonic) or any(overdue):
            self._changed.set()
        if self._changed.is_set() or now >= self._told_at + STANDING_S:
            self._changed.clear()
            self._told_at = now
            self._tell_standing()

    def _follow_kernel(self) -> None:
        found = self._kernel_log.records()
        if found:
            boot_us = now_us() - time.monotonic_ns() // 1000
            self._record.kernel([(boot_us + record.since_boot_us, record.text) for record in found])
            self._lock.keep(kernel=found[-1].number)

    def _driver_check(self) -> Check:
        def look(now: float) -> Any:
            since = self._device_group.busy_since if self._device_group is not None else None
            held = 0.0 if since is None else now - since
            return bad(f"an NVML call has not returned for {held:.0f} s", held) if held > DRIVER_S else ok(value=held)

        return Check(name="driver_responds", severity=Severity.FATAL, look=look, period_s=HEARTBEAT_S)

    def _tell_standing(self) -> None:
        groups = (self._host_checks, self._device_checks, self._driver)
        found = [finding for rounds in groups for finding in rounds.findings()]
        self._lock.keep(bad={finding.check.name: finding.since for finding in found if finding.since is not None})
        jobs = [
            {"id": job.id, "name": job.name, "processes": len(job.pids), "devices": job.devices}
            for job in self._jobs.jobs.values()
        ]
        self._record.config(Config(system={"checks": [finding.described() for finding in found], "jobs": jobs}))


def _kernel_position(lock: NodeLock) -> int | None:
    """Where the kernel's log is gone on with: behind the last agent of this boot, at the boot itself, or from now on.

    What is older is not told: who acts upon it would act upon the past.
    """
    if lock.kept.kernel is not None:
        return lock.kept.kernel
    return -1 if time.monotonic() < BOOT_S else None


class OwnCost:
    """What the agent itself uses, its children included."""

    def __init__(self) -> None:
        self._counters = Counters()

    def sample(self, sample: Sample, now: float) -> None:
        """Add per cent of one CPU since the last sample, and resident bytes."""
        used = sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        rate, stat = self._counters.rate("cpu", used, now), stat_of(os.getpid())
        sample.add("system/agent/cpu", "%", None if rate is None else 100.0 * rate)
        sample.add("system/agent/rss", "B", None if stat is None else stat.rss_pages * PAGE_BYTES)
