"""By which signals a fault can be seen at all: those that differ from the same run without it.

Every purpose has a random stream of its own, so that two runs that differ in one fault differ in what it does alone.
"""

import math
from collections import defaultdict
from collections.abc import Hashable, Iterable

from stepward.detect.signals import Checkpoint, Heartbeat, Sample, Step, Tick
from stepward.testing.simulator.truth import Fault
from stepward.testing.simulator.voice import Text

DIFFERS, SIGMAS = 0.03, 3.0
"""Relative change of a mean that shows, and how many of its standard errors it must be: noise itself is no trace. The
error is that of the differences pair by pair, since both runs share their noise."""
FEWER = 0.7
"""Of so few of the signals that should have come, the others are missing."""
MISSED = 5
"""Fewer than so many say nothing by their number."""
_STEADY = frozenset({"progress", "heartbeat"}) | {
    f"system/{name}" for name in ("process/rss", "host/cpu", "device/power", "device/temperature")
}
"""Signals that come all the time, so that their absence means something."""
_SINGLE = frozenset({"AttemptEnded", "RankEnded", "Waited", "stopped", "line:log", "line:kernel", "line:scheduler"})
"""Signals of which one more or less means something."""


class Traces:
    """What was heard in a window of time: a mean and a count of each kind of signal and of each rank, device or node."""

    def __init__(self, items: Iterable[object], begin: int, end: int) -> None:
        self._values: dict[str, dict[Hashable, list[float]]] = defaultdict(lambda: defaultdict(list))
        for item in items:
            time: int = item[0]  # type: ignore[index]
            if begin <= time <= end:
                self._take(item)

    def _take(self, item: object) -> None:
        seen = self._values
        if isinstance(item, Step):
            seen["progress"][item.rank].append(1.0)
            seen["step_time"][item.rank].append(item.duration_s)
            for phase, seconds in item.phases.items():
                seen[f"phase:{phase}"][item.rank].append(seconds)
        elif isinstance(item, Sample):
            who = item.rank if item.rank is not None else (item.node, item.device)
            seen[item.metric][who].append(item.value)
        elif isinstance(item, Heartbeat):
            seen["stopped" if item.stopped else "heartbeat"][item.rank].append(1.0)
        elif isinstance(item, Text):
            seen[f"line:{item.source}"][item.rank if item.rank is not None else (item.node, None)].append(1.0)
        elif isinstance(item, Checkpoint):
            if item.blocking_s is not None:
                seen["checkpoint"][item.rank].append(item.blocking_s)
        elif not isinstance(item, Tick):
            seen[type(item).__name__][getattr(item, "rank", None)].append(1.0)

    def changes(self, without: "Traces") -> dict[str, dict[Hashable, float]]:
        """Kind of signal -> rank, device or node -> how much it differs from the run without (1 = wholly)."""
        found: dict[str, dict[Hashable, float]] = {}
        for channel in {*self._values, *without._values}:
            mine, other = self._values.get(channel, {}), without._values.get(channel, {})
            found[channel] = {
                who: _change(channel, mine.get(who) or [], other.get(who) or []) for who in {*mine, *other}
            }
        return found


def _change(channel: str, mine: list[float], other: list[float]) -> float:
    """How much a series differs: by what is missing in it, by what is new, or in its mean over what both have."""
    if len(other) >= MISSED and len(mine) < FEWER * len(other) and channel in _STEADY:
        return 1.0 - len(mine) / len(other)
    if channel in _SINGLE:
        return 1.0 if mine and not other else 0.0
    if any(math.isfinite(a) != math.isfinite(b) for a, b in zip(mine, other, strict=False)):
        return 1.0
    pairs = [(a, b) for a, b in zip(mine, other, strict=False) if math.isfinite(a)]
    if not pairs:
        return 0.0
    apart = [a - b for a, b in pairs]
    mean = math.fsum(apart) / len(apart)
    error = math.sqrt(math.fsum((one - mean) ** 2 for one in apart) / max(1, len(apart) - 1) / len(apart))
    scale = max(math.fsum(abs(a) for a, _ in pairs), math.fsum(abs(b) for _, b in pairs)) / len(pairs)
    return abs(mean) / scale if scale and abs(mean) > SIGMAS * error else 0.0


def traced(fault: Fault, changes: dict[str, dict[Hashable, float]], struck: set[Hashable]) -> Fault:
    """The fault with the signals that show it, and those in which the struck stand out from all others."""
    shows = tuple(sorted(name for name, by in changes.items() if max(by.values(), default=0.0) > DIFFERS))
    tells = []
    for name in shows:
        inside = [change for who, change in changes[name].items() if who in struck]
        outside = [change for who, change in changes[name].items() if who not in struck]
        if inside and min(inside) > DIFFERS and min(inside) > 2 * max(outside, default=0.0):
            tells.append(name)
    fault.detectable_by, fault.localised_by = shows, tuple(tells)
    return fault
