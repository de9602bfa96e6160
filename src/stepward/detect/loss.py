"""Loss and gradient norm: not finite, spiked, diverged.

Known false positives: a loss that restarts from an older checkpoint looks like a spike of one segment; give each
attempt a series of its own.
"""

import math
from collections.abc import Sequence
from typing import Literal

from stepward.detect.series import mad, median

Verdict = Literal["non_finite", "divergence", "loss_spike", "ok", "unknown"]

SPIKE_MADS = 8.0
"""A spike is above median + 8 MAD of the last 200 samples."""
DIVERGED = 1.10
"""An end more than 10 % above the best smoothed loss has diverged; short series need ``SHORT_DIVERGED``."""
SHORT_DIVERGED = 2.0
LONG = 500


def judge_loss(values: Sequence[float]) -> Verdict:
    """What a loss series shows at its end.

    A value that is not finite counts only if the series does not return to numbers (a loss scaler skips single steps).
    Divergence: the median of the last fifth is above the best earlier fifth by 10 % over ``LONG`` samples or more, by
    100 % over fewer. A spike has come back at the end.
    """
    if not values:
        return "unknown"
    if not math.isfinite(values[-1]) or sum(not math.isfinite(value) for value in values[-5:]) >= 3:
        return "non_finite"
    finite = [value for value in values if math.isfinite(value)]
    if len(finite) < 4:
        return "unknown"
    size = max(1, len(finite) // 5)
    blocks = [median(finite[at : at + size]) for at in range(0, len(finite) - size + 1, size)]
    best, end = min(blocks[:-1], default=blocks[-1]), median(finite[-size:])
    if best > 0 and end > best * (DIVERGED if len(finite) >= LONG else SHORT_DIVERGED):
        return "divergence"
    window = finite[-200:]
    limit = median(window) + SPIKE_MADS * max(mad(window), 0.01 * abs(median(window)))
    # A run begins high: only what was below the limit before can spike above it.
    begun = next((at for at, value in enumerate(window) if value <= limit), len(window))
    return "loss_spike" if max(window[begun:], default=limit) > limit else "ok"
