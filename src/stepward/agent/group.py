"""A thread with one kind of work, and the others' view of whether it is stuck in it."""

import threading
import time
from collections.abc import Callable

from stepward.launch.notes import guarded


class Group(threading.Thread):
    """Does its work at every tick until it is stopped; a tick that is late is left out.

    Attributes:
        busy_since: monotonic seconds since when it is at it; None while it rests.
    """

    def __init__(self, name: str, work: Callable[[], None], tick_s: float) -> None:
        super().__init__(name=f"stepward-{name}", daemon=True)
        self._what, self._work, self._tick_s = name, work, tick_s
        self._over = threading.Event()
        self.busy_since: float | None = None

    def run(self) -> None:
        """Work and rest."""
        while not self._over.is_set():
            began = self.busy_since = time.monotonic()
            guarded(self._what, self._work, None)
            self.busy_since = None
            self._over.wait(max(0.0, began + self._tick_s - time.monotonic()))

    def stop(self) -> None:
        """Begin no further tick; does not wait for one that hangs."""
        self._over.set()
