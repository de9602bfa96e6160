"""How often a daemon that ends again and again is started again: less and less."""

from collections.abc import Callable

FIRST_S, MOST_S = 3.0, 300.0
CALM_S = 900.0
"""Who has not needed a start for so long starts afresh."""


class Patience:
    """Says whether something may be started now.

    Args:
        clock: monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._waits: dict[str, tuple[float, float]] = {}

    def may(self, what: str) -> bool:
        """Whether ``what`` may be started; counts as a start where it may."""
        now = self._clock()
        last, wait = self._waits.get(what, (float("-inf"), 0.0))
        if now - last < wait:
            return False
        again = FIRST_S if now - last > CALM_S else min(max(2 * wait, FIRST_S), MOST_S)
        self._waits = {name: kept for name, kept in self._waits.items() if now - kept[0] < CALM_S} | {
            what: (now, again)
        }
        return True
