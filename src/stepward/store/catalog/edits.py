"""Changing runs: what people change, deleting, and the states that time alone changes."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa

from stepward.errors import UsageError
from stepward.ingest.hearing import Hearing
from stepward.model.resources import RunChange
from stepward.store.catalog import schema
from stepward.store.catalog.bounds import MAX_LONG_TEXT, text
from stepward.store.catalog.changes import Change, Listener
from stepward.store.catalog.database import Database, upsert
from stepward.store.catalog.runs import Projects, RunHead, find
from stepward.store.catalog.schema import runs, tags
from stepward.store.catalog.standing import Rests, judge, restless

MAX_TAGS = 100
_OF_A_RUN = (
    schema.attempts,
    schema.sources,
    schema.latest,
    schema.configs,
    schema.config_leaves,
    schema.tags,
    schema.events,
    schema.diagnoses,
    schema.notice_items,
    schema.launches,
    schema.claims,
    schema.ledgers,
    schema.applied,
)


class Edits:
    """Changes of runs that do not come by frames.

    Args:
        clock: µs since the epoch.
        listener: is told what changed, after the commit.
    """

    def __init__(self, database: Database, hearing: Hearing, clock: Callable[[], int], listener: Listener) -> None:
        self._database = database
        self._hearing = hearing
        self._clock = clock
        self._listener = listener
        self._rests = Rests()

    def change(self, projects: Projects, named: str, change: RunChange) -> str:
        """Change what people may change; returns the run's id. Raises as ``Runs.get``, and ``UsageError`` ``bad_change``."""
        with self._database.write() as connection:
            run = find(connection, projects, named)
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
        return str(run["id"])

    def delete(self, run: RunHead, only_if: sa.ColumnElement[bool] | None = None) -> bool:
        """Forget a run. What its writers still send is refused; a new process may use the id again.

        Args:
            only_if: a condition on the run and its project that must still hold.

        Returns:
            Whether it was forgotten.
        """
        written = schema.applied
        with self._database.write() as connection:
            if only_if is not None and not _holds(connection, run, only_if):
                return False
            writers = connection.execute(sa.select(written.c.writer).where(written.c.run == run.id)).scalars()
            now = self._clock()
            rows = [{"project": run.project, "writer": writer, "deleted_at": now} for writer in writers]
            upsert(connection, schema.deleted_writers, rows)
            for table in _OF_A_RUN:
                connection.execute(sa.delete(table).where(table.c.run == run.id))
            connection.execute(sa.delete(runs).where(runs.c.id == run.id))
        self._listener([Change(project=run.project, run=run.id, removed=True)])
        return True

    def half_deleted(self, project: str, stored: Mapping[str, str]) -> set[str]:
        """Of runs that another store holds (writer -> run), those that were deleted: its part of that is still to be done."""
        gone, written = schema.deleted_writers, set(stored)
        with self._database.read() as connection:
            deleted = connection.execute(sa.select(gone.c.writer).where(gone.c.project == project)).scalars()
            found = {stored[writer] for writer in written.intersection(deleted)}
            return {
                run for run in found if not connection.execute(sa.select(runs.c.id).where(runs.c.id == run)).first()
            }

    def judge_live(self) -> int:
        """Judge the live runs again, because time has passed; returns how many changed."""
        now = self._clock()
        # Looking takes longer than writing, and mostly there is nothing to write: frames go on meanwhile.
        with self._database.read() as connection:
            due = restless(connection, self._hearing, now, self._rests)
        if not due:
            return 0
        with self._database.write() as connection:
            changed = judge(connection, due, self._hearing, now)
        self._listener([Change(project=project, run=run) for run, project in changed.items()])
        return len(changed)


def _holds(connection: sa.Connection, run: RunHead, condition: sa.ColumnElement[bool]) -> bool:
    query = sa.select(runs.c.id).join(schema.projects, schema.projects.c.name == runs.c.project)
    return connection.execute(query.where(runs.c.id == run.id, condition)).first() is not None


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
