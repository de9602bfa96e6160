"""What detectors are fed and what they answer: signals of one run in, events out.

The same signals come from a live server, from stored runs and from exports, so that each gives the same events. Times are
µs since the epoch on the server's clock (whoever makes the signals has corrected them), durations are seconds.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple, TypeAlias

import msgspec


class AttemptStarted(NamedTuple):
    """An attempt began; ``ranks`` is the world that its launcher announced, ``nodes`` node -> ranks on it where known."""

    time: int
    attempt: str
    ranks: int | None = None
    nodes: Mapping[str, tuple[int, ...]] = {}
    resumed_step: int | None = None


class AttemptEnded(NamedTuple):
    """An attempt is over; ``state`` is a word of ``model.states``."""

    time: int
    attempt: str
    state: str
    reason: str = ""


class RankEnded(NamedTuple):
    """The end of one rank as its reaper, its SDK or the kernel saw it."""

    time: int
    attempt: str
    rank: int
    exit_code: int | None = None
    signal: str | None = None
    node: str = ""


class Step(NamedTuple):
    """One finished step of one rank; ``time`` is its end.

    ``phases`` are seconds by phase; those in ``device_phases`` were measured by a device clock.
    """

    time: int
    attempt: str
    rank: int
    step: int
    duration_s: float
    phases: Mapping[str, float] = {}
    device_phases: frozenset[str] = frozenset()


class Sample(NamedTuple):
    """One point of a metric; system metrics (``system/...``) carry a device or a node, and their step means nothing."""

    time: int
    attempt: str
    metric: str
    value: float
    step: int | None = None
    rank: int | None = None
    device: int | None = None
    node: str = ""


class Heartbeat(NamedTuple):
    """A rank (or whoever sees it) says that it lives, where it is and when it last moved forward."""

    time: int
    attempt: str
    rank: int
    step: int | None = None
    progress_at: int | None = None
    phase: str | None = None
    stopped: bool = False


class PhaseBegan(NamedTuple):
    """A long phase opened: init, restore, compile, evaluation, checkpoint_save."""

    time: int
    attempt: str
    rank: int
    phase: str


class PhaseEnded(NamedTuple):
    """The phase is over; ``seconds`` is how long it took, None where only its beginning tells."""

    time: int
    attempt: str
    rank: int
    phase: str
    seconds: float | None = None


class Checkpoint(NamedTuple):
    """A checkpoint of ``step``: ``blocking_s`` is what it cost the loop; ``durable`` that it is complete on storage."""

    time: int
    attempt: str
    rank: int
    step: int
    blocking_s: float | None = None
    durable: bool = False


class Hit(NamedTuple):
    """A line of output, of the kernel or of the scheduler that a signature of the catalogue knows.

    ``label`` is of the taxonomy, None for evidence without a cause; ``role`` as in the catalogue (root, either, confirm,
    cascade, context); ``source`` and ``line`` say where it stands.
    """

    time: int
    attempt: str
    signature: str
    label: str | None
    role: str
    severity: str
    text: str
    source: str = ""
    line: int | None = None
    rank: int | None = None
    node: str = ""


class Waited(NamedTuple):
    """A job began after it had waited in its queue; ``reason`` is the scheduler's word for it."""

    time: int
    attempt: str
    waited_s: float
    reason: str = ""


class Tick(NamedTuple):
    """Nothing came up to this instant: silence is a signal too."""

    time: int


Signal: TypeAlias = (
    AttemptStarted
    | AttemptEnded
    | RankEnded
    | Step
    | Sample
    | Heartbeat
    | PhaseBegan
    | PhaseEnded
    | Checkpoint
    | Hit
    | Waited
    | Tick
)


class Certainty(StrEnum):
    """How sure a detector is; only a confirmed event notifies."""

    SUSPECTED = "suspected"
    CONFIRMED = "confirmed"
    WITHDRAWN = "withdrawn"


class Detected(msgspec.Struct, frozen=True, kw_only=True):
    """What a detector says about an interval. One with the same ``id`` replaces the earlier one.

    Attributes:
        id: stable over replays: detector, attempt, and what begins the interval.
        type: word of the event (``hang``, ``straggler``, ...).
        certainty: suspected, then confirmed or withdrawn.
        detector: name and version of the detector, ``hang/1``.
        started_at, ended_at: the interval, µs; ``ended_at`` None while it lasts.
        detected_at: instant of the signal that made the detector say this.
        attempt, step: where; the step at which it began.
        ranks, nodes, devices: whom it is about; empty where it cannot be localised (``data["unknown"]`` says why).
        severity: ``info``, ``warning``, ``critical``.
        title: one line for people.
        data: figures: value, baseline, threshold, unit, evidence.
    """

    id: str
    type: str
    certainty: Certainty
    detector: str
    started_at: int
    detected_at: int
    attempt: str
    ended_at: int | None = None
    step: int | None = None
    ranks: tuple[int, ...] = ()
    nodes: tuple[str, ...] = ()
    devices: tuple[int, ...] = ()
    severity: str = "warning"
    title: str = ""
    data: dict[str, Any] = {}
