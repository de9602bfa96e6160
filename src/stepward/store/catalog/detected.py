"""What detectors said, beside the events that writers sent: kept, replaced, taken back.

What detectors call an event is as long as an attempt's key may be; here it has an id that fits into a path. Ranks, nodes and
figures are in its ``data``, its certainty there, too, where the ledger looks. Writers' events are never touched here.
"""

import hashlib
from base64 import b32encode
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa

from stepward.model.launches import outer_keys
from stepward.model.resources import RunEvent
from stepward.model.words import NODES_PROJECT
from stepward.store.catalog import schema
from stepward.store.catalog.bounds import int64, maybe_int64, text, tree
from stepward.store.catalog.changes import Change, Listener
from stepward.store.catalog.database import Database, upsert
from stepward.store.catalog.earlier import paces_before
from stepward.store.catalog.events import WITHDRAWN
from stepward.store.catalog.launches import Inside, nodes_of
from stepward.store.catalog.reading import run_event

PREFIX = "det_"
"""With which the ids of detectors' events begin."""
_AT_ONCE = 500


class ObservedRun(NamedTuple):
    """A run whose detectors are not done."""

    project: str
    run: str


class EndedAttempt(NamedTuple):
    """An attempt that is over, as it was judged."""

    run: str
    attempt: str
    state: str
    ended_at: int
    reason: str | None


class Stay(NamedTuple):
    """An attempt on a node whose agent is heard: ``node_run`` is the run that the agent writes; times in µs."""

    run: str
    attempt: str
    node: str
    node_run: str
    started_at: int
    ended_at: int | None


class EventRow(NamedTuple):
    """A detector's event; ``id`` from ``event_id``, times in µs on the server's clock."""

    id: str
    type: str
    detector: str
    certainty: str
    severity: str
    attempt: str
    rank: int | None
    step: int | None
    started_at: int
    ended_at: int | None
    title: str
    data: dict[str, Any]


class SourceClock(NamedTuple):
    """How far a source's clock is from the server's."""

    kind: str
    attempt: str
    rank: int | None
    node: str
    offset_us: int


class DetectedEvents:
    """The detectors' part of the catalog.

    Args:
        listener: told of events that are new or changed.
    """

    def __init__(self, database: Database, listener: Listener) -> None:
        self._database = database
        self._listener = listener

    def unsettled(self) -> list[ObservedRun]:
        """Runs that are not over, or of which something was said since they were judged to their end."""
        table = schema.runs
        open_ = sa.or_(table.c.live.is_(True), table.c.observed.is_distinct_from(table.c.changes))
        query = sa.select(table.c.project, table.c.id).where(open_, table.c.project != NODES_PROJECT)
        with self._database.read() as connection:
            return [ObservedRun(*row) for row in connection.execute(query)]

    def settle(self, run: str) -> None:
        """Note that a run is judged to its end, as it stands."""
        table = schema.runs
        with self._database.write() as connection:
            connection.execute(sa.update(table).where(table.c.id == run).values(observed=table.c.changes))

    def keep_pace(self, run: str, usual_step_s: float | None) -> None:
        """Keep how long the steps of a run that is over took, for later runs of its kind."""
        table = schema.runs
        with self._database.write() as connection:
            connection.execute(sa.update(table).where(table.c.id == run).values(usual_step_s=usual_step_s))

    def earlier_paces(self, run: str) -> list[float]:
        """Seconds a step of earlier runs of the same configuration, newest first, as far as they are known."""
        with self._database.read() as connection:
            return paces_before(connection, run)

    def over(self, runs: Sequence[str]) -> set[str]:
        """Those of ``runs`` that are over, or gone."""
        table, living = schema.runs, set()
        with self._database.read() as connection:
            for part in _parts(runs):
                query = sa.select(table.c.id).where(table.c.id.in_(part), table.c.live.is_(True))
                living |= {row.id for row in connection.execute(query)}
        return set(runs) - living

    def ends(self, runs: Sequence[str]) -> list[EndedAttempt]:
        """Attempts of ``runs`` that are over."""
        table = schema.attempts
        columns = (table.c.run, table.c.key, table.c.state, table.c.ended_at, table.c.reason)
        found: list[EndedAttempt] = []
        with self._database.read() as connection:
            for part in _parts(runs):
                query = sa.select(*columns).where(table.c.run.in_(part), table.c.ended_at.is_not(None))
                found += [EndedAttempt(*row) for row in connection.execute(query)]
        return found

    def writers(self, run: str) -> int:
        """How many writers a run has had."""
        table = schema.sources
        query = sa.select(sa.func.count(sa.distinct(table.c.writer))).where(table.c.run == run)
        with self._database.read() as connection:
            return connection.execute(query).scalar_one()

    def stays(self, runs: Sequence[str]) -> list[Stay]:
        """Where the attempts of ``runs`` were, as their sources or a scheduler say; of nodes whose name one agent has."""
        found: list[Stay] = []
        with self._database.read() as connection:
            for part in _parts(runs):
                found += _stays(connection, part)
        return found

    def clocks(self, run: str) -> list[SourceClock]:
        """The clocks of a run's sources."""
        table = schema.sources
        columns = (table.c.kind, table.c.attempt, table.c.rank, table.c.node, table.c.offset_us)
        with self._database.read() as connection:
            return [SourceClock(*row) for row in connection.execute(sa.select(*columns).where(table.c.run == run))]

    def attempts(self, run: str) -> dict[str, int]:
        """Attempt key -> number."""
        table = schema.attempts
        with self._database.read() as connection:
            rows = connection.execute(sa.select(table.c.key, table.c.number).where(table.c.run == run))
            return {row.key: row.number for row in rows}

    def of(self, run: str) -> dict[str, RunEvent]:
        """The detectors' events of a run, by id; withdrawn ones are among them."""
        with self._database.read() as connection:
            return {event.id: event for event in self._events(connection, run)}

    def shown(self, run: str, events: Sequence[EventRow]) -> dict[str, RunEvent]:
        """Events as they would stand if they were kept, by id."""
        with self._database.read() as connection:
            told = _resources(connection, run, [_row(run, event) for event in events])
        return {event.id: event for event in told}

    def keep(self, project: str, run: str, events: Sequence[EventRow], *, only: bool = False) -> list[RunEvent]:
        """Write events, each once; with ``only``, those of detectors that are not among them are taken away.

        Who follows the run is told of those that were taken away, too, as withdrawn.

        Returns:
            The events as they stand, if the run exists.
        """
        rows = [_row(run, event) for event in events]
        table, gone = schema.events, list[RunEvent]()
        with self._database.write() as connection:
            if connection.execute(sa.select(schema.runs.c.id).where(schema.runs.c.id == run)).first() is None:
                return []
            if only:
                kept = {row["id"] for row in rows}
                gone = [event for event in self._events(connection, run) if event.id not in kept]
                for part in _parts(event.id for event in gone):
                    connection.execute(sa.delete(table).where(table.c.run == run, table.c.id.in_(part)))
            upsert(connection, table, rows)
            told = _resources(connection, run, rows)
        if told or gone:
            for event in gone:
                event.certainty = WITHDRAWN
            self._listener([Change(project=project, run=run, events=[*told, *gone])])
        return told

    @staticmethod
    def _events(connection: sa.Connection, run: str) -> list[RunEvent]:
        table = schema.events
        query = sa.select(table).where(table.c.run == run, table.c.detector.is_not(None))
        rows = [dict(row) for row in connection.execute(query.order_by(table.c.started_at, table.c.id)).mappings()]
        return _resources(connection, run, rows)


def event_id(detected: str) -> str:
    """The catalog's id of what a detector calls an event: the same at each replay."""
    digest = b32encode(hashlib.sha256(detected.encode(errors="surrogatepass")).digest())
    return PREFIX + digest.decode("ascii").lower()[:26]


def _stays(connection: sa.Connection, runs: Sequence[str]) -> list[Stay]:
    attempts, sources, launches = schema.attempts, schema.sources, schema.launches
    written = sa.select(sources.c.run, sources.c.attempt, sources.c.node).where(sources.c.run.in_(runs)).distinct()
    nodes: dict[tuple[str, str], set[str]] = {}
    for source in connection.execute(written):
        nodes.setdefault((source.run, source.attempt), set()).add(source.node)
    launched = nodes_of(connection.execute(sa.select(launches).where(launches.c.run.in_(runs))).mappings())
    told = connection.execute(sa.select(attempts).where(attempts.c.run.in_(runs))).mappings().all()
    placed = []
    for row in told:
        own = set(nodes.get((row["run"], row["key"]), ()))
        for key in (row["key"], *outer_keys(row["key"])):
            own.update(launched.get((row["run"], key), ()))
        placed += [(row, node) for node in sorted(own) if node]
    agents: dict[str, list[str]] = {}
    for part in _parts(sorted({node for _, node in placed})):
        named = sa.and_(schema.runs.c.project == NODES_PROJECT, schema.runs.c.name.in_(part))
        for agent in connection.execute(sa.select(schema.runs.c.name, schema.runs.c.id).where(named)):
            agents.setdefault(agent.name, []).append(agent.id)
    return [
        Stay(row["run"], row["key"], node, agents[node][0], row["started_at"], row["ended_at"])
        for row, node in placed
        if len(agents.get(node, ())) == 1
    ]


def _resources(connection: sa.Connection, run: str, rows: Sequence[dict[str, Any]]) -> list[RunEvent]:
    table = schema.attempts
    query = sa.select(table).where(table.c.run == run).order_by(table.c.number)
    inside = Inside([dict(row) for row in connection.execute(query).mappings()])
    return [run_event(row, inside.number_at(row["attempt"], row["started_at"])) for row in rows]


def _row(run: str, event: EventRow) -> dict[str, Any]:
    return {
        "run": run,
        "id": event.id,
        "type": text(event.type),
        "detector": text(event.detector),
        "certainty": text(event.certainty, 16),
        "severity": text(event.severity, 16),
        "attempt": text(event.attempt),
        "rank": event.rank,
        "step": maybe_int64(event.step),
        "started_at": int64(event.started_at),
        "ended_at": maybe_int64(event.ended_at),
        "title": text(event.title),
        "data": tree({"certainty": event.certainty, **event.data}),
    }


def _parts(values: Iterable[str]) -> list[list[str]]:
    listed = list(values)
    return [listed[at : at + _AT_ONCE] for at in range(0, len(listed), _AT_ONCE)]
