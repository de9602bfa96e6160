"""The seam between committing frames (this package) and what is derived from them (catalog, logs, live updates)."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from stepward.model.frames import Payload, Source


class MetricSummary(msgspec.Struct, frozen=True):
    """What one frame did to one metric: its newest point (highest step, then latest time) and number of points."""

    metric: str
    unit: str
    step: int
    time: int
    value: float
    rounded: bool
    count: int
    first_step: int
    system: bool


class CommittedFrame(msgspec.Struct, frozen=True, kw_only=True):
    """A frame whose points and raw payloads are on disk.

    Attributes:
        received_at: server's clock, µs since the epoch.
        payloads: every part but ``points`` and ``steps``, by kind, in the frame's order.
        metrics: a summary for each metric of the ``points`` part.
        last_step: highest step of points and steps.
        last_time: latest time of points and steps, sender's clock, µs.
    """

    project: str
    run: str
    writer: str
    seq: int
    end: int
    sent_at: int
    received_at: int
    source: Source
    payloads: list[tuple[str, Payload]]
    metrics: list[MetricSummary]
    last_step: int | None = None
    last_time: int | None = None


class Applier(Protocol):
    """Derives something from committed frames: catalog rows, log index, live updates.

    Frames of one writer arrive in order. ``apply`` is idempotent by (writer, seq): after a crash, frames at or below the
    last applied position come again. It runs in the project's committer thread, after the commit and before the
    acknowledgement; it raises only when the frames must be applied again later.
    """

    def apply(self, frames: Sequence[CommittedFrame]) -> None:
        """Apply frames of one project, in commit order."""

    def applied(self, project: str) -> dict[str, int]:
        """Writer -> position up to which its frames have been applied."""
