"""Projects, and how long each keeps the runs that have ended.

A run's age counts from ``ended_at``. A run that is live, or has no end, never expires.
"""

from collections.abc import Callable

import msgspec
import sqlalchemy as sa

from stepward.errors import NotFound, UsageError
from stepward.model.resources import Project, ProjectChange, instant
from stepward.model.words import DEFAULT_PROJECT
from stepward.store.catalog.database import Database, upsert
from stepward.store.catalog.runs import Projects
from stepward.store.catalog.schema import projects, runs

LEAST_S, MOST_S = 60.0, 1e10
"""A shorter retention would delete runs before anybody saw how they ended; a longer one is beyond the clock."""


class Retention:
    """The projects of the catalog.

    Args:
        clock: µs since the epoch.
    """

    def __init__(self, database: Database, clock: Callable[[], int]) -> None:
        self._database = database
        self._clock = clock

    def projects(self, visible: Projects) -> list[Project]:
        """The projects that the caller may see, by name."""
        with self._database.read() as connection:
            return self._read(connection, sa.true() if visible is None else projects.c.name.in_(visible))

    def get(self, name: str) -> Project:
        """One project; the default project always exists.

        Raises:
            NotFound: ``no_such_project``.
        """
        with self._database.read() as connection:
            return self._one(connection, name)

    def change(self, name: str, change: ProjectChange, *, dry_run: bool = False) -> Project:
        """Change a project; with ``dry_run`` say what that would make of it, and change nothing.

        Raises:
            NotFound: ``no_such_project``.
            UsageError: ``bad_retention``.
        """
        wanted = change.retention_s
        if wanted is not msgspec.UNSET and wanted is not None and not LEAST_S <= wanted <= MOST_S:
            raise UsageError(
                f"a retention of {wanted:g} s is out of bounds",
                code="bad_retention",
                hint=f"{LEAST_S:.0f} to {MOST_S:.0f} seconds, or null to keep runs for ever",
            )
        if dry_run:
            found = self.get(name)
            if wanted is not msgspec.UNSET:
                found.retention_s, found.expired = wanted, self._would_expire(name, wanted)
            return found
        with self._database.write() as connection:
            known = self._one(connection, name)
            if wanted is not msgspec.UNSET:
                row = {"name": known.name, "created_at": self._clock(), "retention_s": wanted}
                upsert(connection, projects, [row], keep=("created_at",))
            return self._one(connection, name)

    def expired(self, limit: int) -> list[str]:
        """Ids of runs that have expired, longest ago first."""
        query = sa.select(runs.c.id).join(projects, projects.c.name == runs.c.project).where(self.over)
        with self._database.read() as connection:
            return list(connection.execute(query.order_by(runs.c.ended_at).limit(limit)).scalars())

    @property
    def over(self) -> sa.ColumnElement[bool]:
        """Whether a run, joined with its project, has expired now."""
        return _ended_before(self._clock() - projects.c.retention_s * 1e6)

    def _would_expire(self, name: str, retention_s: float | None) -> int:
        if retention_s is None:
            return 0
        over = _ended_before(sa.literal(self._clock() - retention_s * 1e6))
        query = sa.select(sa.func.count()).select_from(runs).where(runs.c.project == name, over)
        with self._database.read() as connection:
            return int(connection.execute(query).scalar_one())

    def _one(self, connection: sa.Connection, name: str) -> Project:
        found = self._read(connection, projects.c.name == name)
        if found:
            return found[0]
        if name != DEFAULT_PROJECT:
            raise NotFound(f"there is no project {name!r}", code="no_such_project", hint="stepward project ls")
        return Project(name=name, created_at=instant(self._clock()))

    def _read(self, connection: sa.Connection, which: sa.ColumnElement[bool]) -> list[Project]:
        query = sa.select(
            projects,
            sa.func.count(runs.c.id).label("runs"),
            _count(runs.c.live.is_(True)).label("live"),
            _count(self.over).label("expired"),
        ).select_from(projects.outerjoin(runs, runs.c.project == projects.c.name))
        query = query.where(which).group_by(*projects.c).order_by(projects.c.name)
        return [
            Project(
                name=row.name,
                runs=row.runs,
                live=row.live,
                created_at=instant(row.created_at),
                retention_s=row.retention_s,
                expired=row.expired,
            )
            for row in connection.execute(query)
        ]


def _ended_before(instant_us: sa.ColumnElement[float]) -> sa.ColumnElement[bool]:
    return sa.and_(runs.c.live.is_(False), runs.c.ended_at < instant_us)


def _count(condition: sa.ColumnElement[bool]) -> sa.ColumnElement[int]:
    return sa.func.coalesce(sa.func.sum(sa.case((condition, 1), else_=0)), 0)
