"""Reading events: those of one run, those that detectors saw in all runs, one.

``projects`` arguments are the projects that the caller may see, None for all.
"""

from collections.abc import Collection
from typing import Any, NamedTuple

import sqlalchemy as sa

from stepward.errors import NotFound, UsageError
from stepward.model.frames import Event
from stepward.model.resources import EventPage, RunEvent
from stepward.store.catalog.changes import Change, Listener
from stepward.store.catalog.database import Database, upsert
from stepward.store.catalog.launches import Inside
from stepward.store.catalog.paging import Cursor, packed, unpacked
from stepward.store.catalog.reading import run_event
from stepward.store.catalog.rows import event_row
from stepward.store.catalog.runs import Projects, find, visible
from stepward.store.catalog.schema import attempts, events, runs

MAX_EVENTS = 5000
MAX_PAGE = 500
WITHDRAWN = "withdrawn"
_ORDER = "-events"


class EventFilter(NamedTuple):
    """Which events are asked for; what is None does not matter.

    Attributes:
        certainties: None: all but those that were withdrawn.
        since_us: those that began then or later, or still lasted.
        detected: those of detectors (True), those of writers (False).
    """

    types: Collection[str] | None = None
    certainties: Collection[str] | None = None
    severities: Collection[str] | None = None
    since_us: int | None = None
    detected: bool | None = None

    def condition(self) -> sa.ColumnElement[bool]:
        """The filter in SQL."""
        asked: list[sa.ColumnElement[bool]] = []
        if self.types is not None:
            asked.append(events.c.type.in_(sorted(self.types)))
        if self.certainties is not None:
            asked.append(events.c.certainty.in_(sorted(self.certainties)))
        else:
            asked.append(sa.or_(events.c.certainty.is_(None), events.c.certainty != WITHDRAWN))
        if self.severities is not None:
            asked.append(events.c.severity.in_(sorted(self.severities)))
        if self.since_us is not None:
            lasting = sa.and_(events.c.ended_at.is_(None), events.c.detector.is_not(None))
            asked.append(sa.or_(events.c.started_at >= self.since_us, events.c.ended_at >= self.since_us, lasting))
        if self.detected is not None:
            asked.append(events.c.detector.is_not(None) if self.detected else events.c.detector.is_(None))
        return sa.and_(sa.true(), *asked)


def tell(database: Database, listener: Listener, run: str, event: Event) -> str | None:
    """Add an event of this server to the newest attempt of a run, in place of one with the same id; its times are ours.

    Returns:
        The run's project; None where the run is gone.
    """
    with database.write() as connection:
        project = connection.execute(sa.select(runs.c.project).where(runs.c.id == run)).scalar_one_or_none()
        query = sa.select(attempts).where(attempts.c.run == run).order_by(attempts.c.number.desc())
        newest = connection.execute(query).mappings().first()
        if newest is None or project is None:
            return None
        row = event_row(event, {"run": run, "attempt": newest["key"], "rank": None, "offset_us": 0})
        upsert(connection, events, [row])
        told = run_event(row, newest["number"])
    listener([Change(project=project, run=run, events=[told])])
    return str(project)


class StoredEvents:
    """The events of the catalog, for readers."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def of_run(self, projects: Projects, named: str, which: EventFilter = EventFilter()) -> list[RunEvent]:
        """The newest events of a run, oldest first; at most ``MAX_EVENTS``.

        Raises:
            NotFound: ``no_such_run``.
        """
        with self._database.read() as connection:
            run = find(connection, projects, named)["id"]
            query = sa.select(events).where(events.c.run == run, which.condition())
            query = query.order_by(events.c.started_at.desc(), events.c.id.desc()).limit(MAX_EVENTS)
            rows = [dict(row) for row in connection.execute(query).mappings()]
            return _resources(connection, rows[::-1])

    def one(self, projects: Projects, named: str, event: str) -> RunEvent:
        """One event of a run, one that was withdrawn too.

        Raises:
            NotFound: ``no_such_run``, ``no_such_event``.
        """
        with self._database.read() as connection:
            run = find(connection, projects, named)
            query = sa.select(events).where(events.c.run == run["id"], events.c.id == event)
            row = connection.execute(query).mappings().first()
            if row is None:
                raise NotFound(
                    f"run {run['id']} has no event {event!r}",
                    code="no_such_event",
                    hint="a detector may have taken it back; `stepward events RUN` lists them",
                )
            found = _resources(connection, [dict(row)])[0]
        found.run, found.run_name, found.project = run["id"], run["name"], run["project"]
        return found

    def page(
        self,
        projects: Projects,
        which: EventFilter,
        *,
        project: str | None = None,
        run: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> EventPage:
        """Events of all runs, or of one project or run, the newest first.

        Raises:
            UsageError: ``bad_limit``, ``bad_cursor``.
            NotFound: ``no_such_run``.
        """
        if not 1 <= limit <= MAX_PAGE:
            raise UsageError(f"limit is 1 to {MAX_PAGE}, not {limit}", code="bad_limit")
        query = sa.select(events, runs.c.name.label("run_name"), runs.c.project).join(runs, runs.c.id == events.c.run)
        query = query.where(visible(projects), which.condition())
        if project is not None:
            query = query.where(runs.c.project == project)
        if cursor is not None:
            query = query.where(_behind(unpacked(cursor, _ORDER)))
        query = query.order_by(events.c.started_at.desc(), events.c.run.desc(), events.c.id.desc()).limit(limit + 1)
        with self._database.read() as connection:
            if run is not None:
                query = query.where(events.c.run == find(connection, projects, run)["id"])
            rows = [dict(row) for row in connection.execute(query).mappings()]
            items = _resources(connection, rows[:limit])
        for item, row in zip(items, rows, strict=False):
            item.run, item.run_name, item.project = row["run"], row["run_name"], row["project"]
        if len(rows) <= limit:
            return EventPage(items)
        last = rows[limit - 1]
        return EventPage(items, packed(Cursor(_ORDER, last["started_at"], f"{last['run']} {last['id']}")))


def _behind(last: Cursor) -> sa.ColumnElement[bool]:
    run, _, id_ = last.id.partition(" ")
    further = sa.or_(events.c.run < run, sa.and_(events.c.run == run, events.c.id < id_))
    return sa.and_(events.c.started_at <= last.value, sa.or_(events.c.started_at != last.value, further))


def _resources(connection: sa.Connection, rows: list[dict[str, Any]]) -> list[RunEvent]:
    """The events, each with the attempt that was under way."""
    of_run: dict[str, list[dict[str, Any]]] = {row["run"]: [] for row in rows}
    found = sa.select(attempts).where(attempts.c.run.in_(sorted(of_run))).order_by(attempts.c.number)
    for attempt in connection.execute(found).mappings():
        of_run[attempt["run"]].append(dict(attempt))
    inside = {run: Inside(known) for run, known in of_run.items()}
    return [run_event(row, inside[row["run"]].number_at(row["attempt"], row["started_at"])) for row in rows]
