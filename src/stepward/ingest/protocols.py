"""The seams of ingest: what it needs of the points store, and what is derived from committed frames.

``PointsSink`` is the writing half of the points store (``stepward.store.points.protocol`` has the rest); an ``Applier``
(catalog, log index, live updates) follows the committed frames. Neither knows the other, nor HTTP.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from stepward.model.frames import Part, Payload, PhaseColumn, Source

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

SYSTEM_PREFIX = "system/"
"""Metrics that are sampled, not logged by the user: their step is a sample counter, so they are never stitched."""

STEP_TIME = "step/time"
STEP_PREFIX = "step/"
"""Metrics that the table of steps answers: how long a step took, and ``step/<phase>``, both in seconds, at the time at which
the step began. A metric of the same name that the user logs takes their place."""


class MetricSummary(msgspec.Struct, frozen=True):
    """What one frame did to one metric: its newest point and its number of points, over all devices.

    The newest point has the highest step, then the latest time, then no rank of its own, then the lowest device, then came
    last in the frame.
    """

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
        metrics: a summary for each metric of the ``points`` part, and for ``step/time`` and ``step/<phase>`` of ``steps``.
        last_step: highest step of points and steps; the sample counters of ``system/`` metrics are no steps.
        last_time: latest time of points and steps, sender's clock, µs.
        alive: its writer was seen alive when it was sent, however old the content is.
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
    alive: bool = False


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


class SeriesKey(NamedTuple):
    """A series as its writer defines it; the frame's source adds attempt, node, and the rank where the series has none."""

    metric: str
    unit: str
    device: int | None
    rank: int | None = None


class PointColumns(NamedTuple):
    """Points as parallel columns; ``series`` indexes the ``keys`` of their ``FrameRows``."""

    series: Ints
    step: Ints
    time: Ints
    value: Floats
    rounded: Bools


class StepColumns(NamedTuple):
    """Steps of one source as parallel columns; ``seconds`` has a column a phase, NaN where it was not measured."""

    phases: Sequence[PhaseColumn]
    step: Ints
    start: Ints
    duration: Floats
    seconds: NDArray[np.float64]


class FrameRows(msgspec.Struct, frozen=True, kw_only=True):
    """One decoded frame, ready to be committed.

    Attributes:
        frame: what the appliers get.
        parts: every part but ``points`` and ``steps`` as it came, unknown kinds included.
        keys: the series that the writer has defined so far; grows at its end only, so a store may remember its prefix.
    """

    frame: CommittedFrame
    parts: list[Part]
    keys: Sequence[SeriesKey]
    points: PointColumns | None
    steps: list[StepColumns]


class WriterPosition(NamedTuple):
    """How far a writer's journal is committed, and the run that it writes to."""

    run: str
    end: int


class PointsSink(Protocol):
    """The writing half of the points store. All methods block; one thread a project calls ``commit`` and ``settle``."""

    def projects(self) -> list[str]:
        """Projects that have a store, by name."""

    def positions(self, project: str) -> Mapping[str, WriterPosition]:
        """Committed position of every writer of the project."""

    def commit(self, project: str, frames: Sequence[FrameRows]) -> None:
        """Store frames in one transaction: points, steps, raw parts, positions, and what ``unsettled`` gives back.

        Frames of one writer are in order and were never committed before. On any error nothing of them is stored.

        Raises:
            StorageFull: ``disk_full``.
            Unavailable: ``store_corrupt``, ``store_closed``, ``store_failed``.
        """

    def unsettled(self, project: str) -> list[CommittedFrame]:
        """Frames in commit order that an applier may have missed: all that ``settle`` has not dropped."""

    def settle(self, project: str, before: int) -> None:
        """Drop what ``unsettled`` keeps of frames received before that instant (µs); every applier has them."""
