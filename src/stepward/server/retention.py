"""The worker that deletes runs which their projects no longer keep."""

import time
from collections import deque

from stepward.api.deletion import delete_run
from stepward.api.parts import Parts
from stepward.errors import NotFound

BUDGET_S = 0.5
"""Seconds of one turn: the clockwork has live runs to judge each second."""
LOOKED = 10_000
"""Runs found in one look."""


class Sweeper:
    """Finds what has expired and deletes it a little at a time."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._due: deque[str] | None = None  # None: a server that starts has not looked yet

    def look(self) -> None:
        """Find the runs that have expired; called each minute."""
        self._due = deque(self._parts.retention.expired(LOOKED))

    def sweep(self) -> int:
        """Delete runs that were found and are still expired; returns how many. One that fails is found again."""
        if self._due is None:
            self.look()
        deleted, until = 0, time.monotonic() + BUDGET_S
        while self._due and time.monotonic() < until:
            run = self._due.popleft()
            try:
                head = self._parts.runs.head(None, run)
            except NotFound:
                continue
            over = self._parts.retention.over
            deleted += delete_run(self._parts, head, by="the retention of its project", only_if=over)
        return deleted
