"""Pages of a stream: plain, folded or of a search."""

import sqlite3
from collections import deque
from collections.abc import Mapping
from itertools import islice

from stepward.model.resources import LogLine, LogPage, LogStream, instant
from stepward.store.logs.read import StreamReader
from stepward.store.logs.search import matcher, matching
from stepward.store.logs.view import folded, shown

SCANNED_LINES = 100_000
"""Lines that one page reads at most, however few they fold into."""


def log_stream(row: sqlite3.Row, attempts: Mapping[str, int]) -> LogStream:
    """A stream as the API shows it."""
    return LogStream(
        id=str(row["id"]),
        stream=row["name"],
        attempt=attempts.get(row["attempt"], 0),
        rank=row["rank"],
        node=row["node"],
        lines=row["newlines"] + row["open_line"],
        bytes=row["bytes"],
        lost_bytes=row["lost"],
        last_at=None if row["last_at"] is None else instant(row["last_at"]),
    )


def plain_page(reader: StreamReader, stream: LogStream, from_n: int, limit: int, *, fold: bool) -> LogPage:
    """At most ``limit`` lines from line ``from_n`` on."""
    raw = islice(reader.lines(from_n), SCANNED_LINES)
    views = folded(raw, stream.bytes) if fold else map(shown, raw)
    return _page(stream, list(islice(views, limit)))


def search_page(
    reader: StreamReader, stream: LogStream, q: str, *, from_n: int | None, tail: int | None, limit: int
) -> LogPage:
    """Matching lines: the first ``limit`` from ``from_n`` on, or the last ``tail``; and how many there are in all."""
    matches = 0
    last: deque[tuple[int, int]] = deque(maxlen=tail if tail is not None else limit)
    for n, start in matching(reader.pieces(), matcher(q)):
        matches += 1
        if tail is not None or (n >= (from_n or 1) and len(last) < limit):
            last.append((n, start))
    page = _page(stream, [shown(reader.line(n, start)) for n, start in last])
    page.matches = matches
    return page


def _page(stream: LogStream, lines: list[LogLine]) -> LogPage:
    if not lines:
        return LogPage(stream=stream, lines=[])
    return LogPage(stream=stream, lines=lines, first_n=lines[0].n, last_n=lines[-1].n_last or lines[-1].n)
