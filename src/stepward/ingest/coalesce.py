"""When to commit: a queue that hands out frames in groups.

A commit costs milliseconds however small it is, a point within one a fraction of a microsecond; so frames that arrive
together go together. A group ends when it has ``GROUP_POINTS``, when it has waited ``GROUP_WAIT_S``, or when every writer
that has been heard in the last ``ACTIVE_S`` has a frame in it: a writer has one frame in flight, so that there is
nothing more to wait for, and a lone writer waits for nobody.
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

GROUP_POINTS = 64_000
GROUP_WAIT_S = 0.2
ACTIVE_S = 1.0

Item = TypeVar("Item")


class GroupQueue(Generic[Item]):
    """A queue of (writer, points, item), any thread in, one thread out."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._changed = threading.Condition()
        self._waiting: deque[tuple[str, int, Item]] = deque()
        self._points = 0
        self._heard: dict[str, float] = {}
        self._since = 0.0
        self._closed = False

    def put(self, writer: str, points: int, item: Item) -> bool:
        """Add an item; False when the queue is closed."""
        with self._changed:
            if self._closed:
                return False
            now = self._clock()
            if not self._waiting:
                self._since = now
            self._heard[writer] = now
            self._waiting.append((writer, points, item))
            self._points += points
            self._changed.notify()
            return True

    def close(self) -> None:
        """Refuse what comes; what waits is still handed out."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def group(self) -> list[Item]:
        """Wait for the next group; empty when the queue is closed and nothing waits."""
        with self._changed:
            while not self._waiting:
                if self._closed:
                    return []
                self._changed.wait()
            while (wait := self.wait_s()) > 0:
                self._changed.wait(wait)
            return self._take()

    def wait_s(self) -> float:
        """Seconds that the present group should still wait for more; 0 = hand it out."""
        now = self._clock()
        left = self._since + GROUP_WAIT_S - now
        if self._closed or self._points >= GROUP_POINTS or left <= 0:
            return 0.0
        self._heard = {writer: at for writer, at in self._heard.items() if at > now - ACTIVE_S}
        return left if self._heard.keys() - {writer for writer, _, _ in self._waiting} else 0.0

    def _take(self) -> list[Item]:
        group: list[Item] = []
        points = 0
        while self._waiting and points < GROUP_POINTS:
            _, more, item = self._waiting.popleft()
            points += more
            group.append(item)
        self._points -= points
        return group
