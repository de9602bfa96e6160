"""Use of devices, memory and disks against the limits from which on a person should know."""

from collections.abc import Sequence
from itertools import pairwise

from stepward.detect.series import median

DUTY_LOW = 0.50
"""Below half its time at work an accelerator waits for something."""
DUTY_BACK = 0.70
"""Above this for two minutes it no longer does (thresholds 5)."""
HOST_BUSY = 0.80
"""From here on a host's processors are what is short (ours; a training host is mostly below a half)."""
DUTY_DROP = 0.15
"""Duty cycle 15 % below one's own baseline has degraded."""
IDLE_DUTY = 0.05
"""Below 5 % for ten minutes an accelerator is allocated and not used."""
NEARLY_FULL = 0.97
HOT_C = 85.0
"""Data-centre devices slow down a few degrees above this."""
CLOCK_LOST = 0.90
"""Clocks below 90 % of their own past or of the other devices' are held down."""


def share(values: Sequence[float], unit: str = "") -> float:
    """Median as a share of one: percent are divided by 100 (by unit, or by being above 1.5)."""
    middle = median(values)
    return middle / 100 if unit.strip() == "%" or middle > 1.5 else middle


def grows_to_limit(values: Sequence[float], limit: float) -> bool:
    """Whether a memory series rises over its whole length and ends within 10 % of its limit."""
    if len(values) < 4 or limit <= 0:
        return False
    rising = sum(after >= before for before, after in pairwise(values))
    return rising >= 0.8 * (len(values) - 1) and values[-1] > values[0] * 1.2 and values[-1] >= 0.9 * limit
