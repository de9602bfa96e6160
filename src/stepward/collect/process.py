"""The process trees of a run: what they use, and which ranks live in them.

A tree is followed through ``/proc/<pid>/task/*/children``, so its cost grows with the tree, not with the host. A process
that left the tree (a daemon) is not found. Process identity is pid and start time: a reused pid is another process.
"""

import os
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from stepward.collect import procfs
from stepward.collect.readings import Sample, read_text

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
MAX_PROCESSES = 4096
"""A fork bomb must not hold the sampler up."""


def stat_of(pid: int, root: str = "/") -> procfs.ProcessStat | None:
    """The process's line in ``/proc``, None when it is gone. Never blocks, not even on a process in state D."""
    return procfs.process_stat(read_text(f"{root.rstrip('/')}/proc/{pid}/stat") or "")


def tree(pid: int, root: str = "/") -> list[int]:
    """``pid`` and its descendants, parents first."""
    root = root.rstrip("/")
    found, position = [pid], 0
    while position < len(found) < MAX_PROCESSES:
        found.extend(_children(root, found[position]))
        position += 1
    return found


def _children(root: str, pid: int) -> list[int]:
    folder = f"{root}/proc/{pid}/task"
    try:
        threads = os.listdir(folder)
    except OSError:
        return []
    texts = (read_text(f"{folder}/{thread}/children") or "" for thread in threads)
    return [int(child) for text in texts for child in text.split()]


class Growth(NamedTuple):
    """What a process has used since it started: CPU ticks, bytes read from and written to storage."""

    ticks: int = 0
    read: int = 0
    written: int = 0


class Processes:
    """Reads the process trees of one or several ranks.

    Args:
        trees: rank -> pid at the root of its tree. With several, each rank's part is reported beside the sum.
    """

    def __init__(self, trees: Mapping[int, int], root: str = "/") -> None:
        self.trees = dict(trees)
        self._root = root.rstrip("/")
        self._last: dict[tuple[int, int], Growth] = {}
        self._last_at: float | None = None

    def sample(self, sample: Sample, now: float) -> None:
        """Add the readings of this moment."""
        elapsed = now - self._last_at if self._last_at is not None else 0.0
        seen: dict[tuple[int, int], Growth] = {}
        whole: dict[str, float] = {}
        for rank, pid in self.trees.items():
            usage = self._usage(tree(pid, self._root), seen, elapsed)
            for name, value in usage.items():
                _count(whole, name, value)
            if len(self.trees) > 1:
                _add(sample, usage, rank)
        _add(sample, whole)
        self._last, self._last_at = seen, now

    def _usage(self, pids: Iterable[int], seen: dict[tuple[int, int], Growth], elapsed: float) -> dict[str, float]:
        """Usage of one tree. Growth is summed a process at a time, so that one that ends takes nothing away."""
        usage: dict[str, float] = {}
        for pid in pids:
            stat = stat_of(pid, self._root)
            if stat is None:
                continue
            _count(usage, "processes", 1)
            _count(usage, "threads", stat.threads)
            _count(usage, "rss", stat.rss_pages * PAGE_BYTES)
            _count(usage, "fds", self._open_files(pid))
            io = procfs.keyed_numbers(read_text(f"{self._root}/proc/{pid}/io") or "")
            now = Growth(stat.ticks, io.get("read_bytes", 0), io.get("write_bytes", 0))
            before = self._last.get((pid, stat.started), Growth())
            seen[pid, stat.started] = now
            if elapsed > 0:
                _count(usage, "cpu", max(0, now.ticks - before.ticks) * 100.0 / TICKS_PER_S / elapsed)
            if elapsed > 0 and io:
                _count(usage, "read", max(0, now.read - before.read) / elapsed)
                _count(usage, "written", max(0, now.written - before.written) / elapsed)
        return usage

    def _open_files(self, pid: int) -> int | None:
        try:
            return len(os.listdir(f"{self._root}/proc/{pid}/fd"))
        except OSError:
            return None


_UNITS = {"rss": "B", "cpu": "%", "read": "B/s", "written": "B/s"}


def _count(usage: dict[str, float], name: str, value: float | None) -> None:
    if value is not None:
        usage[name] = usage.get(name, 0.0) + value


def _add(sample: Sample, usage: Mapping[str, float], rank: int | None = None) -> None:
    for name, value in usage.items():
        sample.add(f"system/process/{name}", _UNITS.get(name, ""), value, rank=rank)


def ranks_below(pid: int, root: str = "/") -> dict[int, int]:
    """The ranks that a launcher below ``pid`` started: rank -> pid of the topmost process with that ``RANK``.

    Reads ``/proc/<pid>/environ``, which may wait for a process in state D: never call it from a loop that must go on.
    """
    root = root.rstrip("/")
    own = _rank_in(root, pid)
    found: dict[int, int] = {}
    for descendant in tree(pid, root)[1:]:
        rank = _rank_in(root, descendant)
        if rank is not None and rank != own:
            found.setdefault(rank, descendant)
    return found


def _rank_in(root: str, pid: int) -> int | None:
    try:
        with open(f"{root}/proc/{pid}/environ", "rb") as file:
            rank = procfs.environment(file.read()).get("RANK", "")
    except OSError:
        return None
    return int(rank) if rank.isdigit() else None
