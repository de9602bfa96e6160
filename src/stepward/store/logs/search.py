"""Searching a stream: which lines hold a text or match a pattern.

Patterns run in DuckDB's RE2, whose time is linear in the text, so that no pattern can hold up the server; it knows no
look-around and no back-references. A search has ``SEARCH_S`` seconds.
"""

import time
from collections.abc import Callable, Iterator

import duckdb

from stepward.errors import UsageError
from stepward.store.logs.read import LINE_BYTES, Piece

SEARCH_S = 5.0

Matcher = Callable[[bytes], list[int]]
"""Whole lines -> indexes of those that match, ascending."""


def matcher(q: str) -> Matcher:
    """A matcher for a substring (any case) or ``/regex/``.

    Raises:
        UsageError: ``bad_regex``.
    """
    if len(q) > 2 and q.startswith("/") and q.endswith("/"):
        return _pattern(q[1:-1])
    return _substring(q)


def matching(
    pieces: Iterator[Piece], matches: Matcher, clock: Callable[[], float] = time.monotonic, limit_s: float = SEARCH_S
) -> Iterator[tuple[int, int]]:
    """(line number, position of its first byte) of every match; a first piece that begins within a line has its rest.

    Raises:
        UsageError: ``search_too_slow``.
    """
    end = clock() + limit_s
    rest, start, number = b"", 0, 0
    for piece in pieces:
        if number == 0:
            start, number = piece.start, piece.newlines_before + 1
        if clock() > end:
            raise UsageError(
                f"the search took longer than {limit_s:g} s",
                code="search_too_slow",
                hint="narrow it, or load the raw log",
            )
        whole, newline, tail = piece.data.rpartition(b"\n")
        if newline:
            block = rest + whole
            positions = _starts(block)
            begin = piece.start + len(whole) + 1
            for index in matches(block):
                # Only the first line can have been shortened, at its end.
                yield number + index, start if not index else begin - 1 - len(block) + positions(index)
            number += block.count(b"\n") + 1
            rest, start = tail, begin
        elif len(rest) < LINE_BYTES:
            rest += tail
    if rest and matches(rest):
        yield number, start


def _starts(block: bytes) -> Callable[[int], int]:
    at, line = 0, 0

    def start(index: int) -> int:
        nonlocal at, line
        while line < index:
            at = block.index(b"\n", at) + 1
            line += 1
        return at

    return start


def _substring(q: str) -> Matcher:
    needle = q.lower()

    def matches(block: bytes) -> list[int]:
        text = block.decode("utf-8", "replace").lower()
        found, line, counted = [], 0, 0
        at = text.find(needle)
        while at >= 0:
            line += text.count("\n", counted, at)
            found.append(line)
            counted = at
            behind = text.find("\n", at)
            if behind < 0:
                break
            at = text.find(needle, behind)
        return found

    return matches


def _pattern(pattern: str) -> Matcher:
    engine = duckdb.connect(":memory:", config={"threads": 1})
    sql = (
        "SELECT i FROM (SELECT unnest(l) AS line, generate_subscripts(l, 1) AS i FROM (SELECT string_split($1, chr(10)) AS l)) "
        "WHERE regexp_matches(line, $2) ORDER BY i"
    )

    def matches(block: bytes) -> list[int]:
        text = block.decode("utf-8", "replace")
        return [index - 1 for (index,) in engine.execute(sql, [text, pattern]).fetchall()]

    try:
        matches(b"")
    except duckdb.Error as error:
        raise UsageError(
            f"/{pattern[:200]}/ is no pattern: {str(error).splitlines()[0]}",
            code="bad_regex",
            hint="the syntax is RE2's: no look-around, no back-references",
        ) from None
    return matches
