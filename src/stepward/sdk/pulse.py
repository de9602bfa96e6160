"""The background threads of a run: ``pulse`` (heartbeat, agreement, shipping) and ``gather`` (trees, samples).

Two, because reading a device or asking git may hang, and a heartbeat may not. Both are daemons that end with the run;
neither holds a lock that the training loop takes for longer than an append to the journal.
"""

import threading
from collections.abc import Callable

from stepward.model.words import HEARTBEAT_S


class Threads:
    """Starts and ends the two threads.

    Args:
        beat: the heartbeat; returns the seconds until the next one.
        gather: collects trees, then samples until ``stopped`` is set.
    """

    def __init__(self, beat: Callable[[], float], gather: Callable[[threading.Event], None]) -> None:
        self._stopped = threading.Event()
        self._beat, self._gather = beat, gather
        self._threads = [
            threading.Thread(target=self._pulse, name="stepward-pulse", daemon=True),
            threading.Thread(target=self._collect, name="stepward-gather", daemon=True),
        ]

    def start(self) -> None:
        """Start both; a process that may have no more threads goes on without them."""
        for thread in self._threads:
            try:
                thread.start()
            except RuntimeError:
                return

    def stop(self) -> None:
        """Ask both to end; not waited for."""
        self._stopped.set()

    def _pulse(self) -> None:
        wait = 0.0
        while not self._stopped.wait(wait):
            try:
                wait = self._beat()
            except Exception:
                wait = HEARTBEAT_S

    def _collect(self) -> None:
        try:
            self._gather(self._stopped)
        except Exception:
            return
