"""From a source to the lines that matter: head and tail in full, and in between only what could matter.

A long log says the same a million times. Between its first and last ``CLOSE`` lines only those near a literal of the
matcher are kept, with a few lines behind them, and a sample of the rest, so that progress is still seen.
"""

from bisect import bisect_left
from collections.abc import Iterator

from stepward.diagnose.matcher import Matcher
from stepward.diagnose.sources import Source

CLOSE = 3000
"""Lines at the head and at the tail of a source that are read in full."""
BEHIND = 4
"""Lines kept behind one that holds a literal: the end of a traceback, the block of a launcher."""
MOST_HITS = 4000
"""Hits read in one chunk of about 1 MiB; more of them are repeats, and the source is marked as truncated."""
SAMPLE = 8
"""Lines kept of each chunk that has no hit."""


def skim(source: Source, matcher: Matcher) -> Iterator[tuple[int, str]]:
    """Numbered lines (from 1) of a source, ascending; sets ``source.lines``."""
    number, held = 1, b""
    for chunk in source.chunks():
        if held:
            yield from _kept(source, matcher, held, number)
            number += held.count(b"\n")
        held = chunk
    lines = held.decode("utf-8", "replace").split("\n")
    if lines and not lines[-1]:
        lines.pop()
    source.lines = number - 1 + len(lines)
    if number > 1 and len(lines) > CLOSE:
        cut = len(lines) - CLOSE
        early = "\n".join(lines[:cut]).encode() + b"\n"
        yield from _kept(source, matcher, early, number)
        number, lines = number + cut, lines[cut:]
    yield from enumerate(lines, number)


def _kept(source: Source, matcher: Matcher, chunk: bytes, first: int) -> Iterator[tuple[int, str]]:
    """The lines of a chunk (whole lines) worth reading."""
    wanted = matcher.hits(chunk)
    if len(wanted) > MOST_HITS:
        wanted, source.truncated = wanted[: MOST_HITS // 2] + wanted[-MOST_HITS // 2 :], True
    lines = chunk.split(b"\n")
    starts, at = [], 0
    for line in lines:
        starts.append(at)
        at += len(line) + 1
    keep: set[int] = set(range(0, len(lines) - 1, max(1, len(lines) // SAMPLE)))
    for start, _ in wanted:
        index = bisect_left(starts, start + 1) - 1
        keep.update(range(index, min(index + BEHIND + 1, len(lines) - 1)))
    if first <= CLOSE:
        keep.update(range(min(CLOSE - first + 1, len(lines) - 1)))
    for index in sorted(keep):
        yield first + index, lines[index].decode("utf-8", "replace")
