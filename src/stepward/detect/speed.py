"""Step time and waits: slower than before, waiting for data, one rank behind the others."""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from stepward.detect.series import MAD_TO_SIGMA, mad, median, quantile, thirds

SLOWER = 1.05
"""A slowdown is confirmed from 5 % over the own baseline on, and beyond ``SIGMAS`` of its own spread."""
SIGMAS = 5.0
SIGMA_FLOOR = 0.005
"""Single steps are never taken to spread less than 0.5 %."""
DATA_WAIT_SHARE = 0.20
"""Waiting for data beyond 20 % of the step is input-bound."""
BEHIND = 1.10
"""A straggler's own time is 8 to 10 % above the median of all ranks, at a robust z of 4."""
BEHIND_OWN = 1.08
"""Where a rank's own past takes out the lasting differences between ranks, 8 % are enough."""
BEHIND_PEER = 1 / 0.75
"""Of two ranks, none of which is a median: NVRx flags a score below 0.75 of the best rank."""
BEHIND_Z = 4.0
RANK_FLOOR = 0.01
"""Ranks are never taken to be more equal than 1 %."""
MODES_APART = 0.2
MODE_SHARE = 0.1
"""Two modes: a gap in the sorted logs beyond 0.2 with at least a tenth of the ranks on either side."""
WAITS_LEAST = 0.34
"""In a synchronous step the culprit waits least: a third of the others' wait or less."""


class Slowdown(NamedTuple):
    """Ratio of the last third's median step time to the first third's."""

    before_s: float
    after_s: float

    @property
    def ratio(self) -> float:
        """How much slower; 1 is no change."""
        return self.after_s / self.before_s


def slowdown(step_s: Sequence[float]) -> Slowdown | None:
    """Whether steps became slower; None if not, or with fewer than four steps.

    Signal: step time of one rank. Method: medians of the first and last third against the spread of the first.
    The first step is left out where it is the slowest (compilation, warm-up).
    """
    steps = [value for value in step_s if value > 0]
    if len(steps) > 4 and steps[0] == max(steps):
        steps = steps[1:]
    if len(steps) < 4:
        return None
    first, last = thirds(steps)
    before, after = median(first), median(last)
    sigma = max(MAD_TO_SIGMA * mad(first), SIGMA_FLOOR * before)
    return Slowdown(before, after) if after > before * SLOWER and after > before + SIGMAS * sigma else None


def data_wait_share(step_s: Sequence[float], wait_s: Sequence[float]) -> float | None:
    """Share of the time that steps wait for data, over all steps given: stalls may be periodic."""
    total = sum(step_s)
    return min(1.0, sum(wait_s) / total) if total > 0 and wait_s else None


def outliers(logs: Mapping[int, float], least: float, z: float) -> dict[int, float]:
    """Ranks far above the others, and by how much: ``least`` and ``z`` robust deviations above their median.

    Args:
        logs: rank -> logarithm of its time.

    Where the ranks fall into two modes the median tells nothing: then the lower quartile is the reference and the lower
    mode gives the spread (measured on real mini-batch times, where half of the workers were slow).
    """
    values = sorted(logs.values())
    middle, near = median(values), values
    gap, at = max(((b - a, at) for at, (a, b) in enumerate(pairwise(values), 1)), default=(0.0, 0))
    if gap > MODES_APART and min(at, len(values) - at) >= max(2, MODE_SHARE * len(values)):
        middle, near = quantile(values, 0.25), values[:at]
    sigma = max(MAD_TO_SIGMA * mad(near), RANK_FLOOR)
    return {
        rank: value - middle for rank, value in logs.items() if value - middle >= least and value - middle >= z * sigma
    }


def behind(own_s: Mapping[int, float]) -> list[int]:
    """Ranks whose own time stands out, by the median and MAD over ranks (floor 1 %); needs three ranks."""
    if len(own_s) < 3 or min(own_s.values()) <= 0:
        return []
    logs = {rank: math.log(value) for rank, value in own_s.items()}
    return sorted(outliers(logs, math.log(BEHIND), BEHIND_Z))


def waits_least(wait_s: Mapping[int, float]) -> list[int]:
    """Ranks that hardly wait for the others while the others wait for them; fewer than half of the ranks."""
    if len(wait_s) < 2:
        return []
    most = median(sorted(wait_s.values())[len(wait_s) // 2 :])
    found = sorted(rank for rank, value in wait_s.items() if value <= most * WAITS_LEAST)
    return found if most > 0 and len(found) * 2 <= len(wait_s) else []
