"""Steps of the job from what its ranks reported (rules 3, 4 and 9): executions of one or more steps in a row."""

from collections.abc import Sequence
from enum import Enum

import msgspec

from stepward.goodput.history import Attempt, Rank, RankStep


class Fate(Enum):
    """How an execution ended."""

    COMPLETE = "complete"
    IN_FLIGHT = "in flight"
    INCOMPLETE = "incomplete"


class Block(msgspec.Struct, gc=False):
    """``count`` equal steps from ``step`` on, in [start, end).

    Attributes:
        quotient: ``count`` is an upper limit; how many there were follows from the time they took (rule 4).
        first: the attempt's first step or block.
        rewind: begins at or below the step before it in the same attempt.
        rank: the critical rank; None where steps carry no rank.
    """

    step: int
    count: int
    start: int
    end: int
    fate: Fate
    quotient: bool = False
    first: bool = False
    rewind: bool = False
    rank: Rank = None


def blocks_of(attempt: Attempt) -> list[Block]:
    """The job's steps in an attempt, in order of time; ``rank`` is not set yet."""
    by_rank = {rank: steps for rank, steps in attempt.steps.items() if steps}
    if not by_rank:
        return []
    merged = next(iter(by_rank.values())) if len(by_rank) == 1 else _merge(list(by_rank.values()), attempt.after)
    return _blocks(merged, attempt)


def _merge(ranks: Sequence[list[RankStep]], after: int | None) -> list[RankStep]:
    """Steps of the job: from the first rank's start to the last rank's end, never before the job's step before."""
    groups: dict[tuple[int, int], list[RankStep]] = {}
    for steps in ranks:
        segment, before = 0, after
        for step in steps:
            if before is not None and step.step <= before:
                segment += 1
            before = step.step
            groups.setdefault((segment, step.step), []).append(step)
    merged: list[RankStep] = []
    for (_, number), group in sorted(groups.items()):
        start = min(step.start for step in group)
        if merged:
            start = max(start, merged[-1].end)
        end = max(*(step.end for step in group), start)
        ended = any(step.ended for step in group)
        every = next((step.every for step in group if step.every), None)
        merged.append(RankStep(number, start, end, ended, every, any(step.open for step in group)))
    return merged


def _blocks(steps: Sequence[RankStep], attempt: Attempt) -> list[Block]:
    blocks: list[Block] = []
    last = len(steps) - 1
    open_fate = Fate.IN_FLIGHT if attempt.running else Fate.INCOMPLETE
    finished = attempt.reason == "finished"
    before = attempt.after
    for at, step in enumerate(steps):
        ahead = steps[at + 1].step - step.step if at < last else 0
        quotient = False
        if step.ended and not step.open:
            count = step.every or 1
        elif ahead > 0:
            count = ahead
        else:
            count = step.every or (blocks[-1].count if blocks else 1)
            quotient = count > 1
        fate = open_fate if step.open and not finished else Fate.COMPLETE
        first = not at and attempt.after is None
        rewind = before is not None and step.step <= before
        blocks.append(Block(step.step, count, step.start, step.end, fate, quotient, first, rewind))
        before = step.step
    return blocks
