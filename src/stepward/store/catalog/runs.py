"""Reading runs: pages, one run, its configuration, sources, history.

``projects`` arguments are the projects that the caller may see, None for all. A run that the caller may not see does not
exist for it.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa

from stepward.errors import Conflict, NotFound, UsageError
from stepward.ingest.hearing import Hearing
from stepward.model.filters import parse
from stepward.model.identity import RUN_ID
from stepward.model.launches import attempt_numbers, outer_keys
from stepward.model.resources import Run, RunConfig, RunPage, Source
from stepward.model.words import DEFAULT_PROJECT, NODES_PROJECT
from stepward.store.catalog import schema
from stepward.store.catalog.database import Database
from stepward.store.catalog.filtering import condition
from stepward.store.catalog.jobs import runs_of_jobs
from stepward.store.catalog.launches import Inside, nodes_of
from stepward.store.catalog.newest import ALL, FIRST, Metrics
from stepward.store.catalog.paging import Order
from stepward.store.catalog.reading import (
    attempt_resource,
    run_resource,
    source_resource,
)
from stepward.store.catalog.schema import attempts, configs, launches, runs, sources, tags
from stepward.store.catalog.standing import place_of, reaped_ranks, vouched_rows

Projects = Sequence[str] | None
MAX_PAGE = 500
MAX_TAGS = 100


class RunHead(msgspec.Struct, frozen=True):
    """What the other stores need to know of a run; ``attempts`` are rows in start order."""

    id: str
    project: str
    started_at: int
    attempts: list[dict[str, Any]]

    @property
    def numbers(self) -> dict[str, int]:
        """Attempt key -> number; of a launch, that of the newest attempt inside."""
        return attempt_numbers((row["key"], row["number"]) for row in self.attempts)


class Runs:
    """The runs of the catalog.

    Args:
        clock: µs since the epoch.
    """

    def __init__(self, database: Database, hearing: Hearing, clock: Callable[[], int]) -> None:
        self._database = database
        self._hearing = hearing
        self._clock = clock

    def page(
        self,
        projects: Projects,
        *,
        filter: str = "",
        sort: str | None = None,
        project: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
        metrics: Metrics = FIRST,
    ) -> RunPage:
        """A page of runs, with the newest values of ``metrics``.

        Raises:
            UsageError: ``bad_filter``, ``bad_sort``, ``bad_cursor``, ``bad_limit``.
            NotFound: ``no_such_project``; the default project always exists.
        """
        if not 1 <= limit <= MAX_PAGE:
            raise UsageError(f"limit is 1 to {MAX_PAGE}, not {limit}", code="bad_limit")
        order = Order(sort)
        where = sa.and_(visible(projects), condition(parse(filter)))
        # Runs of nodes are shown to those who name their project alone.
        where = sa.and_(where, runs.c.project != NODES_PROJECT if project is None else runs.c.project == project)
        rows: list[dict[str, Any]] = []
        with self._database.read() as connection:
            total = connection.execute(sa.select(sa.func.count()).select_from(runs).where(where)).scalar_one()
            if project is not None and total == 0:
                check_project(connection, project)
            for query in order.queries(where, cursor):
                found = connection.execute(query.limit(limit + 1 - len(rows))).mappings()
                rows += [dict(row) for row in found]
                if len(rows) > limit:
                    break
            items = self._filled(connection, rows[:limit], metrics)
        more = len(rows) > limit
        return RunPage(items, total, order.cursor(rows[limit - 1]) if more else None)

    def get(self, projects: Projects, named: str) -> Run:
        """A run by id or unique name.

        Raises:
            NotFound: ``no_such_run``.
            Conflict: ``ambiguous_name`` with the ids.
        """
        with self._database.read() as connection:
            row = find(connection, projects, named)
            return self._filled(connection, [row], ALL)[0]

    def many(self, ids: Sequence[str], metrics: Metrics) -> list[Run]:
        """The runs that exist among ``ids``, whoever may see them: for live updates."""
        with self._database.read() as connection:
            rows = connection.execute(sa.select(runs).where(runs.c.id.in_(ids))).mappings()
            return self._filled(connection, [dict(row) for row in rows], metrics)

    def head(self, projects: Projects, named: str) -> RunHead:
        """What the points and log stores need to answer for a run; raises as ``get``."""
        with self._database.read() as connection:
            row = find(connection, projects, named)
            query = sa.select(attempts).where(attempts.c.run == row["id"]).order_by(attempts.c.number)
            found = [dict(attempt) for attempt in connection.execute(query).mappings()]
            return RunHead(row["id"], row["project"], row["started_at"], found)

    def of_jobs(self, projects: Projects, cluster: str, jobs: Iterable[str]) -> dict[str, str]:
        """The runs of a Slurm cluster's jobs, by job; see ``runs_of_jobs``."""
        return runs_of_jobs(self._database, projects, cluster, jobs)

    def config(self, projects: Projects, named: str) -> RunConfig:
        """The three trees of a run; the scheduler's object is ``system.job``."""
        with self._database.read() as connection:
            run = find(connection, projects, named)["id"]
            row = connection.execute(sa.select(configs).where(configs.c.run == run)).mappings().first()
        if row is None:
            return RunConfig()
        job = {"job": row["job"]} if row["job"] else {}
        return RunConfig(row["user"], row["software"], {**row["system"], **job})

    def sources(self, projects: Projects, named: str) -> list[Source]:
        """The writers of a run: by attempt, kind, rank."""
        now = self._clock()
        with self._database.read() as connection:
            run = find(connection, projects, named)["id"]
            found = connection.execute(sa.select(attempts).where(attempts.c.run == run)).mappings()
            inside = Inside(map(dict, found))
            query = sa.select(sources).where(sources.c.run == run)
            rows = vouched_rows(connection, connection.execute(query).mappings())
        reaped = reaped_ranks(rows)
        all_sources = [
            source_resource(row, inside.newest(row["attempt"]), reaped.get(place_of(row), ()), self._hearing, now)
            for row in rows
        ]
        return sorted(all_sources, key=lambda source: (source.attempt, source.kind, source.rank or 0, source.writer))

    def _filled(self, connection: sa.Connection, rows: Sequence[dict[str, Any]], metrics: Metrics) -> list[Run]:
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
        launched = nodes_of(connection.execute(sa.select(launches).where(launches.c.run.in_(ids))).mappings())
        query = sa.select(attempts).where(attempts.c.run.in_(ids)).order_by(attempts.c.number)
        for attempt in connection.execute(query).mappings():
            nodes, ranks = seen.get((attempt["run"], attempt["key"]), (set(), set()))
            for key in (attempt["key"], *outer_keys(attempt["key"])):
                nodes.update(launched.get((attempt["run"], key), ()))
            found[attempt["run"]].attempts.append(attempt_resource(dict(attempt), sorted(nodes), len(ranks)))
        metrics.fill(connection, found)
        for tag in connection.execute(sa.select(tags).where(tags.c.run.in_(ids)).order_by(tags.c.tag)):
            found[tag.run].tags.append(tag.tag)
        return list(found.values())

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


def check_project(connection: sa.Connection, project: str) -> None:
    """Raise ``NotFound`` (``no_such_project``) for a project that never was."""
    table = schema.projects
    known = connection.execute(sa.select(table.c.name).where(table.c.name == project)).first()
    if known is None and project != DEFAULT_PROJECT:
        raise NotFound(f"there is no project {project!r}", code="no_such_project")


def visible(projects: Projects) -> sa.ColumnElement[bool]:
    """The runs of these projects."""
    return sa.true() if projects is None else runs.c.project.in_(projects)


def find(connection: sa.Connection, projects: Projects, named: str) -> dict[str, Any]:
    """The row of a run by id, unique name or unique beginning of an id; raises as ``Runs.get``."""
    ways = [runs.c.id == named]
    if not RUN_ID.fullmatch(named):
        # A node is not a run that somebody means by a name.
        ways.append(sa.and_(runs.c.name == named, runs.c.project != NODES_PROJECT))
    if named.startswith("run_") and not RUN_ID.fullmatch(named):
        ways.append(runs.c.id.startswith(named, autoescape=True))
    rows: list[dict[str, Any]] = []
    for way in ways:
        query = sa.select(runs).where(way, visible(projects)).order_by(runs.c.started_at.desc()).limit(20)
        rows = rows or [dict(row) for row in connection.execute(query).mappings()]
    if not rows:
        raise NotFound(f"there is no run {named!r}", code="no_such_run", hint="stepward ls shows the runs")
    if len(rows) > 1:
        ids = [row["id"] for row in rows]
        raise Conflict(f"{named!r} names {len(ids)} runs", code="ambiguous_name", hint="use the id", ids=ids)
    return rows[0]
