"""For one attempt: the instants that it owns, its phases and stalls as tracks, and its critical ranks (rules 7 and 9)."""

import copy
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from stepward.goodput.history import Attempt, Phase
from stepward.goodput.intervals import Stretch, flatten, gaps, innermost, over, union, window
from stepward.goodput.steps import Block, Rank

OUTSIDE_ORDER = (
    "restore",
    "checkpoint_save",
    "evaluation",
    "compile",
    "init",
    "data_wait",
    "provision",
    "wait_for_nodes",
    "idle",
)
"""Outside steps a phase owns if any rank is in it; of several the first here (rule 9)."""
BUCKET_PHASES = frozenset(OUTSIDE_ORDER)
NOT_OWN = frozenset({"collective", "idle"})
"""Phases in which a rank waits for others: no time of its own."""


class Tracks:
    """What lies over the steps of an attempt.

    Attributes:
        owned: the instants that the attempt owns.
        holes: the time outside of all its steps.
    """

    def __init__(self, attempt: Attempt, owned: Sequence[tuple[int, int]], blocks: Sequence[Block]) -> None:
        self.owned = owned
        self._stalls = flatten((Stretch(start, end, "hang") for start, end in attempt.stalls), innermost)
        self._phases = {rank: _buckets(phases) for rank, phases in attempt.phases.items()}
        self._inside: dict[Rank, list[Stretch]] = {}
        self.holes = _holes(blocks)
        ranked = any(rank is not None for rank in attempt.phases)
        everything = [phase for phases in self._phases.values() for phase in phases]
        self._covered = union((s.start, s.end) for s in [*self._stalls, *everything])
        outside = everything if len(everything) < FEW else list(_reaching(everything, self.holes))
        self._outside = over(self._stalls, flatten(outside, _by_order if ranked else innermost))

    def owning(self, owned: Sequence[tuple[int, int]]) -> "Tracks":
        """The same of an attempt that owns something else."""
        other = copy.copy(self)
        other.owned = owned
        return other

    @property
    def free(self) -> list[tuple[int, int]]:
        """What the attempt owns and no rank's phase or stall touches."""
        return [gap for start, end in self.owned for gap in gaps(self._covered, start, end)]

    def outside(self, start: int, end: int) -> list[Stretch]:
        """Phases and stalls of [start, end), which lies outside steps."""
        return window(self._outside, start, end)

    def inside(self, rank: Rank, start: int, end: int) -> list[Stretch]:
        """Phases and stalls of a step whose critical rank is ``rank``."""
        track = self._inside.get(rank)
        if track is None:
            shown = [*self._phases.get(rank, ()), *(self._phases.get(None, ()) if rank is not None else ())]
            track = self._inside[rank] = over(self._stalls, flatten(shown, innermost))
        return window(track, start, end)

    def parts(self, start: int, end: int) -> list[tuple[int, int]]:
        """The owned part of [start, end)."""
        return [(max(a, start), min(b, end)) for a, b in self.owned if a < end and b > start]


FEW = 16
"""Phases of an attempt below which it is not worth while to look which of them lie inside of steps."""
_END = 1 << 62


def _holes(blocks: Sequence[Block]) -> list[tuple[int, int]]:
    """The time outside of all steps, from the beginning of time to its end."""
    holes: list[tuple[int, int]] = []
    reach = -_END
    for block in blocks:
        start = block.start
        if start >= reach:
            if start > reach:
                holes.append((reach, start))
            reach = block.end
        else:
            reach = max(reach, block.end)
    holes.append((reach, _END))
    return holes


def _reaching(stretches: Iterable[Stretch], holes: Sequence[tuple[int, int]]) -> Iterator[Stretch]:
    """Those that are not wholly inside of steps."""
    ends = [end for _, end in holes]
    for stretch in stretches:
        at = bisect_right(ends, stretch.start)
        if at < len(holes) and holes[at][0] < stretch.end:
            yield stretch


def _buckets(phases: Iterable[Phase]) -> list[Stretch]:
    return [Stretch(p.start, p.end, p.name) for p in phases if p.name in BUCKET_PHASES and p.start < p.end]


def _by_order(stretch: Stretch) -> tuple[int, int]:
    return -OUTSIDE_ORDER.index(stretch.what), 0


def find_critical_ranks(attempt: Attempt, blocks: Sequence[Block]) -> None:
    """Set each block's critical rank: the one with most own time in it, the lowest of several (rule 9)."""
    ranks = sorted(rank for rank in {*attempt.steps, *attempt.phases} if rank is not None)
    if not ranks or not blocks:
        return
    clocks = [(rank, _OwnTime(attempt, rank)) for rank in ranks]
    for block in blocks:
        block.rank = max(clocks, key=lambda clock: (clock[1].within(block.start, block.end), -clock[0]))[0]


class _OwnTime:
    """Time of a rank inside its steps or bucket phases, without waiting for others."""

    def __init__(self, attempt: Attempt, rank: int) -> None:
        phases = attempt.phases.get(rank, [])
        work = [(step.start, step.end) for step in attempt.steps.get(rank, ()) if step.start < step.end]
        work += [(p.start, p.end) for p in phases if p.name in BUCKET_PHASES and p.start < p.end]
        waits = union((p.start, p.end) for p in phases if p.name in NOT_OWN and p.start < p.end)
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._before: list[int] = [0]
        waited = 0
        for work_start, work_end in union(work):
            while waited < len(waits) and waits[waited][1] <= work_start:
                waited += 1
            for start, end in gaps(islice(waits, waited, None), work_start, work_end):
                self._starts.append(start)
                self._ends.append(end)
                self._before.append(self._before[-1] + end - start)

    def within(self, start: int, end: int) -> int:
        """Own time in [start, end), ns."""
        return self._until(end) - self._until(start)

    def _until(self, t: int) -> int:
        at = bisect_right(self._starts, t)
        return self._before[at] - (max(0, self._ends[at - 1] - t) if at else 0)
