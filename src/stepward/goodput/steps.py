"""An execution of a step, or of some equal steps in a row: as a rank reports it, and as one of the job."""

from enum import Enum

import msgspec

Rank = int | None


class Fate(Enum):
    """How an execution ended."""

    COMPLETE = "complete"
    IN_FLIGHT = "in flight"
    INCOMPLETE = "incomplete"


class Block(msgspec.Struct, gc=False):
    """[start, end) of ``count`` equal steps from ``step`` on.

    One type for a rank's report and for the job's execution: of nearly every run they are the same.

    Attributes:
        ended: a ``step_ended`` came.
        every: how many steps one report stands for, where it says so.
        open: nothing ended it, it lasts to the end of its attempt.
        quotient: ``count`` is an upper limit; how many there were follows from the time they took (rule 4).
        first: the attempt's first step or block.
        rewind: begins at or below the step before it in the same attempt.
        rank: the critical rank; None where steps carry no rank.
    """

    step: int
    start: int
    end: int
    ended: bool
    every: int | None = None
    open: bool = False
    count: int = 1
    fate: Fate = Fate.COMPLETE
    quotient: bool = False
    first: bool = False
    rewind: bool = False
    rank: Rank = None
