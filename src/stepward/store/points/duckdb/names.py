"""What the writing thread of a project knows of its file: numbers of sources, series, phases and writers.

A cache of the small tables, with the rows that a transaction adds to them. Thrown away whenever a transaction fails.
"""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import duckdb
import numpy as np

from stepward.ingest.protocols import CommittedFrame, Ints, SeriesKey, WriterPosition
from stepward.model.frames import PhaseColumn
from stepward.store.points.duckdb import tallies

MAX_SERIES_CACHED = 2_000_000
"""Series numbers in memory, a few hundred bytes each; beyond, the source that wrote longest ago is read again on use."""

SourceKey = tuple[str, str, str, int | None, str, str]


class Names:
    """Numbers of the names in one project's file."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._sources: dict[SourceKey, int] = {
            tuple(row[1:]): row[0] for row in connection.execute("SELECT * FROM sources").fetchall()
        }
        self._phases = {
            (name, clock): number for number, name, clock in connection.execute("SELECT * FROM phase_names").fetchall()
        }
        self._writers = {
            writer: (number, WriterPosition(run, position))
            for number, writer, run, position in connection.execute("SELECT * FROM writers").fetchall()
        }
        self._next_series = _one(connection, "SELECT coalesce(max(id), 0) + 1 FROM series")
        self._next_source = max(self._sources.values(), default=0) + 1
        self._next_writer = max((number for number, _ in self._writers.values()), default=0) + 1
        self._cursor = max(
            _one(connection, f"SELECT coalesce(max(cursor), 0) FROM {table}") for table in ("parts", "unsettled")
        )
        self._series: OrderedDict[int, dict[SeriesKey, int]] = OrderedDict()
        self._places: dict[tuple[str, int], tuple[Sequence[SeriesKey], Ints]] = {}
        self._cached = 0
        self._folded = tallies.rows(connection)
        self._told = 0

    def positions(self) -> dict[str, WriterPosition]:
        """Committed position of every writer."""
        return {writer: position for writer, (_, position) in self._writers.items()}

    def cursor(self, received_at: int) -> int:
        """The next cursor: above every earlier one, those of deleted rows included, for time goes on."""
        self._cursor = max(self._cursor + 1, received_at)
        return self._cursor

    def source(self, connection: duckdb.DuckDBPyConnection, frame: CommittedFrame) -> int:
        """Number of a frame's source."""
        source = frame.source
        key: SourceKey = (frame.run, source.kind.value, source.attempt, source.rank, source.role, source.node)
        number = self._sources.get(key)
        if number is None:
            number, self._next_source = self._next_source, self._next_source + 1
            connection.execute("INSERT INTO sources VALUES (?, ?, ?, ?, ?, ?, ?)", [number, *key])
            self._sources[key] = number
        return number

    def series(
        self, connection: duckdb.DuckDBPyConnection, writer: str, source: int, keys: Sequence[SeriesKey]
    ) -> Ints:
        """Numbers of the series ``keys`` of a source; the same list, grown, is looked up from its old end on."""
        known_keys, numbers = self._places.get((writer, source), ((), np.empty(0, np.int64)))
        if known_keys is not keys:
            numbers = np.empty(0, np.int64)
        if len(numbers) < len(keys):
            more = self._numbers(connection, source, keys[len(numbers) :])
            numbers = np.concatenate([numbers, np.array(more, np.int64)])
            self._places[writer, source] = (keys, numbers)
        return numbers

    def phases(self, connection: duckdb.DuckDBPyConnection, columns: Sequence[PhaseColumn]) -> Ints:
        """Numbers of phases."""
        for column in columns:
            key = (column.name, column.clock.value)
            if key not in self._phases:
                self._phases[key] = len(self._phases) + 1
                connection.execute("INSERT INTO phase_names VALUES (?, ?, ?)", [self._phases[key], *key])
        return np.array([self._phases[column.name, column.clock.value] for column in columns], np.int64)

    def advance(self, connection: duckdb.DuckDBPyConnection, ends: dict[str, WriterPosition]) -> None:
        """Write down how far writers are committed."""
        old: list[tuple[Any, ...]] = []
        new: list[tuple[Any, ...]] = []
        for writer, at in ends.items():
            if writer in self._writers:
                number = self._writers[writer][0]
                old.append((number, at.end))
            else:
                number, self._next_writer = self._next_writer, self._next_writer + 1
                new.append((number, writer, at.run, at.end))
            self._writers[writer] = (number, at)
        if new:
            connection.execute(
                "INSERT INTO writers SELECT unnest($1::INTEGER[]), unnest($2::VARCHAR[]), unnest($3::VARCHAR[]), "
                "unnest($4::BIGINT[])",
                _columns(new),
            )
        if old:
            connection.execute(
                "UPDATE writers SET position = u.position FROM (SELECT unnest($1::INTEGER[]) AS id, "
                "unnest($2::BIGINT[]) AS position) AS u WHERE writers.id = u.id",
                _columns(old),
            )

    def told(self, rows: int) -> bool:
        """Count rows of tallies that were appended; True when they should be folded."""
        self._told += rows
        return self._told > max(tallies.FOLD_ROWS, self._folded)

    def folded(self, rows: int) -> None:
        """The tallies were folded into that many rows."""
        self._folded, self._told = rows, 0

    def _numbers(self, connection: duckdb.DuckDBPyConnection, source: int, keys: Sequence[SeriesKey]) -> list[int]:
        known = self._of_source(connection, source)
        new: list[tuple[Any, ...]] = []
        for key in keys:
            if key not in known:
                known[key] = self._next_series
                new.append((self._next_series, source, *key))
                self._next_series += 1
        if new:
            self._cached += len(new)
            connection.execute(
                "INSERT INTO series SELECT unnest($1::INTEGER[]), unnest($2::INTEGER[]), unnest($3::VARCHAR[]), "
                "unnest($4::VARCHAR[]), unnest($5::INTEGER[]), unnest($6::INTEGER[])",
                _columns(new),
            )
        return [known[key] for key in keys]

    def _of_source(self, connection: duckdb.DuckDBPyConnection, source: int) -> dict[SeriesKey, int]:
        known = self._series.get(source)
        if known is None:
            rows = connection.execute(
                "SELECT id, metric, unit, device, rank FROM series WHERE source = ?", [source]
            ).fetchall()
            known = self._series[source] = {SeriesKey(*row[1:]): row[0] for row in rows}
            self._cached += len(known)
        self._series.move_to_end(source)
        while self._cached > MAX_SERIES_CACHED and len(self._series) > 1:
            _, forgotten = self._series.popitem(last=False)
            self._cached -= len(forgotten)
            self._places.clear()
        return known


def _columns(rows: Sequence[tuple[Any, ...]]) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)]


def _one(connection: duckdb.DuckDBPyConnection, sql: str) -> int:
    return int(connection.execute(sql).fetchall()[0][0])
