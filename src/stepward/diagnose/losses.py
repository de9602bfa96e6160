"""Courses of loss and gradient norm: a loss that rises for good, and one that jumped and came back.

A course is thinner than the steps that it was taken from, so that the streaming detector's counts of steps mean nothing
here; its thresholds do. All ranks of a job share a loss: the lowest rank that logs one speaks.
"""

import math
from collections.abc import Iterator, Sequence

from stepward.detect.detectors.loss import FLOOR, LEAST, PLAIN_TIMES
from stepward.detect.loss import DIVERGED, SPIKE_MADS
from stepward.detect.series import mad, median
from stepward.diagnose.clues import Clue, Kind, Role, clue
from stepward.diagnose.figures import Statement

TREND = 5
"""A value is compared with the median of so many before it."""
PARTS = 6
"""The end is the last sixth; it must lie as high as the sixth before it, or higher, to count as a level."""
SPREADS = 4.0
"""An end is above the best by more than its own values scatter, in MADs."""


def loss_clues(statements: Sequence[Statement]) -> Iterator[Clue]:
    """What the course of the loss says by itself."""
    losses = [one for one in statements if one.metric == "loss"]
    if not losses:
        return
    one = min(losses, key=lambda loss: (loss.rank is None, loss.rank or 0))
    values = [value for value in one.values if math.isfinite(value) and value > 0]
    if len(values) < LEAST or len(values) < len(one.values):
        return
    if risen := _risen(values):
        yield _clue(one, Role.ROOT, 0.0, f"the loss rises: {risen[1]:.4g}, and was {risen[0]:.4g}")
    elif jump := _jump(values):
        yield _clue(one, Role.EITHER, 0.6, f"the loss jumped to {jump[1]:.4g}, where {jump[0]:.4g} was usual")


def _risen(values: Sequence[float]) -> tuple[float, float] | None:
    """Best level and the level at the end, where the end is 10 % above (as for the detector), and stays there."""
    size = len(values) // PARTS
    parts = [values[at * size : (at + 1) * size] for at in range(PARTS - 1)] + [values[(PARTS - 1) * size :]]
    levels = [median(part) for part in parts]
    best, end = min(levels[:-1]), levels[-1]
    scatter = max(mad(part) for part in parts[1:])
    lasts = levels[-2] > best * DIVERGED or levels[-2] == best
    return (best, end) if end > best * DIVERGED and end > best + SPREADS * scatter and lasts else None


def _jump(values: Sequence[float]) -> tuple[float, float] | None:
    """Trend and height of the highest value that stands out of the course as a spike does for the detector."""
    above = [math.log(value / median(values[at - TREND : at])) for at, value in enumerate(values) if at >= TREND]
    limit = max(SPIKE_MADS * max(mad(above), FLOOR), math.log(PLAIN_TIMES))
    at = max(range(len(above)), key=lambda one: above[one])
    return (median(values[at : at + TREND]), values[at + TREND]) if above[at] > limit else None


def _clue(one: Statement, role: Role, more: float, says: str) -> Clue:
    return clue("course_loss", "numerics_nan", Kind.METRICS, one.line, says, text=one.text, role=role, more=more)
