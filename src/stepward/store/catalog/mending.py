"""Newest values after a restart: when an attempt resumes below what an earlier one had reached, the abandoned values leave
``latest``, and the newest surviving ones are read back from the points, a few at a time and off the ingest's way.

Until then such a metric has no newest value, which is true: its last one was abandoned.
"""

import threading
from collections.abc import Callable, Iterable

import msgspec

from stepward.errors import NotFound
from stepward.store.catalog.changes import Change, Listener, nobody
from stepward.store.catalog.database import Database, upsert
from stepward.store.catalog.runs import RunHead, Runs
from stepward.store.catalog.schema import latest
from stepward.store.catalog.stitching import NO_RANK, Stitching, replaces


class Survivor(msgspec.Struct, frozen=True):
    """The newest point of a metric in the surviving history."""

    step: int
    time: int
    value: float
    rank: int | None
    attempt: str


class Mending:
    """What is to be read back.

    Args:
        survivor: reads the newest surviving point of a metric; None where there is none.
        listener: is told of the runs whose values came back.
    """

    def __init__(
        self,
        database: Database,
        runs: Runs,
        survivor: Callable[[RunHead, str], Survivor | None],
        listener: Listener = nobody,
    ) -> None:
        self._database = database
        self._runs = runs
        self._survivor = survivor
        self._listener = listener
        self._due: dict[tuple[str, str], None] = {}
        self._lock = threading.Lock()

    def note(self, run: str, metrics: Iterable[str]) -> None:
        """These metrics of a run have lost their newest value."""
        with self._lock:
            self._due.update(((run, metric), None) for metric in metrics)

    def mend(self, limit: int = 100) -> int:
        """Read back at most ``limit`` metrics; returns how many were due."""
        with self._lock:
            due = list(self._due)[:limit]
            for key in due:
                del self._due[key]
        for run, metric in due:
            self._mend(run, metric)
        return len(due)

    def _mend(self, run: str, metric: str) -> None:
        try:
            head = self._runs.head(None, run)
        except NotFound:
            return
        found = self._survivor(head, metric)
        if found is None:
            return
        row = {
            "run": run,
            "metric": metric,
            "step": found.step,
            "time": found.time,
            "value": None if found.value != found.value else found.value,
            "rank": NO_RANK if found.rank is None else found.rank,
            "attempt": found.attempt,
            "system": False,
        }
        if not Stitching(head.attempts).abandons(row):
            with self._database.write() as connection:
                upsert(connection, latest, [row], where=replaces(False))
            self._listener([Change(project=head.project, run=run)])
