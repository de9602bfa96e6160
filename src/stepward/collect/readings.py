"""One sampled value, and the memory that turns the kernel's counters into rates and counts.

A counter says something only against an earlier look at it, so the first sample has no rates. A counter that goes back
(device reset, wrapped, another process under the same pid) gives no value for that sample instead of a wrong one.
"""

import msgspec


class Reading(msgspec.Struct, frozen=True):
    """One value of one sample.

    Attributes:
        metric: ``system/<subject>/<what>``.
        unit: ``%``, ``B``, ``B/s``, ``W``, ``°C``, ``MHz``; empty for plain numbers.
        value: never made up: a value that could not be read has no reading.
        device: NVML index of the accelerator on its node; None for everything else.
        rank: the rank whose part of a whole it is; None for the whole and everything else.
    """

    metric: str
    unit: str
    value: float
    device: int | None = None
    rank: int | None = None


class Counters:
    """The last look at each counter."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[float, float]] = {}
        self._totals: dict[str, float] = {}

    def rate(self, key: str, value: float, now: float) -> float | None:
        """Growth of ``value`` per second since the last look, None for the first look or a counter that went back.

        Args:
            now: monotonic seconds.
        """
        last = self._last.get(key)
        self._last[key] = (value, now)
        if last is None or value < last[0] or now <= last[1]:
            return None
        return (value - last[0]) / (now - last[1])

    def total(self, key: str, value: float) -> float:
        """Growth of ``value`` since the first look, over resets of the counter."""
        last = self._last.get(key, (value, 0.0))[0]
        self._last[key] = (value, 0.0)
        grown = self._totals.get(key, 0.0) + (value - last if value >= last else value)
        self._totals[key] = grown
        return grown


class Sample:
    """Collects the readings of one moment; None is left out."""

    def __init__(self) -> None:
        self.readings: list[Reading] = []

    def add(
        self, metric: str, unit: str, value: float | None, device: int | None = None, rank: int | None = None
    ) -> None:
        """Add a reading where there is a value."""
        if value is not None:
            self.readings.append(Reading(metric, unit, float(value), device, rank))


def read_text(path: str) -> str | None:
    """The content of a file of ``/proc`` or ``/sys``, None where it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read().decode("utf-8", "replace")
    except OSError:
        return None
