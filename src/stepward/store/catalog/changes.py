"""What a committed batch changed, for whoever watches (live updates): said once, after the commit."""

from collections.abc import Callable, Sequence

import msgspec

from stepward.model.resources import RunEvent


class Change(msgspec.Struct, kw_only=True):
    """Something of a run changed.

    Attributes:
        metrics: metrics that got points.
        step: highest step among the new points.
        events: events that are new or changed.
        logs: output came.
        removed: the run is gone.
    """

    project: str
    run: str
    metrics: set[str] = msgspec.field(default_factory=set)
    step: int | None = None
    events: list[RunEvent] = msgspec.field(default_factory=list)
    logs: bool = False
    removed: bool = False


Listener = Callable[[Sequence[Change]], None]


def nobody(_changes: Sequence[Change]) -> None:
    """The listener of a catalog that nobody watches."""
