"""Which executions count: starts, durable checkpoints, and what was lost (rules 5 and 6)."""

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from stepward.goodput.history import History
from stepward.goodput.steps import Block

NEVER = 1 << 62


class Start(NamedTuple):
    """An attempt or rewind begins at ``step``."""

    t: int
    step: int


class Survival:
    """Answers which steps of an execution are kept."""

    def __init__(self, history: History, blocks: Sequence[Sequence[Block]]) -> None:
        self.starts = starts = sorted(_starts(history, blocks), key=lambda start: start.t)
        self._times = [start.t for start in starts]
        self._lowest_later = [NEVER] * (len(starts) + 1)
        for at in range(len(starts) - 1, -1, -1):
            self._lowest_later[at] = min(self._lowest_later[at + 1], starts[at].step)
        self.checkpointed = bool(history.durable)
        sound = [step for t, step in history.durable if self.first_lost(t) > step]
        proven = [starts[-1].step - 1] if starts else []
        self.durable: int | None = max([*sound, *proven], default=None)
        failed = history.ended and history.reason != "finished"
        self.kept_by_assumption = failed and not self.checkpointed
        self._limit = NEVER
        if failed and self.checkpointed:
            self._limit = self.durable + 1 if self.durable is not None else -NEVER

    def first_lost(self, t: int) -> int:
        """The lowest step that a start later than ``t`` goes back to."""
        return self._lowest_later[bisect_right(self._times, t)]

    def first_unkept(self, t: int) -> int:
        """Of an execution that began at ``t``, steps from this one on are lost."""
        return min(self.first_lost(t), self._limit)


def _starts(history: History, blocks: Sequence[Sequence[Block]]) -> list[Start]:
    starts: list[Start] = []
    for attempt, own in zip(history.attempts, blocks, strict=True):
        steps = [step for step in (attempt.resume_step, own[0].step if own else None) if step is not None]
        if steps and attempt.after is None:
            starts.append(Start(attempt.start, min(steps)))
        starts += [Start(block.start, block.step) for block in own if block.rewind]
    return starts
