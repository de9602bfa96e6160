"""Points into buckets, in two queries: the aggregates, then the values at the buckets' ends.

*First* and *last* have an exact order (``store.points.protocol``), which an ordered aggregate over all points would pay for
dearly; so the buckets are made first, and only points at the lowest and highest x of one are put in order.
"""

from typing import Any, NamedTuple

import duckdb
import numpy as np

from stepward.store.points.duckdb.selection import STRIDE, Rows, literal
from stepward.store.points.lines import INT64_MAX
from stepward.store.points.protocol import MAX_BUCKETS, Axis

_AGGREGATES = """
SELECT g, min(x) AS x, max(x) AS x_last, min(v) AS low, max(v) AS high, avg(v * {scale}) / {scale} AS mean, count(*) AS n,
       count_if(isnan(value)) AS n_nan, count_if(value = 'Infinity'::DOUBLE) AS n_posinf,
       count_if(value = '-Infinity'::DOUBLE) AS n_neginf, bool_or(rounded) AS rounded,
       min(CASE WHEN v IS NOT NULL THEN x END) AS edge, max(CASE WHEN v IS NOT NULL THEN x END) AS edge_last
FROM (
  SELECT {group}::INTEGER AS g, p.{x} AS x, p.value, p.rounded, CASE WHEN isfinite(p.value) THEN p.value END AS v
  FROM {source} WHERE {where} AND p.{x} BETWEEN {low} AND {high}
) WHERE g >= 0 GROUP BY g ORDER BY g
"""

_ENDS = """
SELECT g, min({{'x': x, 'other': other, 'v': v}}).v AS first, max({{'x': x, 'other': other, 'v': v}}).v AS last
FROM (
  SELECT {group}::INTEGER AS g, p.{x} AS x, p.{other} AS other, p.value AS v
  FROM {source} WHERE {where} AND p.{x} BETWEEN {low} AND {high} AND p.{x} IN (SELECT x FROM edges) AND isfinite(p.value)
) WHERE g >= 0 GROUP BY g ORDER BY g
"""


class Range(NamedTuple):
    """The buckets: their number at most, and both ends of their range, in steps or µs."""

    x: Axis
    low: int
    high: int
    buckets: int

    @property
    def width(self) -> int:
        """Width of a bucket."""
        return -(-(self.high - self.low + 1) // max(1, min(self.buckets, MAX_BUCKETS)))

    @property
    def column(self) -> str:
        """The column that has x."""
        return "step" if self.x == "step" else "time"

    @property
    def group(self) -> str:
        """Expression of a point's bucket, from 0 on."""
        x = f"p.{self.column}"
        # int64 arithmetic where the range fits; the wider type costs three times as much.
        fits = self.high - self.low <= INT64_MAX
        offset = f"({x} - {literal(self.low)})" if fits else f"({x}::HUGEINT - {self.low}::HUGEINT)"
        return f"{offset} // {self.width}"


def fill_buckets(connection: duckdb.DuckDBPyConnection, rows: Rows, span: Range) -> dict[str, Any]:
    """Columns with a row a bucket that has points; ``g`` is line * ``STRIDE`` + bucket."""
    words = {
        "x": span.column,
        "other": "time" if span.x == "step" else "step",
        "group": f"(({rows.line}) * {STRIDE} + {span.group})",
        "source": rows.source,
        "where": rows.where,
        "low": literal(span.low),
        "high": literal(span.high),
    }
    columns: dict[str, Any] = connection.execute(_AGGREGATES.format(scale="1.0::DOUBLE", **words)).fetchnumpy()
    if not np.isfinite(np.ma.filled(columns["mean"], 0.0)).all():  # the sum left the range of a float64
        scaled = connection.execute(_AGGREGATES.format(scale=f"{2.0**-64!r}::DOUBLE", **words)).fetchnumpy()
        columns["mean"] = scaled["mean"]
    columns["mean"] = np.ma.clip(columns["mean"], columns["low"], columns["high"])
    edges = np.unique(np.concatenate([np.ma.compressed(columns["edge"]), np.ma.compressed(columns["edge_last"])]))
    connection.register("edges", {"x": edges})
    ends = connection.execute(_ENDS.format(**words)).fetchnumpy()
    for end in ("first", "last"):
        column = np.ma.array(np.zeros(len(columns["g"])), mask=True)
        column[np.searchsorted(columns["g"], ends["g"])] = ends[end]
        column[_only_negative_zero(columns["low"]) & _only_negative_zero(columns["high"])] = -0.0
        columns[end] = column
    return columns


def _only_negative_zero(bound: Any) -> Any:
    """Where it is -0.0: the engine orders that as 0.0 and gives 0.0 back; a bucket of nothing else says so by its bounds."""
    return np.ma.filled(bound == 0, False) & np.signbit(np.ma.filled(bound, 0.0))
