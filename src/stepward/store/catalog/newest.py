"""Which newest values travel with a run: those asked for, or a few, with a count of the rest.

A run may have thousands of metrics, and a list shows a handful: a hundred runs with all of them would be tens of megabytes.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa

from stepward.errors import UsageError
from stepward.model.resources import Run
from stepward.store.catalog.reading import latest_value
from stepward.store.catalog.schema import latest

MOST_PATTERNS = 100
FEW = 20
"""Values of a run for which nobody asked in particular."""


class Metrics(msgspec.Struct, frozen=True):
    """A choice of metrics.

    Attributes:
        patterns: names, in which ``*`` stands for any characters; None: the first ``FEW``, those that the user logged
            before sampled ones, losses first, then by name.
    """

    patterns: tuple[str, ...] | None = None

    @classmethod
    def asked(cls, patterns: Sequence[str] | None) -> "Metrics":
        """What a query asks for; an empty name alone asks for none.

        Raises:
            UsageError: ``too_many_metrics``.
        """
        if patterns is None:
            return FIRST
        if len(patterns) > MOST_PATTERNS:
            raise UsageError(
                f"{len(patterns)} metrics are too many for one question",
                code="too_many_metrics",
                hint=f"at most {MOST_PATTERNS}; metrics=* asks for all",
            )
        return ALL if "*" in patterns else cls(tuple(sorted(set(patterns))))

    def fill(self, connection: sa.Connection, runs: Mapping[str, Run]) -> None:
        """Put the newest values into ``latest`` of runs (by id), and the number of others into ``latest_left_out``."""
        if self == ALL:
            _fill(connection, runs, latest.c.run.in_(list(runs)))
            return
        counts = _counts(connection, runs)
        if self.patterns is None:
            small = [run for run, count in counts.items() if count <= FEW]
            _fill(connection, runs, latest.c.run.in_(small))
            for run in counts.keys() - set(small):
                _fill(connection, runs, latest.c.run == run, most=FEW)
        elif any(self.patterns):
            _fill(connection, runs, sa.and_(latest.c.run.in_(list(runs)), self._named()))
            self._refine(runs)
        for run, count in counts.items():
            runs[run].latest_left_out = count - len(runs[run].latest)

    def _named(self) -> sa.ColumnElement[bool]:
        exact = [name for name in self.patterns or () if "*" not in name]
        like = [name for name in self.patterns or () if "*" in name]
        return sa.or_(latest.c.metric.in_(exact), *(latest.c.metric.like(_like(name), escape="\\") for name in like))

    def _refine(self, runs: Mapping[str, Run]) -> None:
        """Databases differ in whether LIKE tells upper from lower case; names do."""
        parts = (".*".join(re.escape(part) for part in name.split("*")) for name in self.patterns or ())
        matches = re.compile("|".join(parts), re.DOTALL).fullmatch
        for run in runs.values():
            run.latest = {metric: value for metric, value in run.latest.items() if matches(metric)}


ALL = Metrics(("*",))
FIRST = Metrics()


def _counts(connection: sa.Connection, runs: Mapping[str, Run]) -> dict[str, int]:
    query = (
        sa.select(latest.c.run, sa.func.count().label("n")).where(latest.c.run.in_(list(runs))).group_by(latest.c.run)
    )
    return {row.run: row.n for row in connection.execute(query)}


def _fill(
    connection: sa.Connection, runs: Mapping[str, Run], which: sa.ColumnElement[bool], most: int | None = None
) -> None:
    # The many rows of a page: plain tuples, since anything richer takes longer than the query.
    query: sa.Select[Any] = sa.select(latest.c.run, latest.c.metric, latest.c.step, latest.c.value).where(which)
    if most is not None:
        query = query.order_by(latest.c.system, _telling(), latest.c.metric).limit(most)
    for run, metric, step, value in connection.execute(query).fetchall():
        runs[run].latest[metric] = latest_value(step, value)


def _telling() -> sa.ColumnElement[int]:
    """How little a metric says at first sight, by its name. Cheap: it is asked of each of thousands of metrics."""
    return sa.case((latest.c.metric == "loss", 0), (latest.c.metric.like("%loss%"), 1), else_=2)


def _like(pattern: str) -> str:
    return re.sub(r"([\\%_])", r"\\\1", pattern).replace("*", "%")
