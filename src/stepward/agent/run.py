"""The agent of a node: one thread beats and looks after the others, each of which may hang without harm (docs/agent.md)."""

import os
import resource
import signal
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from stepward.agent.accelerators import Accelerators, has_driver
from stepward.agent.checks.protocol import Answer, Check, Severity, bad, ok
from stepward.agent.checks.rounds import Rounds
from stepward.agent.checks.storage import Storage
from stepward.agent.checks.system import system_checks
from stepward.agent.group import Group
from stepward.agent.jobs import Jobs
from stepward.agent.lock import NodeLock
from stepward.agent.plan import Options, Plan, lock_path, make_plan
from stepward.agent.record import NodeRecord
from stepward.agent.scrape import Target
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
HOST_S = 60.0
"""Time after which a look at files of the host that has not returned means that some device below does not respond."""
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
    agent = Agent(plan, lock)
    say(f"the agent of node {plan.node} of cluster {plan.cluster} writes to run {plan.run}")
    agent.run(over)
    lock.release()
    return 0


class Agent:
    """What watches one node."""

    def __init__(self, plan: Plan, lock: NodeLock) -> None:
        self._plan, self._lock = plan, lock
        self._record = NodeRecord(plan)
        self._jobs = Jobs(plan.node)
        self._host = Host({"root": "/", "spool": plan.root})
        self._cost = OwnCost()
        self._kernel_log = KernelLog(after=_kernel_position(lock))
        self._targets = [Target(url) for url in plan.options.scrape]
        self._told_at, self._changed = 0.0, threading.Event()
        self._began = time.monotonic()
        storage, system = Storage(), system_checks(self._jobs, plan.node, slurm=plan.slurm)
        self._host_checks = self._rounds([*storage.checks(), *system])
        self._accelerators = Accelerators(
            self._jobs,
            keep=lambda readings: self._record.readings(readings, now_us()),
            rounds_of=self._rounds,
            described=lambda devices: self._record.config(Config(system={"devices": devices})),
        )
        tick = min(plan.options.interval_s, CHECK_TICK_S)
        host = Group("host", self._tick(self._sample_host, self._host_checks.turn), tick)
        self._groups, responds = [host], [self._responds("host_responds", host, Severity.HIGH, HOST_S)]
        if has_driver():
            devices = Group("devices", self._tick(self._accelerators.sample, self._accelerators.check), tick)
            self._groups.append(devices)
            responds.append(self._responds("driver_responds", devices, Severity.FATAL, DRIVER_S))
        self._own_checks = self._rounds(responds)
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

    def _rounds(self, checks: Sequence[Check]) -> Rounds:
        return Rounds(checks, now_us, self._record.event, self._lock.kept.bad)

    def _description(self) -> Config:
        system = os.uname()
        node: dict[str, Any] = {"name": self._plan.node, "cluster": self._plan.cluster, "boot": self._plan.boot}
        node |= {"kernel": system.release, "machine": system.machine, "cpus": os.cpu_count(), "agent_pid": os.getpid()}
        return Config(
            key=self._plan.key,
            name=self._plan.node,
            started_at=now_us(),
            system={"node": node},
        )

    # ── what the groups do ──

    def _tick(self, sample: Callable[[], None], check: Callable[[Callable[[], float]], bool]) -> Callable[[], None]:
        """One tick of a group: sample where an interval has passed, then the checks that are due."""
        next_sample = 0.0

        def work() -> None:
            nonlocal next_sample
            now = time.monotonic()
            if now >= next_sample - 0.1:
                next_sample = max(next_sample + self._plan.options.interval_s, now)
                guarded("sampling", sample, None)
            if check(time.monotonic):
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
        overdue = [rounds.overdue(now) for rounds in self._all_rounds()]
        if self._own_checks.turn(time.monotonic) or any(overdue):
            self._changed.set()
        # The first word is a whole one, unless something on the host hangs.
        is_due = self._changed.is_set() or now >= self._told_at + STANDING_S
        if is_due and (self._host_checks.complete or now > self._began + HOST_S):
            self._changed.clear()
            self._told_at = now
            self._tell_standing()

    def _all_rounds(self) -> list[Rounds]:
        devices = self._accelerators.rounds
        return [self._host_checks, *([devices] if devices is not None else []), self._own_checks]

    def _follow_kernel(self) -> None:
        found = self._kernel_log.records()
        if found:
            boot_us = now_us() - time.monotonic_ns() // 1000
            self._record.kernel([(boot_us + record.since_boot_us, record.text) for record in found])
            self._lock.keep(kernel=found[-1].number)

    def _responds(self, name: str, group: Group, severity: Severity, limit_s: float) -> Check:
        """The check that a group does not hang: what it waits for is sick."""

        def look(now: float) -> Answer:
            held = 0.0 if group.busy_since is None else now - group.busy_since
            return bad(f"it has not answered for {held:.0f} s", held) if held > limit_s else ok(value=held)

        return Check(name=name, severity=severity, look=look, period_s=HEARTBEAT_S)

    def _tell_standing(self) -> None:
        found = [finding for rounds in self._all_rounds() for finding in rounds.findings()]
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
