"""What people see of raw lines: safe text, progress bars at their last state, repeats folded. Pure.

Raw bytes are never changed by this; it decides about one page at a time.
"""

import re
from collections.abc import Iterable, Iterator

from stepward.model.resources import LogLine, instant
from stepward.store.logs.read import RawLine

MAX_TEXT = 8192
"""Characters of a line that are shown; the rest is counted."""
UNFOLDED_BYTES = 1 << 20
"""The first and the last of a stream are never folded: that is where causes stand."""
FOLD_FROM = 4
"""Fewer lines alike are shown as they are."""

_ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[PX^_][^\x1b]*(?:\x1b\\)?|[ -/]*[0-~])"
)
_CONTROLS = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_NUMBERS = re.compile(r"0[xX][0-9a-fA-F]+|\d+(?:[.,:/]\d+)*(?:[eE][+-]?\d+)?")
_TELLING = re.compile(
    r"(?i)error|exception|traceback|fail|fatal|abort|killed|panic|assert|segfault|out of memory|\boom\b|timed? ?out|\bnan\b"
    r"|\binf\b|hang|hung|lost|refused|denied|unreachable|preempt|sigterm|sigkill|warn"
)
_TRACEBACK = "Traceback (most recent call last)"
_PREFIX = re.compile(r"^(?:\[[^\]]{1,40}\]:?|\w{1,20}:) ?")


def visible(data: bytes) -> str:
    """Text of a line as a terminal would leave it, without anything that a terminal or a page could act on."""
    text = data.decode("utf-8", "replace")
    if "\r" in text:
        text = next((part for part in reversed(text.split("\r")) if part), "")
    if "\x1b" in text:
        text = _ESCAPES.sub("", text)
    return _CONTROLS.sub("", text)


def shown(line: RawLine, text: str | None = None) -> LogLine:
    """One line, cut to ``MAX_TEXT``; ``text`` is its visible text where that is known."""
    if text is None:
        text = visible(line.data)
    return LogLine(
        n=line.n,
        text=text[:MAX_TEXT],
        at=None if line.at is None else instant(line.at),
        truncated=max(0, len(text) - MAX_TEXT) + line.skipped,
    )


def folded(lines: Iterable[RawLine], stream_bytes: int) -> Iterator[LogLine]:
    """Lines with runs of at least ``FOLD_FROM`` alike made one; alike = equal but for numbers."""
    last_unfolded = stream_bytes - UNFOLDED_BYTES
    run: list[tuple[RawLine, str]] = []
    template: str | None = None
    in_traceback = False
    for line in lines:
        text = visible(line.data)
        in_traceback, telling = _traceback(text, in_traceback)
        may_fold = UNFOLDED_BYTES <= line.start < last_unfolded and not telling and not _TELLING.search(text)
        mine = _NUMBERS.sub("#", text) if may_fold else None
        if run and (mine is None or mine != template):
            yield from _merged(run)
            run = []
        if mine is None:
            yield shown(line, text)
        elif len(run) < FOLD_FROM:
            run.append((line, text))
        else:
            run[-1] = (line, text)  # of a run that will be folded only the ends matter
        template = mine
    yield from _merged(run)


def _merged(run: list[tuple[RawLine, str]]) -> Iterator[LogLine]:
    if len(run) < FOLD_FROM:
        yield from (shown(line, text) for line, text in run)
        return
    first = shown(*run[0])
    first.n_last = run[-1][0].n
    first.repeats = first.n_last - first.n + 1
    yield first


def _traceback(text: str, inside: bool) -> tuple[bool, bool]:
    """(whether the next line may belong to a traceback, whether this one does)."""
    if _TRACEBACK in text:
        return True, True
    if not inside:
        return False, False
    return _PREFIX.sub("", text)[:1] in (" ", "\t", ""), True
