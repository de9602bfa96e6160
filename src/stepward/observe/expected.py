"""What earlier runs of the same configuration let expect of a run."""

import math
from collections.abc import Callable
from functools import partial

from stepward.detect.scene import Expected
from stepward.detect.series import MAD_TO_SIGMA, mad, median
from stepward.store.catalog.detected import DetectedEvents

LEAST_RUNS = 3
"""Fewer earlier runs are no norm."""


def expected_of(catalog: DetectedEvents, run: str) -> Callable[[], Expected]:
    """What detectors may ask for when they have learned the run's own pace: its configuration is known by then."""
    return partial(_expected, catalog, run)


def _expected(catalog: DetectedEvents, run: str) -> Expected:
    logs = [math.log(pace) for pace in catalog.earlier_paces(run)]
    if len(logs) < LEAST_RUNS:
        return Expected()
    return Expected(step_s=math.exp(median(logs)), step_sigma=MAD_TO_SIGMA * mad(logs))
