"""The Parquet file of ``stepward export``: one row a point, columns as ``docs/export.md`` lists them. Bit for bit both ways."""

import os
from collections.abc import Iterable, Iterator
from typing import Any

from stepward.errors import MissingExtra, ParseError, UsageError
from stepward.importers.journaled import ImportedPoint

COLUMNS = {
    "metric": "VARCHAR",
    "unit": "VARCHAR",
    "attempt": "INTEGER",
    "rank": "INTEGER",
    "device": "INTEGER",
    "step": "BIGINT",
    "time": "TIMESTAMP",
    "value": "DOUBLE",
    "rounded": "BOOLEAN",
}
_ROWS = 20_000


def write_parquet(lines: Iterable[bytes], path: str) -> None:
    """The lines of an export as a Parquet file; ``path`` is there whole or not at all.

    Raises:
        MissingExtra: duckdb is not installed.
        UsageError: ``unwritable_file``.
    """
    part = f"{path}.part"
    text = f"{path}.part.ndjson"
    # A value is read as text: JSON has no words for NaN and infinities, and a number keeps its every digit so.
    fields = ", ".join(f"'{name}': '{'VARCHAR' if name == 'value' else kind}'" for name, kind in COLUMNS.items())
    chosen = ", ".join(f"{name}::{kind} AS {name}" for name, kind in COLUMNS.items() if name != "rounded")
    source = f"read_json({_quoted(text)}, format = 'newline_delimited', columns = {{{fields}}})"
    try:
        with open(text, "wb") as file:
            file.writelines(line + b"\n" for line in lines)
        rows = f"SELECT {chosen}, coalesce(rounded, FALSE) AS rounded FROM {source}"
        _execute(f"COPY ({rows}) TO {_quoted(part)} (FORMAT parquet, COMPRESSION zstd)")
        os.replace(part, path)
    except OSError as error:
        raise UsageError(f"{path} can't be written: {error.strerror}", code="unwritable_file") from None
    finally:
        for left in (part, text):
            if os.path.exists(left):
                os.unlink(left)


def read_parquet(path: str) -> Iterator[ImportedPoint]:
    """The points of a file.

    Raises:
        MissingExtra: duckdb is not installed.
        UsageError: ``unreadable_file``.
        ParseError: ``not_an_export``: columns are missing, or of other types.
    """
    if not os.access(path, os.R_OK):
        raise UsageError(f"{path} can't be read", code="unreadable_file")
    there = {row[0] for row in _execute(f"DESCRIBE SELECT * FROM read_parquet({_quoted(path)})").fetchall()}
    # Files from before the mark was there have none.
    mark = "rounded" if "rounded" in there else "FALSE"
    chosen = f"metric, unit, attempt, rank, device, step, epoch_us(time), value, {mark}"
    found = _execute(f"SELECT {chosen} FROM read_parquet({_quoted(path)})")
    while rows := found.fetchmany(_ROWS):
        for metric, unit, attempt, rank, device, step, time_us, value, rounded in rows:
            yield ImportedPoint(metric, step, time_us, value, unit or "", str(attempt), rank, device, bool(rounded))


def _execute(sql: str) -> Any:
    try:
        import duckdb
    except ImportError:
        raise MissingExtra("duckdb", "server") from None
    try:
        return duckdb.connect().execute(sql)
    except duckdb.IOException as error:
        raise UsageError(str(error).splitlines()[0], code="unreadable_file") from None
    except duckdb.Error as error:
        raise ParseError(
            str(error).splitlines()[0], code="not_an_export", hint="docs/export.md lists the columns"
        ) from None


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
