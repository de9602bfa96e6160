"""The robust statistics that detectors build on."""

import math
import statistics
from collections.abc import Sequence

MAD_TO_SIGMA = 1.4826
"""Scale of the median absolute deviation of a normal distribution to its standard deviation."""


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
