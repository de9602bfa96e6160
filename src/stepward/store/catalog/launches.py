"""What watchers say of the jobs that they see, and how it lies over the attempts of a run.

A watcher knows a launch by its outer key (``slurm.0``); what runs inside says attempts (``slurm.0/step.0``). While nothing
inside is heard, a placeholder attempt of the outer key stands for it; the first attempt inside takes its place, with its
start and number. What the watcher says rests here, apart from the attempts, so that the order of arrival changes nothing.
"""

from collections.abc import Iterable, Iterator, Mapping

import sqlalchemy as sa

from stepward.model.frames import Config, Status
from stepward.model.launches import covers
from stepward.store.catalog import schema
from stepward.store.catalog.bounds import int64, text
from stepward.store.catalog.database import upsert
from stepward.store.catalog.rows import Row

MAX_NODES = 20_000
"""Nodes of an attempt that are kept; no cluster is larger."""


class Launches:
    """The launches of some runs, changed in memory and written once."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._rows: dict[str, dict[str, Row]] = {}
        self._changed: dict[tuple[str, str], Row] = {}
        for row in rows:
            self._rows.setdefault(row["run"], {})[row["key"]] = row

    def take_status(self, run: str, key: str, status: Status) -> bool:
        """What the scheduler says now; whether it is news."""
        row = self._row(run, key)
        if status.state is None or (row["told_at"] is not None and status.at < row["told_at"]):
            return False
        reason = None if status.reason is None else text(status.reason)
        said = {"state": status.state.value, "reason": reason, "paused": status.paused}
        news = any(row[name] != value for name, value in said.items())
        row |= said
        row["told_at"] = int64(status.at)
        return news

    def take_config(self, run: str, key: str, config: Config, started_at: int | None) -> bool:
        """Where and since when it runs; whether a start was said."""
        row = self._row(run, key)
        if config.nodes is not None:
            row["nodes"] = [text(node) for node in config.nodes[:MAX_NODES]]
        if started_at is None or row["started_at"] == started_at:
            return False
        row["started_at"] = started_at
        return True

    def starts(self, run: str, attempts: Mapping[str, Row]) -> dict[str, int]:
        """Attempt key -> start: its own, or that of the launch whose first attempt it is."""
        starts = {key: own_start(row) for key, row in attempts.items()}
        for outer, launch in self._rows.get(run, {}).items():
            inside = covered(outer, attempts.values())
            if launch["started_at"] is None or not inside:
                continue
            first = min(inside, key=lambda row: (own_start(row), row["key"]))
            guessed = not first["announced_start"]
            starts[first["key"]] = launch["started_at"] if guessed else min(own_start(first), launch["started_at"])
        return starts

    def write(self, connection: sa.Connection) -> None:
        """Write what changed."""
        upsert(connection, schema.launches, list(self._changed.values()))

    def _row(self, run: str, key: str) -> Row:
        of_run = self._rows.setdefault(run, {})
        if key not in of_run:
            said: Row = {"state": None, "reason": None, "paused": False, "told_at": None}
            of_run[key] = {"run": run, "key": key, **said, "started_at": None, "nodes": []}
        return self._changed.setdefault((run, key), of_run[key])


def own_start(attempt: Row) -> int:
    """When an attempt began by its own sources."""
    own = attempt["own_started_at"]
    return int(attempt["started_at"] if own is None else own)


def covered(outer: str, attempts: Iterable[Row]) -> list[Row]:
    """The attempts that ``outer`` covers, in start order."""
    return sorted((row for row in attempts if covers(outer, row["key"])), key=lambda row: row["number"])


def nodes_of(rows: Iterable[sa.RowMapping]) -> dict[tuple[str, str], list[str]]:
    """(Run, outer key) -> nodes, of rows of ``launches``."""
    return {(row["run"], row["key"]): list(row["nodes"]) for row in rows}


def claimed_jobs(config: Config) -> Iterator[tuple[str, str]]:
    """(Cluster, job) that whoever sent ``config`` runs in; none outside of Slurm."""
    job = config.job or {}
    cluster, name = job.get("cluster"), job.get("id")
    if job.get("system") == "slurm" and isinstance(cluster, str) and isinstance(name, str) and cluster and name:
        yield text(cluster), text(name)


class Inside:
    """The attempts of a run, found by keys that may be those of launches around them."""

    def __init__(self, attempts: Iterable[Row]) -> None:
        self._attempts = list(attempts)

    def newest(self, key: str) -> Row:
        """The newest attempt that ``key`` covers; raises LookupError where there is none."""
        return covered(key, self._attempts)[-1]

    def number_at(self, key: str, at: int) -> int | None:
        """Number of the attempt under way at an instant; before the first has begun, of that one."""
        inside = covered(key, self._attempts)
        begun = [row for row in inside if row["started_at"] <= at]
        return (begun[-1] if begun else inside[0])["number"] if inside else None
