"""The catalog as an applier of committed frames: one transaction a batch, idempotent by (writer, seq).

Rows of a batch are read once, changed in memory by ``batch.Batch`` and written once, so that a thousand heartbeats cost a
few statements. States are judged again at the end, for the runs whose evidence changed. Listeners hear of it after the
commit.
"""

from collections.abc import Callable, Sequence

import sqlalchemy as sa

from stepward.ingest.hearing import Hearing
from stepward.ingest.protocols import CommittedFrame
from stepward.store.catalog import schema
from stepward.store.catalog.batch import Batch
from stepward.store.catalog.changes import Listener, nobody
from stepward.store.catalog.database import Database, upsert
from stepward.store.catalog.standing import judge


class CatalogApplier:
    """Keeps runs, attempts, sources, latest values, configuration and events as the frames say.

    Args:
        hearing: when this server could not hear, for leases.
        listener: is told what changed, after the commit.
        abandoned: is told run and metrics whose newest value was abandoned, after the commit.
        moved: is told runs whose watcher writes elsewhere now, after the commit.
    """

    def __init__(
        self,
        database: Database,
        hearing: Hearing,
        listener: Listener = nobody,
        abandoned: Callable[[str, list[str]], None] = lambda run, metrics: None,
        moved: Callable[[str], None] = lambda run: None,
    ) -> None:
        self._database = database
        self._hearing = hearing
        self._listener = listener
        self._abandoned = abandoned
        self._moved = moved

    def apply(self, frames: Sequence[CommittedFrame]) -> None:
        """Apply frames of one project, in commit order."""
        if not frames:
            return
        project = frames[0].project
        with self._database.write() as connection:
            writers = {frame.writer for frame in frames}
            positions, deleted = _positions(connection, project, writers), _deleted(connection, project, writers)
            fresh = []
            for frame in frames:
                if frame.end > positions.get(frame.writer, (0, ""))[0] and frame.writer not in deleted:
                    positions[frame.writer] = (frame.end, frame.run)
                    fresh.append(frame)
            batch = Batch(connection, project, fresh)
            for frame in fresh:
                batch.take(frame)
            changes = batch.write()
            _write_positions(connection, project, positions)
            if batch.judged:
                now = max(frame.received_at for frame in fresh)
                judge(connection, batch.judged, self._hearing, now)
        for run, metrics in batch.dropped.items():
            self._abandoned(run, metrics)
        for run in batch.moved:
            self._moved(run)
        self._listener(list(changes.values()))

    def applied(self, project: str) -> dict[str, int]:
        """Writer -> position up to which its frames have been applied."""
        with self._database.read() as connection:
            query = sa.select(schema.applied.c.writer, schema.applied.c.position)
            rows = connection.execute(query.where(schema.applied.c.project == project))
            return {row.writer: row.position for row in rows}


def _positions(connection: sa.Connection, project: str, writers: set[str]) -> dict[str, tuple[int, str]]:
    table = schema.applied
    query = sa.select(table.c.writer, table.c.position, table.c.run)
    query = query.where(table.c.project == project, table.c.writer.in_(sorted(writers)))
    return {row.writer: (row.position, row.run) for row in connection.execute(query)}


def _deleted(connection: sa.Connection, project: str, writers: set[str]) -> set[str]:
    """Writers whose run was deleted while their frames were on their way: they bring nothing back."""
    table = schema.deleted_writers
    query = sa.select(table.c.writer).where(table.c.project == project, table.c.writer.in_(sorted(writers)))
    return set(connection.execute(query).scalars())


def _write_positions(connection: sa.Connection, project: str, positions: dict[str, tuple[int, str]]) -> None:
    rows = [
        {"project": project, "writer": writer, "run": run, "position": position}
        for writer, (position, run) in positions.items()
    ]
    upsert(connection, schema.applied, rows)
