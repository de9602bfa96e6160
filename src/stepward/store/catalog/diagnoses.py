"""Diagnoses of attempts: what is known of an attempt for one, which attempts still lack theirs, and the documents.

A document is kept for each event that it was made for, and under the empty event for the attempt itself; a newer one of the
same takes its place.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa

from stepward.errors import NotFound
from stepward.model.launches import covers
from stepward.model.states import Exit, State
from stepward.store.catalog.bounds import text
from stepward.store.catalog.database import Database, upsert
from stepward.store.catalog.runs import Projects, find
from stepward.store.catalog.schema import attempts, configs, diagnoses, events, launches, runs, sources
from stepward.store.catalog.standing import source_view

ENDED_BADLY = (State.FAILED, State.CRASHED, State.OOM, State.TIMEOUT, State.LOST, State.PREEMPTED)
"""States of attempts that get a diagnosis by themselves."""
_AT_ONCE = 500


class BadEnd(NamedTuple):
    """An attempt that ended badly."""

    project: str
    run: str
    attempt: str


class KnownExit(NamedTuple):
    """The end of a rank, or of all that a source speaks for (``rank`` None)."""

    rank: int | None
    exit: Exit


class KnownAttempt(NamedTuple):
    """What the catalog knows of an attempt; times in µs on the server's clock.

    ``said`` and ``said_why`` are the scheduler's state of it and word for why, None where no scheduler is heard;
    ``failed_nodes`` those that its watcher saw fail; ``job`` is Slurm's (cluster, number) where it is a job of Slurm.
    """

    run: str
    project: str
    key: str
    number: int
    state: State
    reason: str
    started_at: int
    ended_at: int | None
    said: State | None
    said_why: str
    exits: list[KnownExit]
    nodes: list[str]
    places: dict[int, str]
    events: list[dict[str, Any]]
    failed_nodes: list[str]
    job: tuple[str, int] | None


class Kept(NamedTuple):
    """A document with what it is of; ``event`` is empty for the attempt itself."""

    run: str
    attempt: int | None
    event: str
    made_at: int
    version: int
    document: bytes


class Diagnoses:
    """The diagnoses of the catalog."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def due(self, *, of: Sequence[str] | None = None, since_us: int = 0) -> list[BadEnd]:
        """Attempts that ended badly and have no diagnosis.

        Args:
            of: of these runs; None: of all.
            since_us: that ended then or later.
        """
        have = sa.select(diagnoses.c.run).where(
            diagnoses.c.run == attempts.c.run, diagnoses.c.attempt == attempts.c.key, diagnoses.c.event == ""
        )
        query = (
            sa.select(runs.c.project, attempts.c.run, attempts.c.key)
            .join(runs, runs.c.id == attempts.c.run)
            .where(attempts.c.state.in_([state.value for state in ENDED_BADLY]), attempts.c.ended_at >= since_us)
            .where(~have.exists())
            .order_by(attempts.c.ended_at)
        )
        parts = [None] if of is None else [of[at : at + _AT_ONCE] for at in range(0, len(of), _AT_ONCE)]
        found: list[BadEnd] = []
        with self._database.read() as connection:
            for part in parts:
                narrowed = query if part is None else query.where(attempts.c.run.in_(part))
                found += [BadEnd(*row) for row in connection.execute(narrowed)]
        return found

    def known(self, run: str, attempt: str | None = None) -> KnownAttempt | None:
        """What is known of an attempt (None: the newest); None where it is gone."""
        with self._database.read() as connection:
            query = sa.select(attempts).where(attempts.c.run == run).order_by(attempts.c.number)
            rows = connection.execute(query).mappings().all()
            # A launch that is seen from outside alone is the newest attempt inside of it.
            fitting = [row for row in rows if attempt is None or covers(attempt, row["key"])]
            if not fitting:
                return None
            row = fitting[-1]
            key = row["key"]
            project = connection.execute(sa.select(runs.c.project).where(runs.c.id == run)).scalar_one()
            launch = next(
                (
                    launch
                    for launch in connection.execute(sa.select(launches).where(launches.c.run == run)).mappings()
                    if covers(launch["key"], key)
                ),
                None,
            )
            told = connection.execute(sa.select(sources).where(sources.c.run == run)).mappings().all()
            mine = [source for source in told if covers(source["attempt"], key)]
            seen = sa.select(events).where(events.c.run == run, events.c.certainty == "confirmed")
            said = [dict(event) for event in connection.execute(seen.order_by(events.c.started_at)).mappings()]
            losses = sa.select(events.c.attempt, events.c.data).where(
                events.c.run == run, events.c.type == "node_failed"
            )
            facts = connection.execute(sa.select(configs.c.job).where(configs.c.run == run)).scalar_one_or_none()
            failed = [loss.data for loss in connection.execute(losses) if covers(loss.attempt, key)]
        exits = [
            KnownExit(exit.rank if exit.rank is not None else view.rank, exit)
            for view in [source_view(dict(source)) for source in mine]
            for exit in view.exits
        ]
        nodes = {source["node"] for source in mine if source["node"]} | set(launch["nodes"] if launch else ())
        state = State(row["state"])
        spoken = None if launch is None or launch["state"] is None else State(launch["state"])
        return KnownAttempt(
            run=run,
            project=project,
            key=key,
            number=row["number"],
            state=state,
            reason=row["reason"] or "",
            started_at=row["started_at"],
            ended_at=row["ended_at"],
            said=spoken,
            said_why=(launch["reason"] or "") if launch else "",
            exits=sorted(exits, key=lambda one: one.exit.at),
            nodes=sorted(nodes),
            places={source["rank"]: source["node"] for source in mine if source["rank"] is not None and source["node"]},
            events=[event for event in said if covers(event["attempt"], key)],
            failed_nodes=sorted({str(node) for data in failed for node in data.get("nodes") or ()}),
            job=_slurm_job(facts or {}),
        )

    def keep(
        self, run: str, attempt: str, about: Iterable[str], *, made_at: int, version: int, document: bytes
    ) -> bool:
        """Keep a document for some events (empty: the attempt itself); whether the run is still there."""
        rows = [
            {
                "run": run,
                "attempt": text(attempt),
                "event": text(event),
                "made_at": made_at,
                "version": version,
                "document": document,
            }
            for event in sorted(set(about))
        ]
        with self._database.write() as connection:
            if connection.execute(sa.select(runs.c.id).where(runs.c.id == run)).first() is None:
                return False
            upsert(connection, diagnoses, rows)
        return True

    def made(self, run: str, attempt: str, version: int) -> dict[str, int]:
        """Event -> when its diagnosis was made, of those of a version."""
        query = sa.select(diagnoses.c.event, diagnoses.c.made_at).where(
            diagnoses.c.run == run, diagnoses.c.attempt == attempt, diagnoses.c.version == version
        )
        with self._database.read() as connection:
            return {row.event: row.made_at for row in connection.execute(query)}

    def drop(self, run: str, attempt: str) -> None:
        """Forget the diagnosis of an attempt that did not end badly after all; those of its events stay."""
        mine = sa.and_(diagnoses.c.run == run, diagnoses.c.attempt == attempt, diagnoses.c.event == "")
        with self._database.write() as connection:
            connection.execute(sa.delete(diagnoses).where(mine))

    def of_run(self, projects: Projects, named: str) -> list[Kept]:
        """The diagnoses of a run, the newest first.

        Raises:
            NotFound: ``no_such_run``.
        """
        with self._database.read() as connection:
            run = find(connection, projects, named)["id"]
            query = sa.select(diagnoses).where(diagnoses.c.run == run)
            rows = connection.execute(query.order_by(diagnoses.c.made_at.desc(), diagnoses.c.event)).mappings().all()
            numbers = _numbers(connection, run)
        return [_kept(row, numbers) for row in rows]

    def newest(self, projects: Projects, named: str, event: str | None = None) -> Kept:
        """The newest diagnosis of a run: of its newest attempt that has one, or the one of an event.

        Raises:
            NotFound: ``no_such_run``, ``no_diagnosis``.
        """
        with self._database.read() as connection:
            run = find(connection, projects, named)["id"]
            numbers = _numbers(connection, run)
            query = sa.select(diagnoses).where(diagnoses.c.run == run)
            if event is not None:
                query = query.where(diagnoses.c.event == event)
            rows = connection.execute(query).mappings().all()
        if not rows:
            raise NotFound(
                f"{run} has no diagnosis" + (f" of {event!r}" if event is not None else ""),
                code="no_diagnosis",
                hint="one is made when an attempt ends badly or an event is confirmed; POST .../diagnosis makes one now",
            )
        return _kept(
            max(rows, key=lambda row: (numbers.get(row["attempt"], 0), row["made_at"], row["event"] == "")), numbers
        )


def _slurm_job(facts: Mapping[str, object]) -> tuple[str, int] | None:
    number = facts.get("number")
    if facts.get("system") != "slurm" or not isinstance(number, int):
        return None
    return str(facts.get("cluster")), number


def _numbers(connection: sa.Connection, run: str) -> dict[str, int]:
    found = connection.execute(sa.select(attempts.c.key, attempts.c.number).where(attempts.c.run == run))
    return {row.key: row.number for row in found}


def _kept(row: sa.RowMapping, numbers: dict[str, int]) -> Kept:
    return Kept(row["run"], numbers.get(row["attempt"]), row["event"], row["made_at"], row["version"], row["document"])
