"""What a live stream (SSE) tells: the event's name is the tag of a struct, its data the struct's JSON."""

import msgspec

from stepward.model.resources import Run, RunEvent


class RunUpdate(msgspec.Struct, tag="run", tag_field="type"):
    """A run was created or changed in what ``Run`` shows."""

    run: Run


class RunRemoved(msgspec.Struct, tag="run_removed", tag_field="type"):
    """A run was deleted."""

    id: str


class PointsUpdate(msgspec.Struct, tag="points", tag_field="type", kw_only=True):
    """New points were committed: the metrics, and the highest step and time among them; charts fetch what they show."""

    run: str
    metrics: list[str]
    step: int | None = None


class LogsUpdate(msgspec.Struct, tag="logs", tag_field="type"):
    """New output was committed: stream id -> number of lines that it has now."""

    run: str
    streams: dict[str, int]


class EventsUpdate(msgspec.Struct, tag="events", tag_field="type"):
    """Events of a run were added or changed."""

    run: str
    events: list[RunEvent]


LiveUpdate = RunUpdate | RunRemoved | PointsUpdate | LogsUpdate | EventsUpdate
