"""What really happened in a simulated run."""

import msgspec

from stepward.model.taxonomy import LABELS


class Fault(msgspec.Struct, kw_only=True):
    """One fault of a run, as the simulation did it.

    Attributes:
        id: of this fault in its run.
        kind: name of the fault in the catalogue of faults.
        label, layer: its cause in the words of the taxonomy.
        type: word of the event that a detector should report.
        also: words of events that are true consequences of it, so that they are no false alarms.
        t0, t1: begin and end, µs since the epoch; ``t1`` None where it lasts to the end of the run.
        step: the first step that it touches; None before the first step.
        ranks, nodes: whom it strikes; empty where it strikes all alike.
        magnitude: how strong: a factor of time unless the kind says otherwise.
        detectable_by: kinds of signal that differ from the same run without the fault.
        localised_by: those in which the struck ranks or nodes stand out from the others.
    """

    id: str
    kind: str
    label: str
    type: str
    also: tuple[str, ...] = ()
    t0: int = 0
    t1: int | None = None
    step: int | None = None
    ranks: tuple[int, ...] = ()
    nodes: tuple[str, ...] = ()
    magnitude: float = 1.0
    layer: str = ""
    detectable_by: tuple[str, ...] = ()
    localised_by: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.layer = LABELS[self.label].layer.value
