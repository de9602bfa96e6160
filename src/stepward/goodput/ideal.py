"""The ideal step (rule 8): the lowest median of any 20 consecutive net steps."""

from bisect import insort

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
    """Median of the last ``WINDOW`` values, one at a time; for live figures."""

    def __init__(self) -> None:
        self._recent: list[int] = []
        self._ordered: list[int] = []

    def add(self, net: int) -> int:
        """Take a value in; the median of the window that it closes."""
        if len(self._recent) == WINDOW:
            self._ordered.remove(self._recent.pop(0))
        self._recent.append(net)
        insort(self._ordered, net)
        return _median(self._ordered)
