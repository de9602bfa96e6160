"""Figures that benchmarks share: proportions with their intervals, and quantiles."""

import math
import statistics
from collections.abc import Sequence
from typing import Any


def wilson(right: int, total: int, z: float = 1.96) -> tuple[float, float]:
    """Interval of a proportion."""
    if not total:
        return math.nan, math.nan
    p = right / total
    centre, spread = p + z * z / (2 * total), z * math.sqrt(p * (1 - p) / total + z * z / (4 * total * total))
    return (centre - spread) / (1 + z * z / total), (centre + spread) / (1 + z * z / total)


def proportion(right: int, total: int) -> dict[str, Any]:
    """A proportion with its interval; null where there is nothing to count."""
    if not total:
        return {"right": right, "of": 0, "share": None, "wilson95": None}
    low, high = wilson(right, total)
    return {
        "right": right,
        "of": total,
        "share": round(right / total, 3),
        "wilson95": [round(max(0.0, low), 3), round(min(1.0, high), 3)],
    }


def quantiles(values: Sequence[float]) -> dict[str, float | None]:
    """Median and 95th percentile."""
    if not values:
        return {"p50": None, "p95": None}
    ordered = sorted(values)
    return {
        "p50": round(statistics.median(ordered), 1),
        "p95": round(ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))], 1),
    }


def calibration(answers: Sequence[tuple[float, bool]], bins: int = 5) -> dict[str, float | None]:
    """How far confidences are from how often they were right (in ``bins`` of equal width), and their Brier score."""
    if not answers:
        return {"calibration_error": None, "brier": None}
    parts: list[list[tuple[float, bool]]] = [[] for _ in range(bins)]
    for confidence, right in answers:
        parts[min(bins - 1, int(confidence * bins))].append((confidence, right))
    error = sum(abs(sum(right for _, right in part) - sum(confidence for confidence, _ in part)) for part in parts)
    brier = sum((confidence - right) ** 2 for confidence, right in answers)
    return {"calibration_error": round(error / len(answers), 3), "brier": round(brier / len(answers), 3)}
