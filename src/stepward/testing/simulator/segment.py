"""A stretch of time of one attempt, as the course of a run hands it on to whoever tells of it."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stepward.detect.signals import Signal
from stepward.testing.simulator.block import Block
from stepward.testing.simulator.layout import Floats
from stepward.testing.simulator.voice import Text

Flags = NDArray[np.bool_]


class Still(NamedTuple):
    """A stretch without steps: what each rank does in it.

    Attributes:
        busy: share of the time in which its device runs any kernel; none of them computes.
        gone: nothing of its node is measured any more; ``dead``: its process is gone, and what it held is free.
        beats, frozen: it sends heartbeats; somebody sees it stopped.
        step, since_s, phase: what its heartbeats say.
    """

    busy: Floats
    gone: Flags
    dead: Flags
    beats: Flags
    frozen: Flags
    step: int | None
    since_s: Floats | None
    phase: Sequence[str | None]


class Segment:
    """A block of steps or a still, with what is told of it beside. ``begin`` and ``end`` are seconds of the run."""

    def __init__(
        self, attempt: str, begin: float, end: float, *, block: Block | None = None, still: Still | None = None
    ) -> None:
        self.attempt, self.begin, self.end = attempt, begin, end
        self.block, self.still = block, still
        self.signals: list[Signal] = []
        self.texts: list[Text] = []
