"""Newest values after a restart: when an attempt resumes below what an earlier one had reached, the abandoned values leave
``latest``, and the newest surviving ones are read back from the points, a few at a time and off the ingest's way.

Until then such a metric has no newest value, which is true: its last one was abandoned.
"""

import threading
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import sqlalchemy as sa

from stepward.errors import NotFound
from stepward.store.catalog.changes import Change, Listener, nobody
from stepward.store.catalog.database import Database, upsert
from stepward.store.catalog.runs import RunHead, Runs
from stepward.store.catalog.schema import attempts, latest
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
        """Read back at most ``limit`` metrics; returns how many were due. One that cannot be read is due again, last."""
        with self._lock:
            due = list(self._due)[:limit]
        for run, metric in due:
            with self._lock:
                self._due.pop((run, metric), None)
            try:
                self._mend(run, metric)
            except BaseException:
                self.note(run, [metric])
                raise
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
        if self._write(row):
            self._listener([Change(project=head.project, run=run)])

    def _write(self, row: dict[str, Any]) -> bool:
        """Write a newest value, unless it is abandoned or its run deleted since its history was read; whether it was."""
        run, query = row["run"], sa.select(attempts).where(attempts.c.run == row["run"])
        with self._database.write() as connection:
            known = [dict(attempt) for attempt in connection.execute(query).mappings()]
            if not known:
                return False
            if not Stitching(known).abandons(row):
                upsert(connection, latest, [row], where=replaces(False))
                return True
        self.note(run, [row["metric"]])
        return False
