"""All readings of one moment: host, cgroup, processes, devices.

One sampler belongs to one thread. A reader that fails is left out of that sample; the others are not harmed. The wrapper
samples for its ranks, else local rank 0 of the SDK does (``STEPWARD_WRAPPER`` tells which).
"""

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence

from stepward.collect import cgroup as cgroups
from stepward.collect.devices import Devices, Nvml, load_nvml
from stepward.collect.host import Host
from stepward.collect.portable import Portable
from stepward.collect.process import Processes
from stepward.collect.readings import Reading, Sample

PERIOD_S = 10.0
"""Seconds between two samples: fine enough for a stall of one heartbeat's length to show in its neighbours."""


def sample_step(time_us: int) -> int:
    """Step of the points of a sample: periods since the epoch, so that a later attempt goes on where one has ended."""
    return int(time_us // (PERIOD_S * 1_000_000))


class Sampler:
    """Samples a node for a run.

    Args:
        pids: roots of the run's process trees, by rank or in rank order; this process where empty.
        cgroup: the cgroup to read; that of the first pid where None.
        places: label -> path whose file systems matter (default: the working folder).
        nvml: replaces the node's NVML.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        pids: Mapping[int, int] | Sequence[int] = (),
        *,
        cgroup: cgroups.Cgroup | None = None,
        places: Mapping[str, str] | None = None,
        nvml: Nvml | None = None,
        environ: Mapping[str, str] = os.environ,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        trees = dict(pids) if isinstance(pids, Mapping) else dict(enumerate(pids))
        trees = trees or {0: os.getpid()}
        self._clock = clock
        self.devices = Devices(nvml or load_nvml(), environ)
        self._processes = Processes(trees)
        self._readers: list[Callable[[Sample, float], None]] = []
        if sys.platform == "linux":
            self._readers += [Host(places or {"work": os.getcwd()}).sample, self._processes.sample]
            found = cgroup or cgroups.locate(next(iter(trees.values())))
            if found is not None:
                self._readers.append(cgroups.CgroupReader(found).sample)
        else:
            portable = Portable(trees.values())
            self._readers.append(lambda sample, now: portable.sample(sample))
        self._readers.append(lambda sample, now: self.devices.sample(sample))

    def watch(self, trees: Mapping[int, int]) -> None:
        """From now on the run's process trees are these (rank -> pid)."""
        self._processes.trees = dict(trees)

    def sample(self) -> list[Reading]:
        """The readings of this moment; the first sample has no rates."""
        sample, now = Sample(), self._clock()
        for read in self._readers:
            try:
                read(sample, now)
            except Exception:
                continue
        return sample.readings
