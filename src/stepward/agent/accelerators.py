"""The accelerators of a node: all that talks to their driver, which may hang, in one thread of its own.

The driver is opened in that thread, too: an agent that starts on a node with a sick one beats all the same.
"""

import os
from collections.abc import Callable, Sequence
from typing import Any

from stepward.agent.checks.devices import DeviceChecks
from stepward.agent.checks.protocol import Check
from stepward.agent.checks.rounds import Rounds
from stepward.agent.jobs import Jobs
from stepward.collect.devices import Devices, Nvml, load_nvml, value_of
from stepward.collect.readings import Reading, Sample

DRIVER = "/dev/nvidiactl"


def has_driver(path: str = DRIVER) -> bool:
    """Whether this host has NVIDIA's driver loaded."""
    return os.path.exists(path)


class Accelerators:
    """Reads devices and looks at their checks; every method but ``rounds`` belongs to the thread that may hang.

    Args:
        keep: takes the readings of a moment, as rows.
        rounds_of: makes the rounds of some checks.
        described: is told the devices, once they are known.

    Attributes:
        rounds: None until the driver has answered for the first time.
    """

    def __init__(
        self,
        jobs: Jobs,
        *,
        keep: Callable[[Sequence[Reading]], None],
        rounds_of: Callable[[Sequence[Check]], Rounds],
        described: Callable[[list[dict[str, Any]]], None],
        load: Callable[[], Nvml | None] = load_nvml,
    ) -> None:
        self._jobs, self._keep, self._rounds_of, self._described, self._load = jobs, keep, rounds_of, described, load
        self._nvml: Nvml | None = None
        self._devices: Devices | None = None
        self.rounds: Rounds | None = None

    def sample(self) -> None:
        """Open the driver where it is not open yet, then read all devices."""
        devices = self._devices or self._opened()
        if devices is None or self._nvml is None:
            return
        sample = Sample()
        devices.sample(sample)
        self._keep(sample.readings)
        for name, used in self._memory_of_jobs(self._nvml, devices).items():
            self._keep([Reading(f"system/job/{name}/device_memory", "B", used)])

    def check(self, now: Callable[[], float]) -> bool:
        """Look with the checks that are due; whether any says another thing than before."""
        return self.rounds is not None and self.rounds.turn(now)

    def _opened(self) -> Devices | None:
        nvml = self._load()
        if nvml is None:
            return None
        self._nvml, self._devices = nvml, Devices(nvml, {})
        self._described(self._devices.describe())
        self.rounds = self._rounds_of(DeviceChecks(nvml, self._devices).checks())
        return self._devices

    def _memory_of_jobs(self, nvml: Nvml, devices: Devices) -> dict[str, float]:
        """Bytes of device memory by job, as the driver knows its processes."""
        used: dict[str, float] = {}
        for device in devices.present:
            for process in value_of(nvml.nvmlDeviceGetComputeRunningProcesses, device.handle) or ():
                job = self._jobs.job_of(process.pid)
                if job is not None:
                    used[job.name] = used.get(job.name, 0.0) + (process.usedGpuMemory or 0)
        return used
