"""Reading and changing runs: pages, one run, its configuration, sources, events, history; projects.

``projects`` arguments are the projects that the caller may see, None for all. A run that the caller may not see does not
exist for it.
"""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa

from stepward.errors import Conflict, NotFound, UsageError
from stepward.ingest.hearing import Hearing
from stepward.model.filters import parse
from stepward.model.identity import RUN_ID
from stepward.model.resources import Project, Run, RunChange, RunConfig, RunEvent, RunPage, Source, instant
from stepward.store.catalog import schema
from stepward.store.catalog.bounds import MAX_LONG_TEXT, text
from stepward.store.catalog.changes import Change, Listener
from stepward.store.catalog.database import Database, upsert
from stepward.store.catalog.filtering import condition
from stepward.store.catalog.paging import Order
from stepward.store.catalog.reading import (
    attempt_resource,
    latest_value,
    run_event,
    run_resource,
    source_resource,
)
from stepward.store.catalog.schema import attempts, configs, events, latest, runs, sources, tags
from stepward.store.catalog.standing import judge, live_runs

Projects = Sequence[str] | None
MAX_PAGE = 500
MAX_EVENTS = 5000
MAX_TAGS = 100


class RunHead(msgspec.Struct, frozen=True):
    """What the other stores need to know of a run; ``attempts`` are rows in start order."""

    id: str
    project: str
    started_at: int
    attempts: list[dict[str, Any]]

    @property
    def numbers(self) -> dict[str, int]:
        """Attempt key -> number."""
        return {row["key"]: row["number"] for row in self.attempts}


class Runs:
    """The runs of the catalog.

    Args:
        clock: µs since the epoch.
    """

    def __init__(self, database: Database, hearing: Hearing, clock: Callable[[], int], listener: Listener) -> None:
        self._database = database
        self._hearing = hearing
        self._clock = clock
        self._listener = listener

    # ── reading ──

    def page(
        self,
        projects: Projects,
        *,
        filter: str = "",
        sort: str | None = None,
        project: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> RunPage:
        """A page of runs.

        Raises:
            UsageError: ``bad_filter``, ``bad_sort``, ``bad_cursor``, ``bad_limit``.
        """
        if not 1 <= limit <= MAX_PAGE:
            raise UsageError(f"limit is 1 to {MAX_PAGE}, not {limit}", code="bad_limit")
        order = Order(sort)
        where = sa.and_(_visible(projects), condition(parse(filter)))
        if project is not None:
            where = sa.and_(where, runs.c.project == project)
        query = order.applied(sa.select(runs, order.value.label("_value")).where(where), cursor).limit(limit + 1)
        with self._database.read() as connection:
            total = connection.execute(sa.select(sa.func.count()).select_from(runs).where(where)).scalar_one()
            rows = connection.execute(query).mappings().all()
            items = self._filled(connection, [dict(row) for row in rows[:limit]])
        more = len(rows) > limit
        return RunPage(items, total, order.cursor(rows[limit - 1]["_value"], items[-1].id) if more else None)

    def get(self, projects: Projects, named: str) -> Run:
        """A run by id or unique name.

        Raises:
            NotFound: ``no_such_run``.
            Conflict: ``ambiguous_name`` with the ids.
        """
        with self._database.read() as connection:
            row = _find(connection, projects, named)
            return self._filled(connection, [row])[0]

    def many(self, ids: Sequence[str]) -> list[Run]:
        """The runs that exist among ``ids``, whoever may see them: for live updates."""
        with self._database.read() as connection:
            rows = connection.execute(sa.select(runs).where(runs.c.id.in_(ids))).mappings()
            return self._filled(connection, [dict(row) for row in rows])

    def head(self, projects: Projects, named: str) -> RunHead:
        """What the points and log stores need to answer for a run; raises as ``get``."""
        with self._database.read() as connection:
            row = _find(connection, projects, named)
            query = sa.select(attempts).where(attempts.c.run == row["id"]).order_by(attempts.c.number)
            found = [dict(attempt) for attempt in connection.execute(query).mappings()]
            return RunHead(row["id"], row["project"], row["started_at"], found)

    def config(self, projects: Projects, named: str) -> RunConfig:
        """The three trees of a run; the scheduler's object is ``system.job``."""
        with self._database.read() as connection:
            run = _find(connection, projects, named)["id"]
            row = connection.execute(sa.select(configs).where(configs.c.run == run)).mappings().first()
        if row is None:
            return RunConfig()
        job = {"job": row["job"]} if row["job"] else {}
        return RunConfig(row["user"], row["software"], {**row["system"], **job})

    def sources(self, projects: Projects, named: str) -> list[Source]:
        """The writers of a run: by attempt, kind, rank."""
        now = self._clock()
        with self._database.read() as connection:
            run = _find(connection, projects, named)["id"]
            found = connection.execute(sa.select(attempts).where(attempts.c.run == run)).mappings()
            numbers = {row["key"]: dict(row) for row in found}
            rows = connection.execute(sa.select(sources).where(sources.c.run == run)).mappings()
            all_sources = [source_resource(dict(row), numbers[row["attempt"]], self._hearing, now) for row in rows]
        return sorted(all_sources, key=lambda source: (source.attempt, source.kind, source.rank or 0, source.writer))

    def events(self, projects: Projects, named: str, type: str | None = None) -> list[RunEvent]:
        """The newest events of a run, oldest first; at most ``MAX_EVENTS``."""
        with self._database.read() as connection:
            run = _find(connection, projects, named)["id"]
            query = sa.select(events, attempts.c.number.label("_number"))
            query = query.outerjoin(attempts, sa.and_(attempts.c.run == run, attempts.c.key == events.c.attempt))
            query = query.where(events.c.run == run)
            if type is not None:
                query = query.where(events.c.type == type)
            query = query.order_by(events.c.started_at.desc(), events.c.id.desc()).limit(MAX_EVENTS)
            rows = connection.execute(query).mappings().all()
        return [run_event(dict(row), row["_number"]) for row in reversed(rows)]

    def projects(self, projects: Projects) -> list[Project]:
        """The projects that the caller may see, by name."""
        table = schema.projects
        query = sa.select(
            table.c.name,
            table.c.created_at,
            sa.func.count(runs.c.id).label("runs"),
            sa.func.coalesce(sa.func.sum(sa.case((runs.c.live.is_(True), 1), else_=0)), 0).label("live"),
        ).select_from(table.outerjoin(runs, runs.c.project == table.c.name))
        query = query.group_by(table.c.name, table.c.created_at).order_by(table.c.name)
        if projects is not None:
            query = query.where(table.c.name.in_(projects))
        with self._database.read() as connection:
            return [
                Project(name=row.name, runs=row.runs, live=row.live, created_at=instant(row.created_at))
                for row in connection.execute(query)
            ]

    def _filled(self, connection: sa.Connection, rows: Sequence[dict[str, Any]]) -> list[Run]:
        found = {row["id"]: run_resource(row) for row in rows}
        ids = list(found)
        seen: dict[tuple[str, str], tuple[set[str], set[int]]] = {}
        query = sa.select(sources).where(sources.c.run.in_(ids))
        columns = [sources.c[name] for name in _COUNTED]
        for row in connection.execute(query.with_only_columns(*columns)):
            nodes, ranks = seen.setdefault((row.run, row.attempt), (set(), set()))
            nodes.update([row.node] if row.node else [])
            ranks.update([row.rank or 0] if row.kind == "rank" else [])
            run = found[row.run]
            run.pending += row.pending
            run.dropped += row.dropped
            run.gaps += row.gaps
        query = sa.select(attempts).where(attempts.c.run.in_(ids)).order_by(attempts.c.number)
        for attempt in connection.execute(query).mappings():
            nodes, ranks = seen.get((attempt["run"], attempt["key"]), (set(), set()))
            found[attempt["run"]].attempts.append(attempt_resource(dict(attempt), sorted(nodes), len(ranks)))
        query = sa.select(latest).where(latest.c.run.in_(ids)).order_by(latest.c.metric)
        for value in connection.execute(query).mappings():
            found[value["run"]].latest[value["metric"]] = latest_value(dict(value))
        for tag in connection.execute(sa.select(tags).where(tags.c.run.in_(ids)).order_by(tags.c.tag)):
            found[tag.run].tags.append(tag.tag)
        return list(found.values())

    # ── changing ──

    def change(self, projects: Projects, named: str, change: RunChange) -> Run:
        """Change what people may change; raises as ``get``, and ``UsageError`` ``bad_change``."""
        with self._database.write() as connection:
            run = _find(connection, projects, named)
            values: dict[str, Any] = {}
            if change.name is not msgspec.UNSET:
                values |= {"name": _given(change.name, "name"), "name_edited": True}
            if change.notes is not msgspec.UNSET:
                values["notes"] = text(change.notes, MAX_LONG_TEXT)
            if change.tags is not msgspec.UNSET:
                values["tags_edited"] = True
                _set_tags(connection, run["id"], change.tags)
            if values:
                connection.execute(sa.update(runs).where(runs.c.id == run["id"]).values(values))
        self._listener([Change(project=run["project"], run=run["id"])])
        return self.get(projects, run["id"])

    def delete(self, run: RunHead) -> None:
        """Forget a run. What its writers still send is refused; a new process may use the id again."""
        tables = (attempts, sources, latest, configs, schema.config_leaves, tags, events, schema.applied)
        with self._database.write() as connection:
            written = schema.applied
            writers = connection.execute(sa.select(written.c.writer).where(written.c.run == run.id)).scalars()
            now = self._clock()
            rows = [{"project": run.project, "writer": writer, "deleted_at": now} for writer in writers]
            upsert(connection, schema.deleted_writers, rows)
            for table in tables:
                connection.execute(sa.delete(table).where(table.c.run == run.id))
            connection.execute(sa.delete(runs).where(runs.c.id == run.id))
        self._listener([Change(project=run.project, run=run.id, removed=True)])

    def judge_live(self) -> int:
        """Judge the live runs again, because time has passed; returns how many changed."""
        now = self._clock()
        with self._database.read() as connection:
            live = live_runs(connection)
        if not live:
            return 0
        with self._database.write() as connection:
            changed = judge(connection, live, self._hearing, now)
            query = sa.select(runs.c.id, runs.c.project).where(runs.c.id.in_(sorted(changed)))
            projects = {row.id: row.project for row in connection.execute(query)}
        self._listener([Change(project=project, run=run) for run, project in projects.items()])
        return len(projects)

    def heard_until(self) -> int | None:
        """When a live run was last heard, None where none is live: the begin of this server's outage."""
        query = sa.select(sa.func.max(runs.c.last_seen_at)).where(runs.c.live.is_(True))
        with self._database.read() as connection:
            heard: int | None = connection.execute(query).scalar_one()
        return heard

    def project_of(self, run: str) -> str | None:
        """The project of a run, None for a run that is not known."""
        with self._database.read() as connection:
            return connection.execute(sa.select(runs.c.project).where(runs.c.id == run)).scalar_one_or_none()

    def deleted(self, project: str, writer: str) -> bool:
        """Whether the writer's run was deleted."""
        table = schema.deleted_writers
        query = sa.select(table.c.writer).where(table.c.project == project, table.c.writer == writer)
        with self._database.read() as connection:
            return connection.execute(query).first() is not None


_COUNTED = ("run", "attempt", "node", "rank", "kind", "pending", "dropped", "gaps")


def _visible(projects: Projects) -> sa.ColumnElement[bool]:
    return sa.true() if projects is None else runs.c.project.in_(projects)


def _find(connection: sa.Connection, projects: Projects, named: str) -> dict[str, Any]:
    column = runs.c.id if RUN_ID.fullmatch(named) else runs.c.name
    query = sa.select(runs).where(column == named, _visible(projects)).order_by(runs.c.started_at.desc()).limit(20)
    rows = [dict(row) for row in connection.execute(query).mappings()]
    if not rows and column is runs.c.name:
        query = sa.select(runs).where(runs.c.id == named, _visible(projects))
        rows = [dict(row) for row in connection.execute(query).mappings()]
    if not rows:
        raise NotFound(f"there is no run {named!r}", code="no_such_run", hint="stepward ls shows the runs")
    if len(rows) > 1:
        ids = [row["id"] for row in rows]
        raise Conflict(f"{named!r} names {len(ids)} runs", code="ambiguous_name", hint="use the id", ids=ids)
    return rows[0]


def _given(name: str, what: str) -> str:
    clean = text(name.strip())
    if not clean:
        raise UsageError(f"an empty {what}", code="bad_change")
    return clean


def _set_tags(connection: sa.Connection, run: str, names: Sequence[str]) -> None:
    if len(names) > MAX_TAGS:
        raise UsageError(f"more than {MAX_TAGS} tags", code="bad_change")
    wanted = sorted({_given(name, "tag") for name in names})
    connection.execute(sa.delete(tags).where(tags.c.run == run))
    upsert(connection, tags, [{"run": run, "tag": tag} for tag in wanted])
