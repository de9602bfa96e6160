"""Points into buckets: first the aggregates, then the values at the buckets' ends.

*First* and *last* have an exact order (``store.points.protocol``), which an ordered aggregate over all points would pay for
dearly; so the buckets are made first, and of the points at the lowest and highest x of one, only those that share an x are
put in order. In the same way values that are not finite are counted apart only where there are any.
"""

from typing import Any, NamedTuple

import duckdb
import numpy as np

from stepward.store.points.duckdb.selection import STRIDE, Rows, literal
from stepward.store.points.lines import INT64_MAX
from stepward.store.points.protocol import MAX_BUCKETS, Axis

Columns = dict[str, Any]
Words = dict[str, str]

_FINITE = """
SELECT g, min(x) AS x, max(x) AS x_last, min(value) AS low, max(value) AS high, avg(value) AS mean, count(*) AS n
FROM (
  SELECT {group}::INTEGER AS g, p.{x} AS x, p.value
  FROM {source} WHERE {where} AND p.{x} BETWEEN {low} AND {high}
) WHERE g >= 0 GROUP BY g
"""

_ANY = """
SELECT g, min(x) AS x, max(x) AS x_last, min(v) AS low, max(v) AS high, avg(v * {scale}) / {scale} AS mean, count(*) AS n,
       count_if(isnan(value)) AS n_nan, count_if(value = 'Infinity'::DOUBLE) AS n_posinf,
       count_if(value = '-Infinity'::DOUBLE) AS n_neginf,
       min(CASE WHEN v IS NOT NULL THEN x END) AS edge, max(CASE WHEN v IS NOT NULL THEN x END) AS edge_last
FROM (
  SELECT {group}::INTEGER AS g, p.{x} AS x, p.value, CASE WHEN isfinite(p.value) THEN p.value END AS v
  FROM {source} WHERE {where} AND p.{x} BETWEEN {low} AND {high}
) WHERE g >= 0 GROUP BY g
"""

_AT_EDGES = """
FROM (
  SELECT {group}::INTEGER AS g, p.{x} AS x, p.{other} AS other, p.value AS v
  FROM {source} WHERE {joined} AND p.{x} BETWEEN {low} AND {high} AND p.{x} IN (SELECT x FROM edges) AND isfinite(p.value)
) WHERE g >= 0
"""
_ENDS = f"SELECT g, x, min(v) AS low, max(v) AS high {_AT_EDGES} GROUP BY g, x"
_TIES = f"""
SELECT g, min({{{{'x': x, 'other': other, 'v': v}}}}).v AS first, max({{{{'x': x, 'other': other, 'v': v}}}}).v AS last
{_AT_EDGES} GROUP BY g
"""

_ROUNDED = (
    "SELECT 1 FROM {source} WHERE {where} AND p.{x} BETWEEN {low} AND {high} AND p.rounded AND ({line}) >= 0 LIMIT 1"
)


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


def fill_buckets(connection: duckdb.DuckDBPyConnection, rows: Rows, span: Range) -> Columns:
    """Columns with a row a bucket that has points, in order of ``g``, which is line * ``STRIDE`` + bucket."""
    words = _words(rows, span)
    columns = _aggregates(connection, words)
    columns["mean"] = np.ma.clip(columns["mean"], columns["low"], columns["high"])
    edges = {"first": columns.pop("edge"), "last": columns.pop("edge_last")}
    for end, at in edges.items():
        columns[end] = np.ma.array(np.zeros(len(at)), mask=np.ma.getmaskarray(at).copy())
    everywhere = {end: ~np.ma.getmaskarray(at) for end, at in edges.items()}
    tied = everywhere if rows.crowded else _fill_ends(connection, words, columns, edges)
    _fill_ties(connection, words, columns, edges, tied)
    for end in edges:
        columns[end][_only_negative_zero(columns["low"]) & _only_negative_zero(columns["high"])] = -0.0
    return columns


def any_rounded(connection: duckdb.DuckDBPyConnection, rows: Rows, span: Range) -> bool:
    """Whether the buckets hold an integer that was rounded. Asked apart, since zone maps answer it for most files."""
    return bool(connection.execute(_ROUNDED.format(**_words(rows, span))).fetchall())


def _words(rows: Rows, span: Range) -> Words:
    return {
        "x": span.column,
        "other": "time" if span.x == "step" else "step",
        "group": f"(({rows.line}) * {STRIDE} + {span.group})",
        "line": rows.line,
        "source": rows.source,
        "where": rows.where,
        "joined": rows.joined,
        "low": literal(span.low),
        "high": literal(span.high),
    }


def _aggregates(connection: duckdb.DuckDBPyConnection, words: Words) -> Columns:
    columns = _in_order(connection.execute(_FINITE.format(**words)).fetchnumpy())
    # NaN is the engine's greatest number, so that bounds are finite where everything is.
    if all(np.isfinite(columns[name]).all() for name in ("low", "high", "mean")):
        nothing = np.zeros(len(columns["g"]), np.int64)
        none = {"n_nan": nothing, "n_posinf": nothing, "n_neginf": nothing}
        return columns | none | {"edge": columns["x"], "edge_last": columns["x_last"]}
    columns = _in_order(connection.execute(_ANY.format(scale="1.0::DOUBLE", **words)).fetchnumpy())
    if not np.isfinite(np.ma.filled(columns["mean"], 0.0)).all():  # the sum left the range of a float64
        scaled = connection.execute(_ANY.format(scale=f"{2.0**-64!r}::DOUBLE", **words)).fetchnumpy()
        columns["mean"] = _in_order(scaled)["mean"]
    return columns


def _in_order(columns: Columns) -> Columns:
    order = np.argsort(columns["g"])
    return {name: column[order] for name, column in columns.items()}


def _fill_ends(connection: duckdb.DuckDBPyConnection, words: Words, columns: Columns, edges: Columns) -> Columns:
    """Fill ``first`` and ``last``; returns where points that differ share the x of an end, so that it is not known yet."""
    _register(connection, list(edges.values()))
    found = connection.execute(_ENDS.format(**words)).fetchnumpy()
    place = np.searchsorted(columns["g"], found["g"])
    differ = found["low"] != found["high"]
    tied: Columns = {}
    for end, at in edges.items():
        here = np.ma.filled(at[place] == found["x"], False)
        columns[end][place[here]] = found["low"][here]
        tied[end] = np.zeros(len(at), np.bool_)
        tied[end][place[here & differ]] = True
    return tied


def _fill_ties(
    connection: duckdb.DuckDBPyConnection, words: Words, columns: Columns, edges: Columns, tied: Columns
) -> None:
    """Fill ``first`` and ``last`` where points that share an x must be put in order."""
    if not any(at.any() for at in tied.values()):
        return
    _register(connection, [edges[end][at] for end, at in tied.items()])
    found = connection.execute(_TIES.format(**words)).fetchnumpy()
    place = np.searchsorted(columns["g"], found["g"])
    for end, at in tied.items():
        columns[end][place[at[place]]] = found[end][at[place]]


def _register(connection: duckdb.DuckDBPyConnection, edges: list[Any]) -> None:
    connection.register("edges", {"x": np.unique(np.concatenate([np.ma.compressed(edge) for edge in edges]))})


def _only_negative_zero(bound: Any) -> Any:
    """Where it is -0.0: the engine orders that as 0.0 and gives 0.0 back; a bucket of nothing else says so by its bounds."""
    return np.ma.filled(bound == 0, False) & np.signbit(np.ma.filled(bound, 0.0))
