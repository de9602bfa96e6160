"""The processes of a cluster: found by what is written in their environment, ended by pid and start time.

Every daemon is started with ``STEPWARD_DAEMON=<ClusterName>:<role>``; a job's process has Slurm's own SLURM_CLUSTER_NAME and
SLURMD_NODENAME. slurmstepd overwrites its environment with its title, so it is known by the log that it holds open. No pid
file is believed: a number may name another process by now.
"""

import contextlib
import os
import select
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

MARK = "STEPWARD_DAEMON"
_POLL_S = 0.05


class Process(NamedTuple):
    """A living process; ``role`` is empty for what is no daemon of ours (steps and jobs)."""

    pid: int
    start: int
    parent: int
    name: str
    role: str = ""
    node: str = ""


def of_cluster(slurm_name: str, folder: str) -> list[Process]:
    """Every process of a cluster: daemons, steps, jobs and what these started."""
    alive = {process.pid: process for process in _all()}
    found: dict[int, Process] = {}
    for process in alive.values():
        mine = _claimed(process, slurm_name, folder)
        if mine is not None:
            found[process.pid] = mine
    for process in alive.values():
        above = _owner_above(process, alive, found)
        if process.pid not in found and above is not None:
            found[process.pid] = process._replace(node=above.node)
    return [process for pid, process in found.items() if pid != os.getpid()]


def environment(pid: int) -> dict[str, str]:
    """The environment with which a process was started; empty where it cannot be read."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            data = file.read()
    except OSError:
        return {}
    pairs = (item.partition(b"=") for item in data.split(b"\0") if b"=" in item)
    return {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}


def end(processes: Iterable[Process], *, grace_s: float) -> list[Process]:
    """SIGTERM, and SIGKILL after ``grace_s`` (at once for 0); returns those that are still there 5 s later."""
    left = list(processes)
    if grace_s > 0:
        for process in left:
            send(process, signal.SIGTERM)
        left = _gone_within(left, grace_s)
    for process in left:
        send(process, signal.SIGKILL)
    return _gone_within(left, 5.0)


def send(process: Process, number: signal.Signals) -> None:
    """Signal exactly this process, never one that has its pid by now."""
    with contextlib.suppress(ProcessLookupError, PermissionError), _held(process.pid) as handle:
        if _start(process.pid) == process.start:
            signal.pidfd_send_signal(handle, number)


def is_alive(process: Process) -> bool:
    """Whether the process still runs; a zombie does not."""
    return _start(process.pid) == process.start


def until(true: Callable[[], bool], seconds: float) -> bool:
    """Wait until something is so; whether it became so."""
    end_at = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end_at:
            return False
        time.sleep(_POLL_S)
    return True


def _gone_within(processes: list[Process], seconds: float) -> list[Process]:
    end_at = time.monotonic() + seconds
    for process in processes:
        with contextlib.suppress(ProcessLookupError), _held(process.pid) as handle:
            if is_alive(process):
                # Not select(): a busy server has descriptors beyond what that takes.
                waiting = select.poll()
                waiting.register(handle, select.POLLIN)
                waiting.poll(max(0.0, end_at - time.monotonic()) * 1000)
    return [process for process in processes if is_alive(process)]


@contextlib.contextmanager
def _held(pid: int) -> Iterator[int]:
    handle = os.pidfd_open(pid)
    try:
        yield handle
    finally:
        os.close(handle)


def _all() -> Iterator[Process]:
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            stat = _stat(int(entry))
            if stat is not None:
                yield stat


def _stat(pid: int) -> Process | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            data = file.read()
    except OSError:
        return None
    name, _, rest = data.partition(b"(")[2].rpartition(b")")
    fields = rest.split()
    if len(fields) < 20 or fields[0] in (b"Z", b"X"):
        return None
    return Process(pid, int(fields[19]), int(fields[1]), name.decode(errors="replace"))


def _start(pid: int) -> int | None:
    found = _stat(pid)
    return found.start if found else None


def _claimed(process: Process, slurm_name: str, folder: str) -> Process | None:
    if process.name.startswith("slurmstepd"):
        node = _node_of_step(process.pid, folder)
        return process._replace(node=node) if node else None
    known = environment(process.pid)
    cluster, _, role = known.get(MARK, "").partition(":")
    if cluster == slurm_name:
        return process._replace(role=role, node=role.partition("@")[2])
    if known.get("SLURM_CLUSTER_NAME") == slurm_name and known.get("SLURMD_NODENAME"):
        return process._replace(node=known["SLURMD_NODENAME"])
    return None


def _node_of_step(pid: int, folder: str) -> str | None:
    """The node of a slurmstepd, from the files that it holds open below the cluster's folder."""
    beginning = f"{folder}/log/slurmd."
    with contextlib.suppress(OSError):
        for entry in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                target = os.readlink(f"/proc/{pid}/fd/{entry}")
                if target.startswith(beginning):
                    return target.removeprefix(beginning).removesuffix(".log")
    return None


def _owner_above(process: Process, alive: dict[int, Process], found: dict[int, Process]) -> Process | None:
    """The nearest step or job process above this one; what a daemon that is no node's started is not taken along."""
    seen: set[int] = set()
    parent = process.parent
    while parent in alive and parent not in seen:
        if parent in found:
            return found[parent]
        seen.add(parent)
        parent = alive[parent].parent
    return None
