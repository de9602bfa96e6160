"""What can befall a run: the hooks by which a fault or a harmless oddity changes work, readings, values, lines and ends."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

import numpy as np

from stepward.testing.simulator.block import Block
from stepward.testing.simulator.layout import Floats
from stepward.testing.simulator.noise import stream
from stepward.testing.simulator.plan import Plan
from stepward.testing.simulator.truth import Fault
from stepward.testing.simulator.voice import Text, Voice

if TYPE_CHECKING:
    from stepward.testing.simulator.readings import Readings

How = Literal["stuck", "died", "vanished", "told"]


class Stop(NamedTuple):
    """How an attempt comes to its end before its time.

    Attributes:
        step: in which it happens.
        how: the struck ranks are ``stuck``, have ``died``, have ``vanished`` with their node, or all are ``told`` to stop.
        ranks: the struck ones; the others wait for them in the collective.
        phase: in which they are stuck.
        spins: their devices look busy while they are stuck.
        beats: they still send heartbeats; ``frozen``: somebody sees them stopped.
        exit_code, signal: with which the struck ranks end.
        after_s: from then until the others give up.
        peers: how the others end: their watchdog, a closed connection, or a signal of the launcher.
        state, reason: of the attempt.
        again: the launcher may start it again.
    """

    step: int
    how: How
    ranks: tuple[int, ...] = ()
    phase: str = "forward"
    spins: bool = False
    beats: bool = True
    frozen: bool = False
    exit_code: int | None = None
    signal: str | None = None
    after_s: float = 5.0
    peers: Literal["watchdog", "closed", "signal"] = "closed"
    state: str = "failed"
    reason: str = ""
    again: bool = True


class Opening(NamedTuple):
    """What is odd about the begin of an attempt.

    Attributes:
        waited_s, why: in the scheduler's queue.
        fails_after_s: None where it does not fail.
        ranks: that fail first; the others follow.
    """

    waited_s: float | None = None
    why: str = ""
    fails_after_s: float | None = None
    ranks: tuple[int, ...] = ()
    exit_code: int | None = 1
    state: str = "failed"
    reason: str = ""
    again: bool = True


class Trouble:
    """Base of all kinds. A kind overrides the hooks of what it changes.

    Attributes:
        kind, label, type, also: as in ``Fault``; ``benign`` ones are no faults and have no truth.
        strengths: range of ``magnitude`` in each split.
        step, until: the steps in which it works, ``until`` excluded; None = to the end.
        ranks, nodes: struck ranks and numbers of struck nodes.
        began_s, ended_s: filled by the course of the run.
    """

    kind: ClassVar[str]
    label: ClassVar[str] = "host_contention"
    type: ClassVar[str] = ""
    also: ClassVar[tuple[str, ...]] = ()
    benign: ClassVar[bool] = False
    stops: ClassVar[bool] = False
    """It ends the attempt, so that nothing else need be drawn behind it."""
    strengths: ClassVar[dict[str, tuple[float, float]]] = {"train": (1.2, 2.0), "test": (1.05, 1.2)}

    def __init__(self, plan: Plan, index: int = 0, *, magnitude: float | None = None, step: int | None = None) -> None:
        dice = stream(plan.seed, "trouble", self.kind, index)
        self.plan = plan
        self.index = index
        low, high = self.strengths[plan.split]
        drawn = float(dice.uniform(low, high))
        self.magnitude = drawn if magnitude is None else magnitude
        onset = int(dice.uniform(0.4, 0.6) * plan.steps)
        self.step: int | None = onset if step is None else step
        lasting = int(dice.uniform(0.25, 0.5) * plan.steps)
        self.until: int | None = None if dice.random() < 0.5 or self.stops else self.step + lasting
        self.ranks: tuple[int, ...] = ()
        self.nodes: tuple[int, ...] = ()
        self.began_s: float | None = None
        self.ended_s: float | None = None
        self.draw(dice)

    def fault(self, voice: Voice) -> Fault | None:
        """The truth of it; None for what is harmless or has not come."""
        if self.benign or self.began_s is None:
            return None
        return Fault(
            id=f"{self.kind}-{self.index}",
            kind=self.kind,
            label=self.label,
            type=self.type,
            also=self.also,
            t0=voice.at(self.began_s),
            t1=None if self.ended_s is None else voice.at(self.ended_s),
            step=self.step,
            ranks=self.ranks,
            nodes=tuple(self.plan.layout.node(number) for number in self.nodes),
            magnitude=round(self.magnitude, 4),
        )

    # What a kind may override.

    def draw(self, dice: np.random.Generator) -> None:
        """Choose whom it strikes and whatever else it needs."""

    def shape(self, block: Block) -> None:
        """Change the work of steps before it is known who waits for whom."""

    def values(self, block: Block, loss: Floats, norm: Floats) -> None:
        """Change loss and gradient norm, a row a step, a column a rank."""

    def read(self, readings: "Readings") -> None:
        """Change readings of devices, hosts and networks."""

    def beats(self, rank: int, instants: Floats) -> Floats:
        """The instants at which heartbeats of a rank come, of those at which they would."""
        return instants

    def lines(self, block: Block, voice: Voice) -> Iterable[Text]:
        """Lines that come with these steps."""
        return ()

    def opening(self, attempt: int) -> Opening | None:
        """What is odd about the begin of an attempt."""
        return None

    def stop(self, attempt: int) -> Stop | None:
        """How it ends an attempt."""
        return None

    def last_words(self, stopped_s: float, voice: Voice) -> Iterable[Text]:
        """Lines with which its own stop begins."""
        return ()

    def first_words(self, begun_s: float, attempt: int, voice: Voice) -> Iterable[Text]:
        """Lines of the begin of an attempt."""
        return ()

    # What they share.

    def strikes(self, block: Block) -> slice:
        """The rows of a block in which it works."""
        return block.rows(self.step or 0, self.until)

    def works_at(self, instants: Floats) -> Floats:
        """1 for the instants at which it works, 0 for the others."""
        if self.began_s is None:
            return np.zeros(len(instants))
        end = np.inf if self.ended_s is None else self.ended_s
        return ((instants >= self.began_s) & (instants < end)).astype(float)

    def one_rank(self, dice: np.random.Generator) -> None:
        """Strike one rank."""
        rank = int(dice.integers(self.plan.layout.ranks))
        self.ranks, self.nodes = (rank,), (rank // self.plan.layout.per_node,)

    def one_node(self, dice: np.random.Generator) -> None:
        """Strike one node with all its ranks."""
        node = int(dice.integers(self.plan.layout.nodes))
        self.ranks, self.nodes = self.plan.layout.ranks_on(node), (node,)

    def onset_in(self, block: Block) -> float | None:
        """When its first step begins, where that is one of the block."""
        if self.step is None or self.step not in block.steps:
            return None
        return float(block.starts[self.step - block.first].min())
