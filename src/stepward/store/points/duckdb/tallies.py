"""What each series has: its number of points, its first and last step and time. Told by every commit, never counted.

A commit appends what it brought; now and then the rows of a series are folded into one. So a list of series, or the range
of a chart, costs what there are series, not what there are points.
"""

from collections.abc import Sequence
from typing import Any

import duckdb
import numpy as np

from stepward.ingest.protocols import Ints

Columns = dict[str, np.ndarray[Any, Any]]

FOLD_ROWS = 100_000
"""Rows appended before a fold is worth its while; beyond, as many as there are folded ones."""

STATISTICS = (
    "sum(n)::BIGINT AS n, min(first_step) AS first_step, max(last_step) AS last_step, min(first_time) AS first_time, "
    "max(last_time) AS last_time"
)
"""Of the rows of one series."""
_KEYS = {"tallies": "series", "step_tallies": "source, phase"}


def tally(keys: Sequence[tuple[str, Ints]], step: Ints, time: Ints) -> Columns:
    """Rows of a tally: one for each stretch of rows with equal keys."""
    change = np.zeros(len(step), np.bool_)
    change[:1] = True
    for _, column in keys:
        change[1:] |= column[1:] != column[:-1]
    starts = np.flatnonzero(change)
    columns: Columns = {name: column[starts] for name, column in keys}
    columns["n"] = np.diff(starts, append=len(step))
    columns["first_step"], columns["last_step"] = np.minimum.reduceat(step, starts), np.maximum.reduceat(step, starts)
    columns["first_time"], columns["last_time"] = np.minimum.reduceat(time, starts), np.maximum.reduceat(time, starts)
    return columns


def fold(connection: duckdb.DuckDBPyConnection) -> None:
    """Make one row of the rows of each series. In a transaction of the caller's."""
    for table, keys in _KEYS.items():
        connection.execute(
            f"CREATE TEMP TABLE folded AS SELECT {keys}, {STATISTICS} FROM {table} GROUP BY {keys} ORDER BY {keys}"
        )
        connection.execute(f"DELETE FROM {table}")
        connection.execute(f"INSERT INTO {table} SELECT * FROM folded")
        connection.execute("DROP TABLE folded")


def rows(connection: duckdb.DuckDBPyConnection) -> int:
    """Rows in both tables."""
    ((found,),) = connection.execute(
        "SELECT (SELECT count(*) FROM tallies) + (SELECT count(*) FROM step_tallies)"
    ).fetchall()
    return int(found)
