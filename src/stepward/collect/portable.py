"""Readings where there is no ``/proc`` (macOS), through psutil if it is installed; else none.

A few host and process values, under the same names as on Linux.
"""

from collections.abc import Iterable
from typing import Any

from stepward.collect.readings import Sample


class Portable:
    """Reads host and processes by psutil."""

    def __init__(self, pids: Iterable[int]) -> None:
        self._psutil = _load_psutil()
        self._pids = list(pids)

    def sample(self, sample: Sample) -> None:
        """Add the readings of this moment."""
        psutil = self._psutil
        if psutil is None:
            return
        memory = psutil.virtual_memory()
        sample.add("system/host/cpu", "%", psutil.cpu_percent(interval=None))
        sample.add("system/host/memory_used", "B", memory.total - memory.available)
        sample.add("system/host/memory_total", "B", memory.total)
        sample.add("system/host/swap_used", "B", psutil.swap_memory().used)
        sizes = [size for size in map(self._rss, self._pids) if size is not None]
        sample.add("system/process/rss", "B", sum(sizes) if sizes else None)

    def _rss(self, pid: int) -> int | None:
        assert self._psutil is not None
        try:
            return int(self._psutil.Process(pid).memory_info().rss)
        except self._psutil.Error:
            return None


def _load_psutil() -> Any:
    try:
        import psutil
    except ImportError:
        return None
    return psutil
