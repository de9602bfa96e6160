"""Disjoint stretches of time: who owns each instant, which phase is innermost, what is cut from what.

All intervals are half-open [start, end) in ns; a *track* is a list of disjoint ``Stretch`` in order of time.
"""

import itertools
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple


class Stretch(NamedTuple):
    """[start, end) with what it belongs to."""

    start: int
    end: int
    what: str


class Owned(NamedTuple):
    """[start, end) that belongs to the attempt at position ``attempt`` of the history."""

    start: int
    end: int
    attempt: int


def flatten(stretches: Iterable[Stretch], rank: Callable[[Stretch], tuple[int, int]]) -> list[Stretch]:
    """One track of overlapping stretches: at each instant the open one with the highest ``rank``."""
    ordered = sorted(s for s in stretches if s.start < s.end)
    if all(a.end <= b.start for a, b in itertools.pairwise(ordered)):
        return ordered
    track: list[Stretch] = []
    active: list[Stretch] = []
    cuts = sorted({t for s in ordered for t in (s.start, s.end)})
    at = 0
    for start, end in itertools.pairwise(cuts):
        while at < len(ordered) and ordered[at].start <= start:
            active.append(ordered[at])
            at += 1
        active = [s for s in active if s.end > start]
        if active:
            what = max(active, key=rank).what
            if track and track[-1].end == start and track[-1].what == what:
                track[-1] = Stretch(track[-1].start, end, what)
            else:
                track.append(Stretch(start, end, what))
    return track


def union(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """What overlapping spans cover, as disjoint ones in order; those that touch are one."""
    covered: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if covered and start <= covered[-1][1]:
            if end > covered[-1][1]:
                covered[-1] = covered[-1][0], end
        else:
            covered.append((start, end))
    return covered


def innermost(stretch: Stretch) -> tuple[int, int]:
    """Rank of a phase inside others: started last; of those that started together the one that ends first."""
    return stretch.start, -stretch.end


def over(top: Sequence[Stretch], below: Sequence[Stretch]) -> list[Stretch]:
    """One track of two: ``top`` hides what lies below it."""
    if not top:
        return list(below)
    shown = list(top)
    for stretch in below:
        start = stretch.start
        for hidden in window(top, stretch.start, stretch.end):
            if start < hidden.start:
                shown.append(Stretch(start, hidden.start, stretch.what))
            start = hidden.end
        if start < stretch.end:
            shown.append(Stretch(start, stretch.end, stretch.what))
    shown.sort()
    return shown


def window(track: Sequence[Stretch], start: int, end: int) -> list[Stretch]:
    """The part of a track within [start, end)."""
    if not track or start >= end:
        return []
    # A tuple of the start alone lies before every stretch that begins there.
    at = bisect_right(track, (start,))
    if at and track[at - 1].end > start:
        at -= 1
    part: list[Stretch] = []
    while at < len(track) and track[at].start < end:
        stretch = track[at]
        if stretch.start >= start and stretch.end <= end:
            part.append(stretch)
        elif stretch.end > start:
            part.append(Stretch(max(stretch.start, start), min(stretch.end, end), stretch.what))
        at += 1
    return part


def gaps(spans: Iterable[tuple[int, int]], start: int, end: int) -> list[tuple[int, int]]:
    """What ordered, disjoint spans leave of [start, end)."""
    left: list[tuple[int, int]] = []
    for span_start, span_end in spans:
        if span_start > start:
            left.append((start, min(span_start, end)))
        if span_end > start:
            start = span_end
            if start >= end:
                return left
    if start < end:
        left.append((start, end))
    return left


def owners(attempts: Sequence[tuple[int, int]], start: int, end: int) -> list[Owned]:
    """Who owns each instant of [start, end): the newest attempt that has started and not ended (rule 2).

    Args:
        attempts: [start, end) of each, in the order of their starts.
    """
    cuts = sorted({start, end, *(t for span in attempts for t in span if start < t < end)})
    track: list[Owned] = []
    running: list[int] = []
    at = 0
    for left, right in itertools.pairwise(cuts):
        while at < len(attempts) and attempts[at][0] <= left:
            running.append(at)
            at += 1
        while running and attempts[running[-1]][1] <= left:
            running.pop()
        owner = next((index for index in reversed(running) if attempts[index][1] > left), None)
        if owner is None:
            continue
        if track and track[-1].attempt == owner and track[-1].end == left:
            track[-1] = Owned(track[-1].start, right, owner)
        else:
            track.append(Owned(left, right, owner))
    return track
