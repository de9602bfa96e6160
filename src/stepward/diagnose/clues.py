"""The coin of a diagnosis: a clue is one thing that an input says, with the line that says it.

Readers and the signature matcher make clues, cascade and ranking weigh them. A clue's strength is log-odds, by its role
(facts: root 3, either 1.5, confirm 1.2, cascade 0.3, context 0.05) plus what its signature adds.
"""

from enum import StrEnum

import msgspec

from stepward.diagnose.lines import Line


class Role(StrEnum):
    """What a clue can be in the story of a failure."""

    ROOT = "root"
    """Names a cause."""
    EITHER = "either"
    """A cause, or the mark that another cause left."""
    CONFIRM = "confirm"
    """Adds to a cause that something else names."""
    CASCADE = "cascade"
    """Somebody else's failure arrived here."""
    CONTEXT = "context"
    """Advice and circumstances."""


STRENGTH = {Role.ROOT: 3.0, Role.EITHER: 1.5, Role.CONFIRM: 1.2, Role.CASCADE: 0.3, Role.CONTEXT: 0.05}


class Kind(StrEnum):
    """Which sort of input said it; also what a cause was decided by."""

    LOG = "log"
    SCHEDULER = "scheduler"
    KERNEL = "kernel"
    METRICS = "metrics"
    STACKS = "stacks"
    EXIT = "exit"


class Clue(msgspec.Struct):
    """One thing that an input says, folded over its repeats by the same rank and node.

    ``rank`` and ``node`` are whom it is about; ``writer`` is the rank that the line is of, where that is another one.
    ``time`` is in seconds (see ``clocks``); ``episode`` is the attempt.
    """

    rule: str
    label: str | None
    role: Role
    kind: Kind
    source: str
    line: int
    text: str
    says: str
    strength: float
    last_line: int = 0
    count: int = 1
    time: float | None = None
    rank: int | None = None
    writer: int | None = None
    node: str | None = None
    device: str | None = None
    peer: str | None = None
    names_node: bool = False
    episode: int = 0
    do: str | None = None
    dismissed: str | None = None
    """Why it does not count; None while it does."""

    @property
    def anchors(self) -> bool:
        """Whether it may be the cause by itself."""
        return self.role in (Role.ROOT, Role.EITHER) and self.label is not None and self.dismissed is None


def clue(
    rule: str,
    label: str | None,
    kind: Kind,
    line: Line,
    says: str,
    *,
    role: Role = Role.ROOT,
    more: float = 0.0,
    text: str | None = None,
    rank: int | None = None,
    node: str | None = None,
    names_node: bool = False,
) -> Clue:
    """A clue of a reader's own rule; ``more`` is added to the strength of its role.

    ``text``, ``rank`` and ``node`` are the line's own where they are not given.
    """
    return Clue(
        rule=rule,
        label=label,
        role=role,
        kind=kind,
        source=line.source,
        line=line.number,
        last_line=line.number,
        text=(line.text if text is None else text).strip(),
        says=says,
        strength=STRENGTH[role] + more,
        rank=line.rank if rank is None else rank,
        writer=line.rank if rank is not None and line.rank != rank else None,
        node=node or line.node,
        time=line.time,
        names_node=names_node,
    )
