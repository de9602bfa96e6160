"""The index of a project's output: one SQLite file of streams and their pieces.

A stream is a sequence of pieces: *sealed* ones rest compressed in blobs, the newest bytes inline, so that one transaction
takes output and position together. A piece knows its first byte and how many newlines precede it, which finds any line.
"""

import contextlib
import os
import sqlite3
import threading
from collections.abc import Iterator

from stepward.errors import IncompatibleVersion, StepwardError, StorageFull, Unavailable
from stepward.store.layout import damaged

FORMAT = 1
"""Raised with every change of the tables; a file of a higher number is refused untouched."""

_CREATE = f"""
CREATE TABLE writers (writer TEXT PRIMARY KEY, run TEXT NOT NULL, position INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE streams (
  id INTEGER PRIMARY KEY AUTOINCREMENT, run TEXT NOT NULL, writer TEXT NOT NULL, name TEXT NOT NULL,
  attempt TEXT NOT NULL, rank INTEGER, node TEXT NOT NULL,
  expected INTEGER NOT NULL DEFAULT 0, bytes INTEGER NOT NULL DEFAULT 0, newlines INTEGER NOT NULL DEFAULT 0,
  open_line INTEGER NOT NULL DEFAULT 0, lost INTEGER NOT NULL DEFAULT 0, last_at INTEGER);
CREATE UNIQUE INDEX stream_of_writer ON streams (writer, name, coalesce(rank, -1));
CREATE INDEX streams_of_run ON streams (run);
CREATE TABLE pieces (
  stream INTEGER NOT NULL, start INTEGER NOT NULL, bytes INTEGER NOT NULL, newlines_before INTEGER NOT NULL,
  marks BLOB NOT NULL, data BLOB, PRIMARY KEY (stream, start));
PRAGMA user_version = {FORMAT};
"""


class LogIndex:
    """The file ``<folder>/index.db``, made on the first write."""

    def __init__(self, folder: str) -> None:
        self.path = f"{folder}/index.db"
        self._folder = folder
        self._writing = threading.Lock()
        self._writer: sqlite3.Connection | None = None

    def exists(self) -> bool:
        """Whether anything was ever written."""
        return self._writer is not None or os.path.exists(self.path)

    @contextlib.contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """A connection within a transaction that commits at the end of the block, or rolls back."""
        with self._writing, self._translated():
            if self._writer is None:
                self._writer = self._open_for_writing()
            connection = self._writer
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
                raise

    @contextlib.contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """A connection within one read transaction: all its queries see the same moment."""
        with self._translated(), contextlib.closing(self._connect()) as connection:
            self._check_format(connection)
            connection.execute("BEGIN")
            yield connection

    @contextlib.contextmanager
    def backup(self, path: str) -> Iterator[sqlite3.Connection]:
        """Write a consistent copy to ``path`` while writing goes on; gives a connection to the copy."""
        with (
            self._translated(),
            contextlib.closing(self._connect()) as connection,
            contextlib.closing(sqlite3.connect(path)) as copy,
        ):
            connection.backup(copy)
            yield copy

    def close(self) -> None:
        """Let go of the file."""
        with self._writing:
            if self._writer is not None:
                self._writer.close()
                self._writer = None

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, timeout=30, isolation_level=None, check_same_thread=False)
        connection.row_factory = sqlite3.Row
        return connection

    def _open_for_writing(self) -> sqlite3.Connection:
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        connection = self._connect()
        try:
            if connection.execute("PRAGMA user_version").fetchone()[0] == 0:
                connection.executescript(f"BEGIN; {_CREATE} COMMIT;")
            self._check_format(connection)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
        except BaseException:
            connection.close()
            raise
        return connection

    def _check_format(self, connection: sqlite3.Connection) -> None:
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version > FORMAT:
            raise IncompatibleVersion(
                f"{self.path} has format {version}, this version reads up to {FORMAT}",
                code="newer_format",
                hint="upgrade stepward; the file was left as it is",
            )

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise self._named(error) from error
        except OSError as error:
            raise Unavailable(f"{self.path}: {error}", code="store_failed") from error

    def _named(self, error: sqlite3.Error) -> StepwardError:
        name = getattr(error, "sqlite_errorname", "")
        if name == "SQLITE_FULL":
            return StorageFull(
                f"the disk of {self._folder} is full", code="disk_full", hint="make space; serving goes on meanwhile"
            )
        if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
            return damaged(self.path, str(error), away=f"the folder {self._folder}", content="output")
        return Unavailable(f"{self.path}: {error}", code="store_failed")
