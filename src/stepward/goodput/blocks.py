"""Steps of the job from what its ranks reported (rules 3, 4 and 9): executions of one or more steps in a row."""

from collections.abc import Sequence

from stepward.goodput.history import Attempt
from stepward.goodput.steps import Block, Fate


def blocks_of(attempt: Attempt) -> list[Block]:
    """The job's steps in an attempt, in order of time; ``rank`` is not set yet. Those of a single rank are its own."""
    by_rank = {rank: steps for rank, steps in attempt.steps.items() if steps}
    if not by_rank:
        return []
    merged = next(iter(by_rank.values())) if len(by_rank) == 1 else _merge(list(by_rank.values()), attempt.after)
    _classify(merged, attempt)
    return merged


def _merge(ranks: Sequence[list[Block]], after: int | None) -> list[Block]:
    """Steps of the job: from the first rank's start to the last rank's end, never before the job's step before."""
    groups: dict[tuple[int, int], list[Block]] = {}
    for steps in ranks:
        segment, before = 0, after
        for step in steps:
            if before is not None and step.step <= before:
                segment += 1
            before = step.step
            groups.setdefault((segment, step.step), []).append(step)
    merged: list[Block] = []
    reached: int | None = None
    for (_, number), group in sorted(groups.items()):
        head = group[0]
        start, end, ended, every, is_open = head.start, head.end, head.ended, head.every, head.open
        for step in group[1:]:
            start, end = min(start, step.start), max(end, step.end)
            ended, every, is_open = ended or step.ended, every or step.every, is_open or step.open
        if reached is not None and start < reached:
            start = reached
        reached = max(end, start)
        merged.append(Block(number, start, reached, ended, every, is_open))
    return merged


def _classify(steps: Sequence[Block], attempt: Attempt) -> None:
    """Say of each how many steps it stands for, and how they ended."""
    last = len(steps) - 1
    open_fate = Fate.IN_FLIGHT if attempt.running else Fate.INCOMPLETE
    finished = attempt.reason == "finished"
    before = attempt.after
    former = 1
    for at, step in enumerate(steps):
        number = step.step
        if before is not None and number <= before:
            step.rewind = True
        before = number
        if step.ended and not step.open:
            if step.every:
                step.count = step.every
        else:
            ahead = steps[at + 1].step - number if at < last else 0
            step.count = ahead if ahead > 0 else step.every or former
            step.quotient = ahead <= 0 and step.count > 1
            if step.open and not finished:
                step.fate = open_fate
        former = step.count
    if attempt.after is None:
        steps[0].first = True
