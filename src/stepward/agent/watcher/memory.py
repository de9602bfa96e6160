"""What a watcher has told and what waits to be sent: one SQLite file, each poll one transaction.

What is told of a job and the records that say so are written together, so that a kill at any moment neither loses a word
nor says one twice. Where the disk takes nothing, polls go on and the next one that it takes brings all.
"""

import contextlib
import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from stepward.agent.watcher.known import Job
from stepward.model.frames import Part
from stepward.spool.roots import warn

FORGET_US = 30 * 86_400 * 1_000_000
"""Ended jobs are remembered that long: accounting may name them again, and Slurm may use their id again."""
MERGED_BYTES = 1 << 20
"""Records of one writer that go in one frame."""
_SCHEMA = """
CREATE TABLE IF NOT EXISTS jobs (
  name TEXT PRIMARY KEY, ended INTEGER NOT NULL, seen_at INTEGER NOT NULL, data BLOB NOT NULL) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS jobs_alive ON jobs (ended, seen_at);
CREATE TABLE IF NOT EXISTS writers (writer TEXT PRIMARY KEY, next INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS outbox (
  id INTEGER PRIMARY KEY AUTOINCREMENT, writer TEXT NOT NULL, position INTEGER NOT NULL,
  about BLOB NOT NULL, parts BLOB NOT NULL);
CREATE UNIQUE INDEX IF NOT EXISTS outbox_by_writer ON outbox (writer, position);
CREATE TABLE IF NOT EXISTS notes (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
"""


class About(msgspec.Struct, frozen=True, array_like=True):
    """Where a record belongs."""

    project: str
    run: str
    attempt: str


class Told(NamedTuple):
    """A record of one writer: what was said at once."""

    writer: str
    about: About
    parts: list[Part]


class Batch(NamedTuple):
    """Records of one writer that wait: positions ``[start, end)`` of all that it has ever said."""

    writer: str
    start: int
    end: int
    about: About
    parts: list[Part]


_encode = msgspec.msgpack.encode
_jobs = msgspec.msgpack.Decoder(Job)
_parts = msgspec.msgpack.Decoder(list[Part])
_abouts = msgspec.msgpack.Decoder(About)


class Memory:
    """The file of one watcher; safe in threads."""

    def __init__(self, path: str) -> None:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        self._lock = threading.Lock()
        self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=10)
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = NORMAL")
        self._connection.executescript(_SCHEMA)
        os.chmod(path, 0o600)
        self._unwritten: list[tuple[list[Job], list[Told], dict[str, int]]] = []
        self._said_full = False

    @property
    def behind(self) -> int:
        """Polls whose words are not on disk."""
        return len(self._unwritten)

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            self._connection.close()

    # ── jobs ──

    def living(self) -> list[Job]:
        """The jobs that had not ended when they were last seen."""
        with self._lock:
            rows = self._connection.execute("SELECT data FROM jobs WHERE ended = 0").fetchall()
        return [_jobs.decode(data) for (data,) in rows]

    def job(self, name: str) -> Job | None:
        """The newest job of that name."""
        with self._lock:
            row = self._connection.execute("SELECT data FROM jobs WHERE name = ?", [name]).fetchone()
        return _jobs.decode(row[0]) if row else None

    def note(self, name: str) -> int | None:
        """A number that was kept under a name."""
        with self._lock:
            row = self._connection.execute("SELECT value FROM notes WHERE name = ?", [name]).fetchone()
        return int(row[0]) if row else None

    def keep(self, jobs: Iterable[Job], told: Sequence[Told], notes: dict[str, int]) -> bool:
        """Keep what a poll has changed and said, and what earlier ones could not; False where the disk takes nothing."""
        self._unwritten.append((list(jobs), list(told), notes))
        try:
            with self._transaction() as connection:
                for unwritten in self._unwritten:
                    _write(connection, *unwritten)
        except sqlite3.Error as error:
            if not self._said_full:
                self._said_full = True
                warn(f"the watcher cannot write down what it sees ({error}); it goes on, and tells later")
            return False
        self._unwritten.clear()
        self._said_full = False
        return True

    def forget(self, now: int) -> None:
        """Forget jobs that ended long ago."""
        with contextlib.suppress(sqlite3.Error), self._transaction() as connection:
            connection.execute("DELETE FROM jobs WHERE ended = 1 AND seen_at < ?", [now - FORGET_US])

    # ── what waits ──

    def waiting_bytes(self) -> int:
        """Bytes of all records that wait."""
        with self._lock:
            row = self._connection.execute("SELECT coalesce(sum(length(parts)), 0) FROM outbox").fetchone()
        return int(row[0])

    def writers(self, limit: int) -> list[str]:
        """Writers with records that wait, who has waited longest first."""
        query = "SELECT writer FROM outbox GROUP BY writer ORDER BY min(id) LIMIT ?"
        with self._lock:
            return [writer for (writer,) in self._connection.execute(query, [limit]).fetchall()]

    def batch(self, writer: str, most: int = 1000) -> Batch | None:
        """The oldest records of a writer, as many as go in one frame."""
        query = "SELECT position, about, parts FROM outbox WHERE writer = ? ORDER BY position LIMIT ?"
        with self._lock:
            rows = self._connection.execute(query, [writer, most]).fetchall()
        if not rows:
            return None
        start, about, size = rows[0][0], rows[0][1], 0
        parts: list[Part] = []
        count = 0
        for _, other, data in rows:
            size += len(data)
            if count and (size > MERGED_BYTES or other != about):
                break
            parts += _parts.decode(data)
            count += 1
        return Batch(writer, start, start + count, _abouts.decode(about), parts)

    def acknowledge(self, ends: dict[str, int]) -> None:
        """Forget the records of writers below the positions that the server has."""
        with self._transaction() as connection:
            connection.executemany("DELETE FROM outbox WHERE writer = ? AND position < ?", list(ends.items()))

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    self._connection.execute("ROLLBACK")
                raise


def _write(connection: sqlite3.Connection, jobs: list[Job], told: list[Told], notes: dict[str, int]) -> None:
    for job in jobs:
        row = [job.name, int(job.ended and all(one.done for files in job.outputs.values() for one in files))]
        connection.execute("INSERT OR REPLACE INTO jobs VALUES (?, ?, ?, ?)", [*row, job.seen_at, _encode(job)])
    for one in told:
        found = connection.execute("SELECT next FROM writers WHERE writer = ?", [one.writer]).fetchone()
        position = found[0] if found else 0
        connection.execute(
            "INSERT INTO outbox (writer, position, about, parts) VALUES (?, ?, ?, ?)",
            [one.writer, position, _encode(one.about), _encode(one.parts)],
        )
        connection.execute("INSERT OR REPLACE INTO writers VALUES (?, ?)", [one.writer, position + 1])
    connection.executemany("INSERT OR REPLACE INTO notes VALUES (?, ?)", list(notes.items()))
