"""The ideal step (rule 8): the lowest median of any 20 consecutive net steps."""

from bisect import bisect_left, insort
from collections import deque

WINDOW = 20


def ideal_step(nets: list[int]) -> int | None:
    """The ideal step in ns, None without any: ``nets`` are the net ns of steps in order of time."""
    if not nets:
        return None
    if len(nets) <= WINDOW:
        return _median(sorted(nets))
    return _lowest_median(nets)


def same(net: int, count: int) -> list[int]:
    """``count`` equal steps; more of them in a row than a window holds give no other window."""
    return [net] * min(count, WINDOW)


def _lowest_median(nets: list[int]) -> int:
    """Only a window in which half of the values lie below the best median so far can beat it: count those, cheaply."""
    best = _median(sorted(nets[:WINDOW]))
    below = sum(net < best for net in nets[:WINDOW])
    for at in range(WINDOW, len(nets)):
        below += (nets[at] < best) - (nets[at - WINDOW] < best)
        if below >= WINDOW // 2:
            window = nets[at - WINDOW + 1 : at + 1]
            median = _median(sorted(window))
            if median < best:
                best = median
                below = sum(net < best for net in window)
    return best


def _median(ordered: list[int]) -> int:
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) // 2


class RollingMedian:
    """Median of the last ``WINDOW`` values, one at a time; for live figures.

    Attributes:
        median: of the values so far, None without any.
        full: as many as a window holds have come.
    """

    def __init__(self) -> None:
        self.median: int | None = None
        self._recent: deque[int] = deque()
        self._ordered: list[int] = []

    @property
    def full(self) -> bool:
        """See the class."""
        return len(self._recent) == WINDOW

    def add(self, net: int) -> int:
        """Take a value in; the median of the window that it closes."""
        if self.full:
            del self._ordered[bisect_left(self._ordered, self._recent.popleft())]
        self._recent.append(net)
        insort(self._ordered, net)
        self.median = _median(self._ordered)
        return self.median
