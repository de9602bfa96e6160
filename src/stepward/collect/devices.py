"""Accelerators of this node, one reading a device: NVIDIA through NVML where ``pynvml`` can be imported, else none.

Only devices that ``CUDA_VISIBLE_DEVICES`` leaves to the run are read, so that a shared node does not mix jobs; their
number is NVML's, which is the node's. A value that a device does not have is missing. A device that fails is dropped
from the sample and counted; it is asked again next time. ``utilization`` is the share of time in which any kernel ran:
it says busy or idle, not efficient.
"""

import os
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from stepward.collect.readings import Sample

THROTTLE_REASONS = {
    "power_cap": 0x4,
    "hw_slowdown": 0x8,
    "sw_thermal": 0x20,
    "hw_thermal": 0x40,
    "hw_power_brake": 0x80,
}
"""Bits of NVML's clocks event reasons that cost speed (idle and set clocks do not); from nvml.h."""

_TEMPERATURE_GPU, _CLOCK_SM, _CLOCK_MEMORY = 0, 1, 2
_CORRECTED, _UNCORRECTED, _VOLATILE = 0, 1, 0


class Nvml(Protocol):
    """The functions of ``pynvml`` that are used, under its names; each raises on failure."""

    nvmlSystemGetDriverVersion: Callable[[], Any]
    nvmlDeviceGetCount: Callable[[], int]
    nvmlDeviceGetHandleByIndex: Callable[[int], Any]
    nvmlDeviceGetUUID: Callable[[Any], Any]
    nvmlDeviceGetName: Callable[[Any], Any]
    nvmlDeviceGetUtilizationRates: Callable[[Any], Any]
    nvmlDeviceGetMemoryInfo: Callable[[Any], Any]
    nvmlDeviceGetPowerUsage: Callable[[Any], int]
    nvmlDeviceGetTemperature: Callable[[Any, int], int]
    nvmlDeviceGetClockInfo: Callable[[Any, int], int]
    nvmlDeviceGetCurrentClocksThrottleReasons: Callable[[Any], int]
    nvmlDeviceGetTotalEccErrors: Callable[[Any, int, int], int]
    nvmlDeviceGetRemappedRows: Callable[[Any], Any]
    nvmlDeviceGetTemperatureThreshold: Callable[[Any, int], int]
    nvmlDeviceGetCurrPcieLinkWidth: Callable[[Any], int]
    nvmlDeviceGetMaxPcieLinkWidth: Callable[[Any], int]
    nvmlDeviceGetNvLinkState: Callable[[Any, int], int]
    nvmlDeviceGetComputeRunningProcesses: Callable[[Any], Any]


class Device(NamedTuple):
    """An accelerator: NVML's index on the node, and names that survive a reboot."""

    number: int
    uuid: str
    name: str
    handle: Any


def load_nvml() -> Nvml | None:
    """NVML of this node, None where there is no driver or no ``pynvml``."""
    try:
        import pynvml

        pynvml.nvmlInit()
    except Exception:
        return None
    loaded: Nvml = pynvml
    return loaded


def is_visible(index: int, uuid: str, visible: str | None) -> bool:
    """Whether ``CUDA_VISIBLE_DEVICES`` leaves the device to the run (unset: all; the list ends at the first bad entry).

    A MIG instance names its own UUID, not its device's: such a list leaves no whole device to read.
    """
    if visible is None:
        return True
    for entry in (part.strip() for part in visible.split(",")):
        if entry.isdigit():
            if int(entry) == index:
                return True
        elif not entry.startswith("GPU-"):
            return False
        elif uuid.startswith(entry):
            return True
    return False


class Devices:
    """Reads the accelerators that the run may use.

    Args:
        nvml: None for a node without.
        environ: where ``CUDA_VISIBLE_DEVICES`` is looked up.
    """

    def __init__(self, nvml: Nvml | None, environ: Mapping[str, str] = os.environ) -> None:
        self._nvml = nvml
        self._devices = _find(nvml, environ.get("CUDA_VISIBLE_DEVICES")) if nvml is not None else []
        self.failed = 0

    @property
    def present(self) -> list[Device]:
        """The devices that were there at the start."""
        return self._devices

    def describe(self) -> list[dict[str, Any]]:
        """The devices for the system tree of the configuration."""
        if self._nvml is None:
            return []
        driver = _text(value_of(self._nvml.nvmlSystemGetDriverVersion))
        found = []
        for device in self._devices:
            memory = value_of(self._nvml.nvmlDeviceGetMemoryInfo, device.handle)
            entry = {"device": device.number, "uuid": device.uuid, "name": device.name, "driver": driver}
            found.append(entry | {"memory_total": memory and int(memory.total)})
        return found

    def sample(self, sample: Sample) -> None:
        """Add the readings of this moment; ``failed`` counts the devices that gave none."""
        self.failed = 0
        for device in self._devices:
            before = len(sample.readings)
            self._sample_device(sample, device)
            self.failed += len(sample.readings) == before
        if self.failed:
            sample.add("system/devices_failed", "", self.failed)

    def _sample_device(self, sample: Sample, device: Device) -> None:
        nvml, handle = self._nvml, device.handle
        assert nvml is not None
        rates = value_of(nvml.nvmlDeviceGetUtilizationRates, handle)
        memory = value_of(nvml.nvmlDeviceGetMemoryInfo, handle)
        power = value_of(nvml.nvmlDeviceGetPowerUsage, handle)
        values = [
            ("utilization", "%", rates and rates.gpu),
            ("memory_utilization", "%", rates and rates.memory),
            ("memory_used", "B", memory and memory.used),
            ("memory_total", "B", memory and memory.total),
            ("power", "W", None if power is None else power / 1000.0),
            ("temperature", "°C", value_of(nvml.nvmlDeviceGetTemperature, handle, _TEMPERATURE_GPU)),
            ("clock_sm", "MHz", value_of(nvml.nvmlDeviceGetClockInfo, handle, _CLOCK_SM)),
            ("clock_memory", "MHz", value_of(nvml.nvmlDeviceGetClockInfo, handle, _CLOCK_MEMORY)),
            ("ecc_corrected", "", value_of(nvml.nvmlDeviceGetTotalEccErrors, handle, _CORRECTED, _VOLATILE)),
            ("ecc_uncorrected", "", value_of(nvml.nvmlDeviceGetTotalEccErrors, handle, _UNCORRECTED, _VOLATILE)),
        ]
        reasons = value_of(nvml.nvmlDeviceGetCurrentClocksThrottleReasons, handle)
        if reasons is not None:
            values += [(f"throttle_{name}", "", bool(reasons & bit)) for name, bit in THROTTLE_REASONS.items()]
        for name, unit, value in values:
            sample.add(f"system/device/{name}", unit, value, device.number)


def _find(nvml: Nvml, visible: str | None) -> list[Device]:
    found = []
    for number in range(value_of(nvml.nvmlDeviceGetCount) or 0):
        handle = value_of(nvml.nvmlDeviceGetHandleByIndex, number)
        if handle is None:
            continue
        uuid = _text(value_of(nvml.nvmlDeviceGetUUID, handle))
        if is_visible(number, uuid, visible):
            found.append(Device(number, uuid, _text(value_of(nvml.nvmlDeviceGetName, handle)), handle))
    return found


def value_of(read: Callable[..., Any], *arguments: Any) -> Any:
    """What ``read`` gives, None for anything that it raises: each device lacks something, and a sick one lacks all."""
    try:
        return read(*arguments)
    except Exception:
        return None


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value or "")
