"""Numbers, moments and durations as people read them; programs get the exact ones through JSON and CSV."""

import math
from collections.abc import Sequence
from datetime import UTC, datetime

from stepward.model.resources import Number

_BARS = "▁▂▃▄▅▆▇█"
_MINUTE, _HOUR, _DAY = 60.0, 3600.0, 86400.0


def figure(value: Number | None) -> str:
    """A value in five digits; not a number stays ``NaN``, missing is ``-``."""
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    if value == int(value) and abs(value) < 1e15:
        return "-0" if value == 0 and math.copysign(1, value) < 0 else str(int(value))
    return f"{value:.5g}"


def size(count: float) -> str:
    """Bytes with a binary unit: ``1.5 MiB``."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(count) < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def seconds_of(instant: str) -> float:
    """Seconds since the epoch of an instant of the API."""
    return datetime.fromisoformat(instant).astimezone(UTC).timestamp()


def lasting(seconds: float) -> str:
    """A duration: ``850 ms``, ``12 s``, ``3 min 05 s``, ``2 h 07 min``, ``3 d 04 h``."""
    if seconds < 1:
        return f"{max(seconds, 0) * 1000:.0f} ms"
    if seconds < _MINUTE:
        return f"{int(seconds)} s"
    if seconds < _HOUR:
        return f"{int(seconds // _MINUTE)} min {int(seconds % _MINUTE):02d} s"
    if seconds < _DAY:
        return f"{int(seconds // _HOUR)} h {int(seconds % _HOUR // _MINUTE):02d} min"
    return f"{int(seconds // _DAY)} d {int(seconds % _DAY // _HOUR):02d} h"


def ago(instant: str | None, now: float) -> str:
    """How long before ``now`` (seconds since the epoch) an instant was; a clock ahead of ours gives ``in ...``."""
    if instant is None:
        return "-"
    past = now - seconds_of(instant)
    if abs(past) < 1:
        return "now"
    words = lasting(abs(past)).split(" ")
    rough = " ".join(words[:2])
    return f"{rough} ago" if past > 0 else f"in {rough}"


def between(start: str | None, end: str | None, now: float) -> str:
    """How long something lasted, or lasts until ``now``."""
    if start is None:
        return "-"
    return lasting((seconds_of(end) if end else now) - seconds_of(start))


def sparkline(values: Sequence[float | None]) -> str:
    """A line of bars from the lowest to the highest value; a gap stays blank."""
    finite = [value for value in values if value is not None and math.isfinite(value)]
    if not finite:
        return ""
    low, high = min(finite), max(finite)
    # Halved before subtracting: the distance of two float64 may be beyond float64.
    span = (high / 2 - low / 2) or 1.0
    return "".join(
        _bar((value / 2 - low / 2) / span) if value is not None and math.isfinite(value) else " " for value in values
    )


def _bar(share: float) -> str:
    return _BARS[min(int(share * len(_BARS)), len(_BARS) - 1)]
