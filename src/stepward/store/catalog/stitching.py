"""Stitching attempts by step, for the ``latest`` table: which values belong to the surviving history.

Attempt i survives for steps below the first step of every later attempt; what it logged beyond is abandoned and is no
newest value of anything. ``system/`` metrics count samples, not steps: there the latest time is the newest.
"""

from collections.abc import Callable, Iterable
from typing import Any

import sqlalchemy as sa

from stepward.store.catalog import schema

Row = dict[str, Any]
NO_RANK = (1 << 31) - 1
"""Rank of values that no rank logged: behind every rank."""


class Stitching:
    """The limits of each attempt of a run, from its rows of ``attempts``."""

    def __init__(self, attempts: Iterable[Row]) -> None:
        self._limits: dict[str, int | None] = {}
        limit: int | None = None
        for row in sorted(attempts, key=lambda row: -row["number"]):
            self._limits[row["key"]] = limit
            first = row["first_step"]
            if first is not None:
                limit = first if limit is None else min(limit, first)

    def abandons(self, value: Row) -> bool:
        """Whether a row of ``latest`` lies beyond its attempt's limit."""
        limit = self._limits.get(value["attempt"])
        return not value["system"] and limit is not None and value["step"] >= limit

    def drop_abandoned(self, connection: sa.Connection, run: str) -> list[str]:
        """Delete the newest values that are abandoned by now; returns their metrics."""
        table, dropped = schema.latest, []
        for attempt, limit in self._limits.items():
            if limit is not None:
                beyond = sa.and_(table.c.run == run, table.c.attempt == attempt, table.c.step >= limit)
                statement = sa.delete(table).where(beyond, table.c.system.is_(False)).returning(table.c.metric)
                dropped += [row.metric for row in connection.execute(statement)]
        return dropped


def newer(one: Row, other: Row) -> bool:
    """Whether ``one`` is the newer value of a metric: higher step, then lower rank, then later time."""
    if one["system"]:
        return bool(one["time"] >= other["time"])
    return (one["step"], -one["rank"], one["time"]) >= (other["step"], -other["rank"], other["time"])


def replaces(system: bool) -> Callable[[Any], sa.ColumnElement[bool]]:
    """``newer`` as SQL: the condition under which a row replaces the present one of the table."""
    old = schema.latest.c

    def condition(new: Any) -> sa.ColumnElement[bool]:
        if system:
            return sa.and_(new.time >= old.time)
        same_step, same_rank = new.step == old.step, new.rank == old.rank
        return sa.or_(
            new.step > old.step,
            sa.and_(same_step, new.rank < old.rank),
            sa.and_(same_step, same_rank, new.time >= old.time),
        )

    return condition
