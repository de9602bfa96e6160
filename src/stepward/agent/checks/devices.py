"""Accelerators, by NVML: whether each answers, its memory, heat, lanes and links.

What a device does not have (NVML answers "not supported") is not judged; a device that answers nothing is lost. A call
that hangs hangs the thread that makes it, which is told from outside (``driver_responds``, ``agent.worker``).
"""

from collections import deque
from collections.abc import Callable, Iterable

from stepward.agent.checks.protocol import Answer, Check, Severity, bad, ok, unknown
from stepward.collect.devices import THROTTLE_REASONS, Device, Devices, Nvml, value_of

MAX_LINKS = 18
"""NVLinks of a device (NVML_NVLINK_MAX_LINKS)."""
SLOW_MINUTES, WINDOW_MINUTES = 6, 10
"""Minutes of the window in which hardware slows a device down, from which on it counts (gpud: 0.6 a minute)."""
_SLOWDOWN_THRESHOLD = 1
_UNCORRECTED, _VOLATILE, _TEMPERATURE_GPU = 1, 0, 0
_SLOWED = THROTTLE_REASONS["hw_slowdown"] | THROTTLE_REASONS["hw_thermal"] | THROTTLE_REASONS["hw_power_brake"]
Judge = Callable[[Device], tuple[bool, str, float] | None]
"""Whether a device is bad, words for it, and the number; None where it does not say."""


class DeviceChecks:
    """The checks of the accelerators of one node."""

    def __init__(self, nvml: Nvml, devices: Devices) -> None:
        self._nvml, self._devices = nvml, devices.present
        self._links: dict[int, set[int]] = {}
        self._slow: dict[int, deque[bool]] = {}

    def checks(self) -> list[Check]:
        """All of them; none where there is no device."""
        if not self._devices:
            return []
        judged: list[tuple[str, Severity, Judge, float]] = [
            ("ecc_uncorrected", Severity.FATAL, self._ecc, 30.0),
            ("row_remap", Severity.FATAL, self._remap, 60.0),
            ("temperature", Severity.HIGH, self._temperature, 30.0),
            ("hw_slowdown", Severity.HIGH, self._slowdown, 60.0),
            ("pcie_width", Severity.HIGH, self._width, 60.0),
            ("nvlink", Severity.FATAL, self._nvlink, 30.0),
        ]
        found = [Check(name="devices_lost", severity=Severity.FATAL, look=self.lost, deadline_s=30.0, confirm=2)]
        for name, severity, judge, period in judged:
            look = _of_each(self._devices, judge)
            found.append(Check(name=name, severity=severity, look=look, period_s=period, deadline_s=30.0))
        return found

    def lost(self, now: float) -> Answer:
        """Whether every device that was there answers anything."""
        gone = [str(device.number) for device in self._devices if not self._answers(device)]
        return bad(f"device {', '.join(gone)} does not answer", len(gone)) if gone else ok(value=len(self._devices))

    def _answers(self, device: Device) -> bool:
        reads = (self._nvml.nvmlDeviceGetMemoryInfo, self._nvml.nvmlDeviceGetUtilizationRates)
        return any(value_of(read, device.handle) is not None for read in reads)

    def _ecc(self, device: Device) -> tuple[bool, str, float] | None:
        count = value_of(self._nvml.nvmlDeviceGetTotalEccErrors, device.handle, _UNCORRECTED, _VOLATILE)
        return None if count is None else (count > 0, f"{count} uncorrected ECC errors", count)

    def _remap(self, device: Device) -> tuple[bool, str, float] | None:
        rows = value_of(self._nvml.nvmlDeviceGetRemappedRows, device.handle)
        if rows is None:
            return None
        _corrected, _uncorrected, pending, failed = rows
        words = "a row remap failed: replace it" if failed else "a row remap is pending: reset it"
        return bool(pending or failed), words, _corrected + _uncorrected

    def _temperature(self, device: Device) -> tuple[bool, str, float] | None:
        degrees = value_of(self._nvml.nvmlDeviceGetTemperature, device.handle, _TEMPERATURE_GPU)
        limit = value_of(self._nvml.nvmlDeviceGetTemperatureThreshold, device.handle, _SLOWDOWN_THRESHOLD)
        if degrees is None or limit is None:
            return None
        return degrees >= limit, f"{degrees} °C of {limit} °C at which it slows down", degrees

    def _slowdown(self, device: Device) -> tuple[bool, str, float] | None:
        reasons = value_of(self._nvml.nvmlDeviceGetCurrentClocksThrottleReasons, device.handle)
        if reasons is None:
            return None
        seen = self._slow.setdefault(device.number, deque(maxlen=WINDOW_MINUTES))
        seen.append(bool(reasons & _SLOWED))
        words = f"slowed down by its hardware in {sum(seen)} of {len(seen)} looks, one a minute"
        return sum(seen) >= SLOW_MINUTES, words, sum(seen)

    def _width(self, device: Device) -> tuple[bool, str, float] | None:
        width = value_of(self._nvml.nvmlDeviceGetCurrPcieLinkWidth, device.handle)
        most = value_of(self._nvml.nvmlDeviceGetMaxPcieLinkWidth, device.handle)
        if width is None or most is None:
            return None
        return width < most, f"{width} PCIe lanes of {most}", width

    def _nvlink(self, device: Device) -> tuple[bool, str, float] | None:
        states = [value_of(self._nvml.nvmlDeviceGetNvLinkState, device.handle, link) for link in range(MAX_LINKS)]
        up = {link for link, state in enumerate(states) if state == 1}
        known = self._links.setdefault(device.number, set())
        known |= up
        if not known:
            return None
        down = sorted(known - up)
        return bool(down), f"NVLink {', '.join(map(str, down))} is down", len(up)


def _of_each(devices: Iterable[Device], judge: Judge) -> Callable[[float], Answer]:
    def look(now: float) -> Answer:
        told = [(device, found) for device in devices if (found := judge(device)) is not None]
        if not told:
            return unknown("no device says")
        wrong = [f"device {device.number}: {words}" for device, (is_bad, words, _) in told if is_bad]
        value = max(value for _, (_, _, value) in told)
        return bad("; ".join(wrong), value) if wrong else ok(value=value)

    return look
