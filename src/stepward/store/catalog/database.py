"""The catalog's database: connections, one writer at a time, and the only place that knows which database it is.

SQLite in WAL mode: readers see a snapshot and never wait; writers take turns on a lock of this process, which is the
only one that owns the data folder. Everything else of the catalog is SQL that PostgreSQL runs too.
"""

import contextlib
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from stepward.errors import StepwardError, StorageFull, Unavailable


class Database:
    """Connections to one catalog.

    ``read()`` and ``write()`` raise ``StorageFull`` (``disk_full``) and ``Unavailable`` (``catalog_unavailable``) for
    what the database itself could not do; a failed ``write()`` leaves nothing behind.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.engine = sa.create_engine(f"sqlite:///{path}", pool_size=8, max_overflow=32)
        sa.event.listen(self.engine, "connect", _configure)
        sa.event.listen(self.engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))
        self._writing = threading.Lock()

    @contextlib.contextmanager
    def read(self) -> Iterator[sa.Connection]:
        """A connection whose statements all see the same snapshot."""
        with _translated(), self.engine.connect() as connection:
            yield connection

    @contextlib.contextmanager
    def write(self) -> Iterator[sa.Connection]:
        """The writing connection: one transaction, committed at the end of the block."""
        with self._writing, _translated(), self.engine.begin() as connection:
            yield connection

    def backup(self, path: str) -> None:
        """Write a consistent copy to ``path`` while readers and writers go on."""
        with _translated(), self.engine.connect() as connection:
            source = connection.connection.driver_connection
            assert isinstance(source, sqlite3.Connection)
            with contextlib.closing(sqlite3.connect(path)) as target:
                source.backup(target)

    def tidy(self) -> None:
        """Let the database refresh what its planner knows of the tables; cheap, called now and then."""
        with self.write() as connection:
            connection.exec_driver_sql("ANALYZE" if connection.dialect.name == "postgresql" else "PRAGMA optimize")

    def close(self) -> None:
        """Close all connections; the write-ahead log is folded into the file."""
        self.engine.dispose()


def upsert(
    connection: sa.Connection,
    table: sa.Table,
    rows: Sequence[dict[str, Any]],
    *,
    keep: Sequence[str] = (),
    where: Callable[[Any], sa.ColumnElement[bool]] | None = None,
) -> None:
    """Insert rows, or update those whose primary key exists.

    Args:
        rows: all with the same keys.
        keep: columns that an update leaves alone.
        where: given the new row (``.name`` is a column), says whether it replaces the present one.
    """
    if not rows:
        return
    insert = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
    keys = [column.name for column in table.primary_key]
    statement = insert(table)
    changed = {name: statement.excluded[name] for name in rows[0] if name not in (*keys, *keep)}
    if changed:
        condition = where(statement.excluded) if where else None
        statement = statement.on_conflict_do_update(index_elements=keys, set_=changed, where=condition)
    else:
        statement = statement.on_conflict_do_nothing(index_elements=keys)
    # Rows as parameters: SQLAlchemy keeps the compiled statement, which it could not with the rows inside it.
    connection.execute(statement, rows)


def _configure(connection: sqlite3.Connection, _record: object) -> None:
    # The driver's own transactions would leave reads outside of them; "begin" above opens one explicitly.
    connection.isolation_level = None
    cursor = connection.cursor()
    for pragma in (
        "journal_mode=WAL",
        "synchronous=NORMAL",
        "busy_timeout=5000",
        "cache_size=-65536",
        "mmap_size=268435456",
        "temp_store=MEMORY",
    ):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except (DBAPIError, PoolTimeout) as error:
        raise _of_ours(error) from error


def _of_ours(error: DBAPIError | PoolTimeout) -> StepwardError:
    text = str(error.orig if isinstance(error, DBAPIError) else error)
    if "full" in text or "disk I/O" in text:
        return StorageFull(
            f"the catalog could not be written: {text}", code="disk_full", hint="free space on the data folder's disk"
        )
    if "malformed" in text or "not a database" in text:
        return Unavailable(f"the catalog is damaged: {text}", code="catalog_corrupt", hint="restore a backup")
    return Unavailable(f"the catalog did not answer: {text}", code="catalog_unavailable", retry_after_s=1.0)
