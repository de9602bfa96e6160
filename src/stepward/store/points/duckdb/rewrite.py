"""A project's file written anew: points in order of series and step, without what was deleted.

Queries then read what they need and little else, a point takes fewer bytes, and space comes back to the disk. The copy is
made beside the file, in pieces that fit in memory, while reading and writing go on; at the end writers wait for what
was committed meanwhile and for the swap. Rows are told apart by their row numbers, which stay as they are while nothing is
folded into the file and nothing deleted; so the file does not checkpoint meanwhile, and a deletion ends the rewrite.
A kill leaves the old file, or the new one, whole.
"""

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import NamedTuple

import duckdb

from stepward.store.points.duckdb.file import ProjectFile
from stepward.store.points.duckdb.schema import CREATE

QUIET_S = 60.0
"""Nobody has written for that long: the project's runs have ended, or pause."""
LEAST_ROWS = 100_000
"""Points out of order, or deleted, that are worth a rewrite where the project is quiet..."""
LIVE_ROWS = 4_000_000
"""...and where it is not. In either case at least a third of all, so that a point is written a few times in its life."""
SHARE = 3
PAUSE = 30
"""Beside writers, that many times as long as the last rewrite took: else a quarter of the CPU of ingest at full speed goes
into rewrites (20 million points in one go)."""
PIECE_ROWS = 2_000_000
BYTES_A_POINT = 16
"""Of the new file, at most; numbers that look like noise take 12."""

_WHOLE = ("sources", "series", "phase_names", "writers", "unsettled", "tallies", "step_tallies")
_GROWING = ("steps", "phases", "parts")
_ORDERS = {
    "points": "series, step, time",
    "steps": "source, start",
    "phases": "source, phase, start",
    "parts": "cursor",
}


class Disorder(NamedTuple):
    """Points of a file: all, and those that are out of order or deleted but there."""

    points: int
    loose: int

    def worth(self, idle_s: float, rests: float) -> bool:
        """Whether a rewrite would pay.

        Args:
            idle_s: since the last commit.
            rests: since the last rewrite, in multiples of what that took.
        """
        quiet = idle_s >= QUIET_S
        least = LEAST_ROWS if quiet else LIVE_ROWS
        return self.loose >= max(least, self.points // SHARE) and (quiet or rests >= PAUSE)


def disorder(connection: duckdb.DuckDBPyConnection) -> Disorder:
    """How much of a file is out of order."""
    ((points, ordered, deleted),) = connection.execute(
        "SELECT (SELECT coalesce(sum(n), 0)::BIGINT FROM tallies), sorted, deleted FROM layout"
    ).fetchall()
    return Disorder(points, max(points + deleted - ordered, deleted))


def rewrite(file: ProjectFile, points: int, stop: Callable[[], bool]) -> bool:
    """Write a file anew; False when it was ended by ``stop``, for want of space, or because readers held the file.

    Args:
        points: how many there are.
        stop: asked between two pieces; also True when rows were deleted.

    Raises:
        StepwardError: the store failed; the file is as it was.
    """
    new = f"{file.path}.rewrite"
    remove_left(file.path)
    if not file.room_for(points * BYTES_A_POINT + os.path.getsize(file.path) // 4):
        return False
    try:
        with file.without_checkpoints():
            if not _copy(file, new, stop):
                return False
            with file.hold():
                if stop() or not _finish(file, new):
                    return False
                return file.replace(new)
    finally:
        remove_left(file.path)


def remove_left(path: str) -> None:
    """Remove what an earlier rewrite left."""
    for left in (f"{path}.rewrite", f"{path}.rewrite.wal"):
        with contextlib.suppress(FileNotFoundError):
            os.remove(left)


def _copy(file: ProjectFile, new: str, stop: Callable[[], bool]) -> bool:
    """Copy what is there now, of one moment, in order."""
    with file.read() as moment:
        ends = {table: _end(moment, table) for table in _ORDERS}
        wheres = [("points", f"series BETWEEN {first} AND {last}") for first, last in _pieces(moment)]
    wheres += [(table, "TRUE") for table in _GROWING]
    with file.attached(new) as connection:
        connection.execute(CREATE.replace("CREATE TABLE ", "CREATE TABLE fresh.").replace("INTO ", "INTO fresh."))
        connection.execute("CREATE TABLE fresh.until (name VARCHAR, row BIGINT)")
        for table, where in wheres:
            if stop():
                return False
            _insert(connection, table, f"{where} AND rowid <= {ends[table]}")
        for table, end in ends.items():
            connection.execute("INSERT INTO fresh.until VALUES (?, ?)", [table, end])
        connection.execute("UPDATE fresh.layout SET sorted = (SELECT count(*) FROM fresh.points)")
        connection.execute("CHECKPOINT fresh")
    return True


def _finish(file: ProjectFile, new: str) -> bool:
    """Copy what was committed meanwhile, and the small tables. Nobody writes now."""
    with file.attached(new) as connection:
        connection.execute("BEGIN")
        for table, end in connection.execute("SELECT name, row FROM fresh.until").fetchall():
            connection.execute(f"INSERT INTO fresh.{table} SELECT * FROM {table} WHERE rowid > {end}")
        for table in _WHOLE:
            connection.execute(f"INSERT INTO fresh.{table} SELECT * FROM {table}")
        connection.execute("DROP TABLE fresh.until")
        connection.execute("COMMIT")
        same = all(_count(connection, table) == _count(connection, f"fresh.{table}") for table in (*_ORDERS, *_WHOLE))
        connection.execute("CHECKPOINT fresh")
    return same and not os.path.exists(f"{new}.wal")


def _insert(connection: duckdb.DuckDBPyConnection, table: str, where: str) -> None:
    connection.execute(f"INSERT INTO fresh.{table} SELECT * FROM {table} WHERE {where} ORDER BY {_ORDERS[table]}")


def _pieces(connection: duckdb.DuckDBPyConnection) -> Iterator[tuple[int, int]]:
    """Ranges of series with about ``PIECE_ROWS`` points each."""
    first, rows, last = 0, 0, -1
    told = connection.execute("SELECT series, sum(n)::BIGINT FROM tallies GROUP BY series ORDER BY series").fetchall()
    for last, n in told:
        rows += n
        if rows >= PIECE_ROWS:
            yield first, last
            first, rows = last + 1, 0
    if rows:
        yield first, last


def _end(connection: duckdb.DuckDBPyConnection, table: str) -> int:
    ((end,),) = connection.execute(f"SELECT coalesce(max(rowid), -1) FROM {table}").fetchall()
    return int(end)


def _count(connection: duckdb.DuckDBPyConnection, table: str) -> int:
    ((count,),) = connection.execute(f"SELECT count(*) FROM {table}").fetchall()
    return int(count)
