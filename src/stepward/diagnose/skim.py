"""From a source to the lines that matter: head and tail in full, and in between only what could matter.

A long log says the same a million times. Between its first ``HEAD`` and last ``TAIL`` lines only those are kept that a
signature or reader may want, with the block behind a traceback or a launcher's summary, and a sample of the rest, so
that progress is still seen. A template is read ``REPEATS`` times there; counts of more are lower bounds.
"""

from collections import Counter
from collections.abc import Iterator

from stepward.diagnose.matcher import Matcher, template
from stepward.diagnose.sources import Source

HEAD, TAIL = 1000, 3000
"""Lines at the head and at the tail of a source that are read in full."""
MANY = 16
"""Sources from which on each is read less closely."""
BLOCK = 40
"""Lines kept behind one that opens a block."""
OPENERS = (b"Traceback (most recent", b"Root Cause (first")
REPEATS = 300
LOOKED_AT = 8192
"""Bytes of a line by which it is judged."""
SAMPLE = 8
"""Lines kept of each chunk whatever they say."""


def skim(source: Source, matcher: Matcher, *, of: int = 1) -> Iterator[tuple[int, str]]:
    """Numbered lines (from 1) of a source, ascending; sets ``source.lines``.

    ``of`` is the number of sources of the diagnosis: of many, less of each is read in full.
    """
    for number, text in _given(source, matcher, of):
        yield source.real(number), text
    source.lines = source.real(source.lines)


def _given(source: Source, matcher: Matcher, of: int) -> Iterator[tuple[int, str]]:
    """The lines, numbered as the source gives them."""
    part = min(1.0, MANY / of)
    close, tail = max(100, int(HEAD * part)), max(300, int(TAIL * part))
    number, held = 1, b""
    seen: Counter[bytes] = Counter()
    for chunk in source.chunks():
        if held:
            yield from _kept(held, number, matcher, seen, close)
            number += held.count(b"\n")
        held = chunk
    lines = held.split(b"\n")
    if not lines[-1]:
        lines.pop()
    source.lines = number - 1 + len(lines)
    if len(lines) > tail:
        cut = len(lines) - tail
        yield from _kept(b"\n".join(lines[:cut]) + b"\n", number, matcher, seen, close)
        number, lines = number + cut, lines[cut:]
    for line in lines:
        yield number, line.decode("utf-8", "replace")
        number += 1


def _kept(chunk: bytes, first: int, matcher: Matcher, seen: Counter[bytes], close: int) -> Iterator[tuple[int, str]]:
    """The lines of a chunk (whole lines) worth reading, numbered from ``first``."""
    spans: dict[int, int] = {}
    if first <= close:
        _block(chunk, 0, close - first + 1, spans)
    for part in range(SAMPLE):
        _block(chunk, chunk.rfind(b"\n", 0, part * len(chunk) // SAMPLE) + 1, 1, spans)
    end = -1
    for start in matcher.hits(chunk):
        if start < end:
            continue
        begin = chunk.rfind(b"\n", 0, start) + 1
        end = chunk.find(b"\n", start)
        line = chunk[begin : min(end, begin + LOOKED_AT)]
        shape = template(line)
        if not matcher.matters(shape, line):
            continue
        seen[shape] += 1
        if seen[shape] <= REPEATS:
            _block(chunk, begin, BLOCK if any(opener in line for opener in OPENERS) else 1, spans)
    counted = 0
    for begin in sorted(spans):
        first += chunk.count(b"\n", counted, begin)
        counted = begin
        yield first, chunk[begin : spans[begin]].decode("utf-8", "replace")


def _block(chunk: bytes, begin: int, lines: int, spans: dict[int, int]) -> None:
    """Note the spans of some lines from the beginning of one on."""
    for _ in range(lines):
        end = chunk.find(b"\n", begin)
        if end < 0:
            return
        spans[begin] = end
        begin = end + 1
