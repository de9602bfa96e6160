"""For one attempt: the instants that it owns, its phases and stalls as tracks, and its critical ranks (rules 7 and 9)."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence

from stepward.goodput.blocks import Block
from stepward.goodput.history import Attempt, Phase, Rank
from stepward.goodput.intervals import Stretch, flatten, gaps, innermost, over, window

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
    """What lies over the steps of an attempt."""

    def __init__(self, attempt: Attempt, owned: Sequence[tuple[int, int]]) -> None:
        self.owned = owned
        self._stalls = flatten((Stretch(start, end, "hang") for start, end in attempt.stalls), innermost)
        self._phases = {rank: _buckets(phases) for rank, phases in attempt.phases.items()}
        self._inside: dict[Rank, list[Stretch]] = {}
        ranked = any(rank is not None for rank in attempt.phases)
        everything = [phase for phases in self._phases.values() for phase in phases]
        self._outside = over(self._stalls, flatten(everything, _by_order if ranked else innermost))

    def bare(self, blocks: Sequence[Block]) -> list[bool]:
        """For each block whether the attempt owns all of it and no rank's phase or stall touches it."""
        everything = [*self._stalls, *(phase for phases in self._phases.values() for phase in phases)]
        covered = [(s.start, s.end) for s in flatten((Stretch(s.start, s.end, "") for s in everything), innermost)]
        free = [gap for start, end in self.owned for gap in gaps(covered, start, end)]
        told: list[bool] = []
        spans = iter(free)
        start, end = next(spans, _NOWHERE)
        for block in blocks:
            while end < block.end and start < block.end:
                start, end = next(spans, _NOWHERE)
            told.append(start <= block.start and block.end <= end)
        return told

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


_NOWHERE = (1 << 62, 1 << 62)


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
        work = [Stretch(step.start, step.end, "") for step in attempt.steps.get(rank, ())]
        work += [Stretch(p.start, p.end, "") for p in phases if p.name in BUCKET_PHASES]
        waits = [
            (s.start, s.end)
            for s in flatten((Stretch(p.start, p.end, "") for p in phases if p.name in NOT_OWN), innermost)
        ]
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._before: list[int] = [0]
        for stretch in flatten(work, innermost):
            for start, end in gaps(waits, stretch.start, stretch.end):
                self._starts.append(start)
                self._ends.append(end)
                self._before.append(self._before[-1] + end - start)

    def within(self, start: int, end: int) -> int:
        """Own time in [start, end), ns."""
        return self._until(end) - self._until(start)

    def _until(self, t: int) -> int:
        at = bisect_right(self._starts, t)
        return self._before[at] - (max(0, self._ends[at - 1] - t) if at else 0)
