"""Numbers of one metric in order, and the robust statistics that detectors build on.

Not a store: a series holds what one input said, in the order in which it said it.
"""

import math
import statistics
from collections.abc import Sequence

import msgspec

MAD_TO_SIGMA = 1.4826
"""Scale of the median absolute deviation of a normal distribution to its standard deviation."""


class Series(msgspec.Struct):
    """Samples of a metric; ``rank``, ``node`` and ``device`` are None where the input did not say."""

    name: str
    values: list[float]
    unit: str = ""
    rank: int | None = None
    node: str | None = None
    device: int | None = None

    @property
    def finite(self) -> list[float]:
        """The samples that are numbers."""
        return [value for value in self.values if math.isfinite(value)]


def median(values: Sequence[float]) -> float:
    """Median; NaN of nothing."""
    return statistics.median(values) if values else math.nan


def mad(values: Sequence[float]) -> float:
    """Median absolute deviation from the median, unscaled."""
    middle = median(values)
    return median([abs(value - middle) for value in values])


def thirds(values: Sequence[float]) -> tuple[list[float], list[float]]:
    """First and last third of a series, at least one sample each."""
    size = max(1, len(values) // 3)
    return list(values[:size]), list(values[-size:])
