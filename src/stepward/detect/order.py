"""Signals in the order of their times, though they come a little out of it; and deadlines between them.

The order of release depends on the signals alone, not on how they came: by time, and at one instant by kind and content. So
a live run and its replay see the same. Deadlines are instants of the signals' time too: one fires when the released time
has passed it, after every signal up to that instant, however many ticks there were.
"""

import heapq
from bisect import bisect_right
from collections.abc import Callable, Iterator
from operator import itemgetter
from typing import Any

from stepward.detect.signals import (
    AttemptEnded,
    AttemptStarted,
    Checkpoint,
    Heartbeat,
    Hit,
    PhaseBegan,
    PhaseEnded,
    RankEnded,
    Sample,
    Signal,
    Step,
    Tick,
    Waited,
)

LATENESS_S = 2.0
"""How much later than a newer signal another may come and still be put in its place."""
MAX_HELD = 200_000
"""Signals held at most: a stream whose time stands still is released as it comes."""
_QUANTUM_US = 500_000
_TIME = itemgetter(0)
_KINDS: tuple[type, ...] = (
    Waited, AttemptStarted, Hit, PhaseEnded, PhaseBegan, Checkpoint, Step, Sample, Heartbeat, RankEnded, AttemptEnded, Tick,
)  # fmt: skip
_KIND = {kind: number for number, kind in enumerate(_KINDS)}


def _place(signal: Signal) -> tuple[Any, ...]:
    """Place of a signal among others of its instant: kind, rank, content."""
    # Only what tells apart signals of one instant is looked at for the two kinds that come in thousands.
    if type(signal) is Step:
        return _KIND[Step], signal.rank, signal.step, signal.duration_s
    rank = getattr(signal, "rank", None)
    number = -1 if rank is None else rank
    if type(signal) is Sample:
        device = -1 if signal.device is None else signal.device
        return _KIND[Sample], number, signal.metric, device, signal.node, signal.step or 0, repr(signal.value)
    return _KIND[type(signal)], number, repr(signal)


class Order:
    """Holds signals until no earlier one is expected.

    Args:
        lateness_s: how far behind the newest signal one may come.
    """

    def __init__(self, lateness_s: float = LATENESS_S) -> None:
        self._lateness = int(lateness_s * 1e6)
        self._held: list[Signal] = []
        self._newest = self.released = -(1 << 62)
        self._next = self._newest

    def put(self, signal: Signal) -> bool:
        """Take a signal; True when ``ready`` has something to give. Its time must be after ``released``."""
        newest = self._newest = max(self._newest, signal[0])
        if type(signal) is Tick:
            return newest - self._lateness > self.released
        held = self._held
        held.append(signal)
        return newest - self._lateness >= self._next or len(held) > MAX_HELD

    def ready(self, *, everything: bool = False) -> list[Signal]:
        """Signals up to the released time, which moves on to the newest one's less the lateness, in their order."""
        full = everything or len(self._held) > MAX_HELD
        until = self._newest if full else self._newest - self._lateness
        self.released = max(self.released, until)
        self._next = self.released + _QUANTUM_US
        held = self._held
        held.sort(key=_TIME)
        at = bisect_right(held, self.released, key=_TIME)
        ready, self._held = held[:at], held[at:]
        return _settled(ready)


def _settled(signals: list[Signal]) -> list[Signal]:
    """Signals sorted by time, those of one instant by kind and content."""
    begin, count = 0, len(signals)
    for at in range(1, count + 1):
        if at == count or signals[at][0] != signals[begin][0]:
            if at - begin > 1:
                signals[begin:at] = sorted(signals[begin:at], key=_place)
            begin = at
    return signals


class Alarms:
    """Deadlines, in the order of their instants."""

    def __init__(self) -> None:
        self._waiting: list[tuple[int, int, Callable[[int], None]]] = []
        self._count = 0
        self.next = 1 << 62

    def at(self, time: int, call: Callable[[int], None]) -> None:
        """Call ``call(time)`` when the time has come. What is no longer wanted must see that itself."""
        self._count += 1
        heapq.heappush(self._waiting, (time, self._count, call))
        self.next = self._waiting[0][0]

    def due(self, until: int) -> Iterator[tuple[int, Callable[[int], None]]]:
        """Deadlines up to an instant, those that are set meanwhile included."""
        while self._waiting and self._waiting[0][0] <= until:
            time, _, call = heapq.heappop(self._waiting)
            self.next = self._waiting[0][0] if self._waiting else 1 << 62
            yield time, call
