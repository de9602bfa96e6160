"""One project's DuckDB file: opened lazily and with care, one writer at a time, any number of readers.

DuckDB's own checkpoints are off: one that meets a full disk would invalidate the whole database, while a commit that does
rolls back cleanly. So this module checkpoints when the write-ahead log has grown and there is room for it. A database that
was invalidated nevertheless is opened again as soon as nobody reads it. A file may rest: closed until it is used again.
"""

import contextlib
import os
import shutil
import threading
import time
from collections.abc import Iterator

import duckdb

from stepward.errors import IncompatibleVersion, StepwardError, StorageFull, Unavailable
from stepward.store.layout import damaged
from stepward.store.points.duckdb.schema import CREATE, FORMAT, MIGRATIONS

CHECKPOINT_BYTES = 32 << 20
"""Size of the write-ahead log at which it is folded into the file: about a million points."""
RESERVE_BYTES = 8 << 20
"""Free space, beside room for the next checkpoint, below which nothing more is taken."""
MEMORY_LIMIT = "512MB"
"""Buffers of a file that is open alone."""
CLOSE_WAIT_S = 5.0
"""A download that nobody reads on must not keep the server from stopping."""


class ProjectFile:
    """The file ``points.duckdb`` in a project's folder.

    Args:
        folder: the project's folder, created on the first write.
        memory_limit: DuckDB's buffers for this file.
    """

    def __init__(self, folder: str, memory_limit: str = MEMORY_LIMIT) -> None:
        self.path = f"{folder}/points.duckdb"
        self._folder = folder
        self._memory_limit = memory_limit
        self._gate = threading.Condition()
        self._writing = threading.RLock()
        self._root: duckdb.DuckDBPyConnection | None = None
        self._users = 0
        self._swapping = False
        self._folding = True
        self.used_at = time.monotonic()
        self._invalid = False
        self._closed = False

    def exists(self) -> bool:
        """Whether anything was ever written."""
        return self._root is not None or os.path.exists(self.path)

    @contextlib.contextmanager
    def read(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A connection within one read transaction: all its queries see the same moment."""
        with self._connection() as connection:
            connection.execute("BEGIN TRANSACTION READ ONLY")
            yield connection
        self.used_at = time.monotonic()

    @contextlib.contextmanager
    def write(self, room: int = 0) -> Iterator[duckdb.DuckDBPyConnection]:
        """A connection within a transaction that commits at the end of the block, or rolls back.

        Args:
            room: bytes that will be written, about; StorageFull when the disk has not got them. 0 = try anyway.
        """
        with self._writing:
            if room:
                self._check_room(room)
            with self._connection() as connection:
                connection.execute("BEGIN TRANSACTION")
                yield connection
                connection.execute("COMMIT")
            self._checkpoint()

    @contextlib.contextmanager
    def plain(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A connection outside of any transaction, for statements that bring their own."""
        with self._connection() as connection:
            yield connection

    @property
    def opened(self) -> bool:
        """Whether the engine holds the file now."""
        return self._root is not None

    def limit_memory(self, limit: str) -> None:
        """From now on the engine's buffers for this file have that limit."""
        self._memory_limit = limit
        with self._gate, contextlib.suppress(duckdb.Error):
            if self._root is not None:
                self._root.execute(f"SET memory_limit = '{limit}'")

    def rest(self) -> bool:
        """Close the file until it is used again; False when somebody uses it now."""
        if not self._writing.acquire(blocking=False):
            return False
        try:
            with self._gate:
                if self._users or not self._folding:
                    return False
                self._let_go()
                return True
        finally:
            self._writing.release()

    def close(self) -> None:
        """Wait for readers, though not for ever, fold the log into the file and close it."""
        with self._writing, self._gate:
            self._closed = True
            self._gate.wait_for(lambda: not self._users, timeout=CLOSE_WAIT_S)
            self._let_go()

    @contextlib.contextmanager
    def attached(self, other: str) -> Iterator[duckdb.DuckDBPyConnection]:
        """A connection that also has the database ``other``, as ``fresh``; made where there is none."""
        quoted = other.replace("'", "''")
        with self._connection() as connection:
            connection.execute(f"ATTACH '{quoted}' AS fresh")
            try:
                yield connection
            finally:
                with contextlib.suppress(duckdb.Error):
                    connection.execute("ROLLBACK")
                connection.execute("DETACH fresh")

    @contextlib.contextmanager
    def without_checkpoints(self) -> Iterator[None]:
        """Fold nothing into the file meanwhile, so that row numbers stay as they are."""
        with self._writing:
            self._folding = False
        try:
            yield
        finally:
            self._folding = True

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        """Keep every writer out."""
        with self._writing:
            yield

    def replace(self, new: str) -> bool:
        """Put the closed database ``new`` in the place of the file. Within ``hold``.

        Readers end first; new ones wait. False when they took too long, or the file's log could not be folded in, which
        would be taken for the new file's: nothing was changed then.
        """
        with self._gate:
            self._swapping = True
            try:
                if not self._gate.wait_for(lambda: not self._users, timeout=CLOSE_WAIT_S):
                    return False
                self._let_go()
                if os.path.exists(f"{self.path}.wal"):
                    return False
                os.rename(new, self.path)
                _sync_folder(self._folder)
                return True
            finally:
                self._swapping = False
                self._gate.notify_all()

    def _let_go(self) -> None:
        if self._root is not None:
            root, self._root = self._root, None
            with contextlib.suppress(duckdb.Error):
                if self._has_room():
                    root.execute("CHECKPOINT")
            root.close()

    @contextlib.contextmanager
    def _connection(self) -> Iterator[duckdb.DuckDBPyConnection]:
        with self._gate:
            self._gate.wait_for(lambda: not self._swapping)
            cursor = self._open().cursor()
            self._users += 1
        try:
            yield cursor
        except duckdb.Error as error:
            raise self._translated(error) from error
        finally:
            with contextlib.suppress(duckdb.Error):
                cursor.close()  # rolls an open transaction back
            with self._gate:
                self._users -= 1
                self._gate.notify_all()

    def _open(self) -> duckdb.DuckDBPyConnection:
        if self._closed:
            raise Unavailable(f"{self.path} is closed", code="store_closed")
        if self._invalid and self._root is not None:
            if self._users:
                raise Unavailable(f"{self.path} is opened again after a failure", code="store_failed")
            with contextlib.suppress(duckdb.Error):
                self._root.close()
            self._root = None
        if self._root is None:
            self._root = self._connect()
            self._invalid = False
        return self._root

    def _connect(self) -> duckdb.DuckDBPyConnection:
        try:
            if os.path.exists(self.path):
                self._migrate(self._format())
            else:
                self._create()
            return self._database(self.path)
        except duckdb.Error as error:
            raise self._translated(error) from error
        except OSError as error:
            raise Unavailable(f"{self.path} can't be opened: {error}", code="store_failed") from error

    def _database(self, path: str, *, read_only: bool = False) -> duckdb.DuckDBPyConnection:
        config: dict[str, str | bool | int | float | list[str]] = {
            "memory_limit": self._memory_limit,
            "checkpoint_threshold": "1TB",
        }
        return duckdb.connect(path, read_only=read_only, config=config)

    def _create(self) -> None:
        """Make the file under another name, so that a kill leaves none or a whole one."""
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        new = f"{self.path}.new"
        for left in (new, f"{new}.wal"):
            with contextlib.suppress(FileNotFoundError):
                os.remove(left)
        with contextlib.closing(self._database(new)) as database:
            database.execute(f"BEGIN; {CREATE} COMMIT")
        os.rename(new, self.path)

    def _format(self) -> int:
        """Look at the version without writing, so that a newer file stays as it is."""
        with contextlib.closing(self._database(self.path, read_only=True)) as probe:
            known = probe.execute("SELECT 1 FROM duckdb_tables() WHERE table_name = 'format'").fetchall()
            rows = probe.execute("SELECT max(version) FROM format").fetchall() if known else [(None,)]
        version = rows[0][0]
        if version is None:
            raise self._damaged("it has no format number")
        if version > FORMAT:
            raise IncompatibleVersion(
                f"{self.path} has format {version}, this version reads up to {FORMAT}",
                code="newer_format",
                hint="upgrade stepward; the file was left as it is",
            )
        return int(version)

    def _migrate(self, version: int) -> None:
        """Bring an older file up to date; a copy of it as it was stays beside it."""
        if version == FORMAT:
            return
        with contextlib.closing(self._database(self.path)) as database:
            database.execute("CHECKPOINT")
        size = os.path.getsize(self.path)
        self._check_room(size)
        kept = f"{self.path}.format{version}"
        shutil.copyfile(self.path, f"{kept}.partial")
        os.rename(f"{kept}.partial", kept)
        with contextlib.closing(self._database(self.path)) as database:
            database.execute("BEGIN")
            for older in range(version, FORMAT):
                database.execute(MIGRATIONS[older])
            database.execute("COMMIT")
            database.execute("CHECKPOINT")

    def _check_room(self, room: int) -> None:
        if not self._has_room(room):
            raise StorageFull(
                f"the disk of {self._folder} is full", code="disk_full", hint="make space; serving goes on meanwhile"
            )

    def room_for(self, room: int) -> bool:
        """Whether the disk has got that many bytes and the reserve beside."""
        return self._has_room(room // 2)

    def _has_room(self, room: int = 0) -> bool:
        folder = self._folder if os.path.isdir(self._folder) else os.path.dirname(os.path.dirname(self._folder))
        try:
            space = os.statvfs(folder)
        except OSError:
            return True  # let the write itself say what is wrong
        return space.f_bavail * space.f_frsize >= RESERVE_BYTES + self._log_bytes() + 2 * room

    def _log_bytes(self) -> int:
        try:
            return os.path.getsize(f"{self.path}.wal")
        except OSError:
            return 0

    def _checkpoint(self) -> None:
        if not self._folding or self._log_bytes() < CHECKPOINT_BYTES or not self._has_room():
            return
        with contextlib.suppress(StepwardError), self.plain() as connection:
            connection.execute("CHECKPOINT")

    def _translated(self, error: duckdb.Error) -> StepwardError:
        text = str(error)
        if isinstance(error, duckdb.FatalException | duckdb.InternalException):
            self._invalid = True
        if "No space left" in text or "Disk quota" in text:
            return StorageFull(
                f"the disk of {self._folder} is full", code="disk_full", hint="make space; serving goes on meanwhile"
            )
        if "newer version of DuckDB" in text or "created with a newer" in text:
            return IncompatibleVersion(
                f"{self.path} was written by a newer DuckDB", code="newer_format", hint="upgrade stepward[server]"
            )
        if "not a valid DuckDB" in text or "orrupt" in text or "checksum" in text:
            return self._damaged(text.splitlines()[0][:200])
        return Unavailable(f"{self.path}: {text.splitlines()[0][:300]}", code="store_failed")

    def _damaged(self, why: str) -> Unavailable:
        return damaged(self.path, why, away=f"{self.path} and {self.path}.wal", content="points")


def _sync_folder(path: str) -> None:
    """Make a rename last through a loss of power."""
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
