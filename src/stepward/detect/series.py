"""The robust statistics that detectors build on."""

import math
import statistics
from collections.abc import Sequence
from itertools import combinations, pairwise

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


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least ``share`` of the values do not exceed; NaN of nothing."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)] if values else math.nan


def trimmed_mean(values: Sequence[float], share: float) -> float:
    """Mean without the lowest and the highest ``share`` of the values (below a half)."""
    cut = int(share * len(values))
    kept = sorted(values)[cut : len(values) - cut]
    return sum(kept) / len(kept)


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Theil-Sen: the median slope of all pairs of points whose first numbers differ; 0 where there is none."""
    slopes = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in combinations(points, 2) if b[0] != a[0]]
    return median(slopes) if slopes else 0.0


def correlation(values: Sequence[float]) -> float:
    """Correlation of each value with the next, between 0 and 0.95: what is negative or unknown counts as none."""
    if len(values) < 3:
        return 0.0
    mean = sum(values) / len(values)
    spread = sum((value - mean) ** 2 for value in values)
    if spread <= 0:
        return 0.0
    together = sum((a - mean) * (b - mean) for a, b in pairwise(values))
    return min(0.95, max(0.0, together / spread))
