"""What the ``gather`` thread does: the trees of the configuration once, then samples of the node.

Trees come from rank 0 (software) and from one rank a host (system); samples from one rank a host, and only where no
wrapper samples already.
"""

import os
import threading
import time
from collections.abc import Callable

from stepward.model.frames import Config
from stepward.orchestrators.protocol import Identity
from stepward.sdk import trees
from stepward.spool.journal import Journal

LOOK_S = 10.0
"""Pause between two looks for frameworks that were loaded, where nothing is sampled."""


class Gatherer:
    """Gathers for one run.

    Args:
        journal: where configuration and samples go.
        who: the identity once ranks have agreed; None as long as they have not.
        sampling: whether this process samples at all.

    Attributes:
        described: set when the trees are journaled; the end of a short run waits for it a moment.
    """

    def __init__(self, journal: Journal, who: Callable[[], Identity | None], *, sampling: bool) -> None:
        self._journal, self._who, self._sampling = journal, who, sampling
        self.described = threading.Event()
        self._known: set[str] = set()

    def run(self, stopped: threading.Event) -> None:
        """Gather until ``stopped``."""
        me = self._wait_for_identity(stopped)
        if me is None:
            return
        one_of_host = me.local_rank in (0, None)
        if me.rank == 0:
            self._emit(Config(software=trees.software()))
        if one_of_host:
            self._emit(Config(system=trees.system(me.node)))
        self.described.set()
        if one_of_host and self._sampling:
            self._sample(me, stopped)
        while me.rank == 0 and not stopped.wait(LOOK_S):
            self.frameworks()

    def frameworks(self) -> None:
        """Tell the frameworks that were loaded since the last look."""
        found = trees.frameworks()
        if set(found) - self._known:
            self._known |= set(found)
            self._emit(Config(software={"frameworks": found}))

    def _wait_for_identity(self, stopped: threading.Event) -> Identity | None:
        while not stopped.is_set():
            me = self._who()
            if me is not None:
                return me
            stopped.wait(0.1)
        return None

    def _sample(self, me: Identity, stopped: threading.Event) -> None:
        # Imported on use: readers of the node are needed where no wrapper samples.
        from stepward.collect.sampler import PERIOD_S, Sampler, sample_step

        sampler = Sampler({me.rank: os.getpid()})
        while not stopped.is_set():
            readings, at = sampler.sample(), time.time_ns() // 1000
            if readings:
                keyset = self._journal.define([(one.metric, one.unit, one.device, one.rank) for one in readings])
                self._journal.row(keyset, sample_step(at), at, [one.value for one in readings])
            if me.rank == 0:
                self.frameworks()
            stopped.wait(PERIOD_S)

    def _emit(self, config: Config) -> None:
        self._journal.emit("config", config)
