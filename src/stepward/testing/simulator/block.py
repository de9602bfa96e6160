"""Steps of all ranks at once: who does what for how long, and who therefore waits for whom."""

from typing import NamedTuple

import numpy as np

from stepward.testing.simulator.layout import Floats, Layout

OWN = ("data_wait", "forward", "backward", "compile")
"""What a rank does before the gradients are reduced."""
PHASES = (*OWN, "collective", "optimizer")
BUSY = ("forward", "backward", "collective", "optimizer")
"""Phases in which a kernel runs; one that waits for its peers spins, and looks as busy as one that works."""
WORK = ("forward", "backward", "optimizer")
WINDOW_S = 1.0
"""Seconds over which a device averages its own utilization."""


class Pause(NamedTuple):
    """Time of the whole job behind a step: a save or an evaluation."""

    row: int
    phase: str
    seconds: float
    held_s: float
    """Until it is durable or done, counted from its begin; longer than ``seconds`` where it goes on in the background."""


class Block:
    """Some steps of one attempt; arrays have a row a step and a column a rank, seconds since the begin of the run.

    Args:
        first: number of the first step.
        begin: when each rank begins it.
        seconds: of each phase; ``collective`` is the transfer alone until ``settle`` adds the wait.
    """

    def __init__(self, layout: Layout, first: int, begin: Floats, seconds: dict[str, Floats]) -> None:
        self.layout, self.first, self.seconds = layout, first, seconds
        self.count = len(seconds["forward"])
        self.pauses: list[Pause] = []
        self.inside = np.zeros(self.count)
        """Seconds of pauses that fall into the step itself, since nobody announces them."""
        self._begin = begin
        self.starts = self.ends = np.empty((0, 0))

    @property
    def steps(self) -> range:
        """Numbers of the steps."""
        return range(self.first, self.first + self.count)

    @property
    def next_begin(self) -> Floats:
        """When each rank begins the step behind the last."""
        last: Floats = self.ends[-1] + sum(p.seconds for p in self.pauses if p.row == self.count - 1)
        return last

    def rows(self, first: int, last: int | None) -> slice:
        """Rows of the steps from ``first`` up to and without ``last`` (None = all that follow)."""
        end = self.count if last is None else last - self.first
        return slice(min(max(first - self.first, 0), self.count), min(max(end, 0), self.count))

    def settle(self) -> None:
        """Work out when each rank begins and ends its steps, and how long it waits for the slowest of its groups."""
        own = np.sum([self.seconds[phase] for phase in OWN if phase in self.seconds], axis=0)
        transfer, optimizer = self.seconds["collective"], self.seconds["optimizer"]
        starts, ends, waits = np.empty_like(own), np.empty_like(own), np.empty_like(own)
        behind = np.zeros(self.count)
        for pause in self.pauses:
            behind[pause.row] += pause.seconds
        begin = self._begin
        for row in range(self.count):
            arrived = begin + own[row]
            done = self.layout.released(arrived) + transfer[row]
            starts[row], waits[row] = begin, done - arrived
            ends[row] = done + optimizer[row] + self.inside[row]
            begin = ends[row] + behind[row]
        self.seconds["collective"] = waits
        self.starts, self.ends = starts, ends

    def cut(self, rows: int) -> None:
        """Forget the steps from row ``rows`` on."""
        self.count = rows
        self.seconds = {phase: values[:rows] for phase, values in self.seconds.items()}
        self.starts, self.ends, self.inside = self.starts[:rows], self.ends[:rows], self.inside[:rows]
        self.pauses = [pause for pause in self.pauses if pause.row < rows]

    def share(self, phases: tuple[str, ...], instants: Floats) -> Floats:
        """Share of the time in some phases in the window before each instant: a row an instant, a column a rank."""
        spent = np.sum([self.seconds[phase] for phase in phases if phase in self.seconds], axis=0)
        working = {pause.row: pause.seconds for pause in self.pauses if pause.phase == "evaluation"}
        knots = np.empty((2 * self.count, self.layout.ranks))
        knots[0::2], knots[1::2] = self.starts, self.ends
        grown = np.empty_like(knots)
        total = np.cumsum(spent, axis=0)
        for row, seconds in working.items():
            total[row:] += seconds
        grown[1::2] = total
        grown[0], grown[2::2] = 0.0, total[:-1]
        for row, seconds in working.items():
            grown[2 * row + 1] -= seconds
        shares = np.empty((len(instants), self.layout.ranks))
        for rank in range(self.layout.ranks):
            until = np.interp(instants, knots[:, rank], grown[:, rank])
            since = np.interp(instants - WINDOW_S, knots[:, rank], grown[:, rank])
            shares[:, rank] = until - since
        return np.clip(shares / WINDOW_S, 0.0, 1.0)
