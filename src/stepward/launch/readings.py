"""One thread that samples node and processes while an attempt runs.

It is apart from the loop that reaps and beats, since a sick driver or a dead file server may hold it up. It also finds
the ranks that a launcher below has started, and tells the watches.
"""

import math
import threading
import time
from typing import Any

from stepward.collect.process import ranks_below
from stepward.collect.sampler import PERIOD_S, Sampler, sample_step
from stepward.launch.notes import guarded
from stepward.launch.record import Record, now_us
from stepward.launch.watch import Watch
from stepward.model.frames import Config

LOOK_S = 1.0
"""Pause between two looks for new ranks."""


class Readings(threading.Thread):
    """Samples until it is stopped.

    Args:
        watches: rank -> watch of its process.
        launcher: whether the one process may itself have started ranks.
        samples: whether readings are taken; ranks are looked for in any case.
    """

    def __init__(self, record: Record, watches: dict[int, Watch], *, launcher: bool, samples: bool) -> None:
        super().__init__(name="stepward-readings", daemon=True)
        self._record, self._watches, self._launcher, self._samples = record, watches, launcher, samples
        self._over = threading.Event()
        self._seen: dict[int, int] = {}

    def run(self) -> None:
        """Sample once a period."""
        trees = {rank: watch.pid for rank, watch in self._watches.items()}
        sampler = guarded("sampling", lambda: Sampler(trees), None)
        if sampler is None:
            return
        devices: list[dict[str, Any]] = guarded("describing devices", sampler.devices.describe, [])
        if devices and self._samples:
            self._record.config(Config(system={"devices": devices}))
        sample_at = 0.0 if self._samples else math.inf
        while not self._over.is_set():
            if self._launcher:
                guarded("finding ranks", lambda: self._find_ranks(sampler), None)
            if time.monotonic() >= sample_at:
                sample_at = time.monotonic() + PERIOD_S
                guarded("sampling", lambda: self._sample(sampler), None)
            self._over.wait(LOOK_S)

    def stop(self) -> None:
        """Sample no more; does not wait for a sample that hangs."""
        self._over.set()

    def _sample(self, sampler: Sampler) -> None:
        readings, at = sampler.sample(), now_us()
        if not self._over.is_set():
            self._record.readings(readings, sample_step(at), at)

    def _find_ranks(self, sampler: Sampler) -> None:
        """Look for ranks below wherever the watch has seen new processes."""
        for watch in self._watches.values():
            seen = len(watch.pids)
            if seen == self._seen.get(watch.pid):
                continue
            self._seen[watch.pid] = seen
            watch.ranks = ranks_below(watch.pid)
            if len(watch.ranks) > 1:
                sampler.watch(watch.ranks)
