"""What a detector is given and what it answers with: the scene of its attempt, and events in the making."""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

import msgspec

from stepward.detect.metrics import Meaning
from stepward.detect.order import Alarms
from stepward.detect.progress import US, Attempt, RankState
from stepward.detect.signals import (
    AttemptEnded,
    Certainty,
    Checkpoint,
    Detected,
    Heartbeat,
    Hit,
    PhaseBegan,
    PhaseEnded,
    RankEnded,
    Sample,
    Step,
)

FOLLOWS_S = 900.0
"""An event may be the consequence of one that began at most this long before it."""
_FOLLOWS: Mapping[str, frozenset[str]] = {
    "crash": frozenset(
        {"hardware_fault", "oom", "preemption", "hang", "non_finite", "disk_filling", "memory_growth", "input_bound"}
    ),
    "oom": frozenset({"memory_growth"}),
    "hang": frozenset({"hardware_fault", "oom", "crash", "preemption", "checkpoint_stall", "disk_filling"}),
    "divergence": frozenset({"loss_spike"}),
    "non_finite": frozenset({"loss_spike", "divergence", "hardware_fault"}),
    "straggler": frozenset({"hardware_fault", "input_bound"}),
    "slowdown": frozenset({"hardware_fault", "straggler", "input_bound", "recompilation_storm", "checkpoint_stall"}),
    "duty_cycle": frozenset(
        {"hardware_fault", "straggler", "slowdown", "input_bound", "recompilation_storm", "hang", "checkpoint_stall"}
    ),
    "idle_accelerators": frozenset({"hang", "input_bound", "checkpoint_stall", "crash"}),
    "telemetry_gap": frozenset({"hardware_fault", "crash", "hang"}),
    "checkpoint_stall": frozenset({"disk_filling", "hardware_fault"}),
    "restart_loop": frozenset({"crash", "oom"}),
    "no_progress_restart": frozenset({"crash", "oom"}),
}
"""Whose consequence an event of a type may be."""
_CHRONIC = frozenset({"input_bound"})
"""A job may live with these for days: only what comes soon after their begin follows from them."""


class Expected(msgspec.Struct, frozen=True, kw_only=True):
    """What earlier runs of the same configuration and queue showed, None where there were none.

    Attributes:
        step_s: usual step time.
        step_sigma: how far the runs are apart in it, as the standard deviation of its logarithm.
        waited_s: 95th percentile of the waits in the same queue for jobs of this size in 14 days.
    """

    step_s: float | None = None
    step_sigma: float = 0.0
    waited_s: float | None = None


class Outlet:
    """Where events go, deadlines come from, and the newest events are remembered."""

    def __init__(self, expected: Callable[[], Expected]) -> None:
        self.expected = expected
        self.alarms = Alarms()
        self.said: list[Detected] = []
        self._recent: deque[Detected] = deque(maxlen=64)

    def say(self, event: Detected) -> None:
        """Give out an event or a new version of it."""
        self.said.append(event)
        for at, known in enumerate(self._recent):
            if known.id == event.id:
                self._recent[at] = event
                return
        self._recent.append(event)

    def struck(self, *kinds: str) -> tuple[tuple[int, ...], tuple[str, ...]]:
        """Ranks and nodes that every confirmed event of these types was about, of as many as are remembered."""
        found = [e for e in self._recent if e.type in kinds and e.certainty is Certainty.CONFIRMED]
        ranks = set(found[0].ranks).intersection(*(e.ranks for e in found)) if found else set()
        nodes = set(found[0].nodes).intersection(*(e.nodes for e in found)) if found else set()
        return tuple(sorted(ranks)), tuple(sorted(nodes))

    def cause_of(self, kind: str, attempt: str, started_at: int) -> str | None:
        """Id of the newest event whose consequence one of this type may be."""
        causes = _FOLLOWS.get(kind, frozenset())
        for known in reversed(self._recent):
            near = started_at - known.started_at <= FOLLOWS_S * US
            lasting = known.ended_at is None and (kind != "crash" or known.type not in _CHRONIC)
            held = known.certainty is not Certainty.WITHDRAWN and (lasting or near)
            if known.type in causes and held and (known.attempt == attempt or kind.endswith(("loop", "restart"))):
                return known.id
        return None


class Scene:
    """What the detectors of one attempt share."""

    def __init__(self, attempt: Attempt, outlet: Outlet) -> None:
        self.attempt = attempt
        self.outlet = outlet
        self.alarms = outlet.alarms
        self.expected = outlet.expected


class Episode:
    """One event from suspicion to its end. Each method gives out a new version of it."""

    def __init__(self, detector: "Detector", started_at: int, what: str = "", **fields: Any) -> None:
        key = detector.scene.attempt.key
        kind = fields.pop("type", detector.type)
        self._outlet = detector.scene.outlet
        data = dict(fields.pop("data", {}))
        cause = self._outlet.cause_of(kind, key, started_at)
        if cause is not None:
            data["follows"] = cause
        self.event = Detected(
            id="/".join(part for part in (kind, key, what, str(started_at)) if part),
            type=kind,
            certainty=Certainty.SUSPECTED,
            detector=f"{detector.type}/{detector.version}",
            started_at=started_at,
            detected_at=started_at,
            attempt=key,
            data=data,
            **fields,
        )

    @property
    def confirmed(self) -> bool:
        """Whether it is sure."""
        return self.event.certainty is Certainty.CONFIRMED

    @property
    def over(self) -> bool:
        """Whether it has ended or was withdrawn."""
        return self.event.ended_at is not None

    def suspect(self, at: int, **changes: Any) -> None:
        """Say it, not sure of it yet."""
        self._say(at, changes)

    def confirm(self, at: int, **changes: Any) -> None:
        """Be sure of it."""
        self._say(at, {**changes, "certainty": Certainty.CONFIRMED})

    def end(self, at: int, ended_at: int | None = None, **changes: Any) -> None:
        """It is over: withdrawn where it was never confirmed."""
        if not self.confirmed:
            changes = {"certainty": Certainty.WITHDRAWN, **changes}
        self._say(at, {**changes, "ended_at": at if ended_at is None else ended_at})

    def withdraw(self, at: int) -> None:
        """It was not so, sure as it seemed."""
        self._say(at, {"certainty": Certainty.WITHDRAWN, "ended_at": at})

    def _say(self, at: int, changes: dict[str, Any]) -> None:
        data = {**self.event.data, **changes.pop("data", {})}
        self.event = msgspec.structs.replace(self.event, detected_at=at, data=data, **changes)
        self._outlet.say(self.event)


class Detector:
    """Base of the detectors of one attempt: what is not overridden is not called.

    Attributes:
        type: word of its events; version: raised when the same signals may give other events.
        meanings: samples that it wants.
    """

    type: ClassVar[str]
    version: ClassVar[int] = 1
    meanings: ClassVar[frozenset[Meaning]] = frozenset()

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.attempt = scene.attempt

    def step(self, step: Step, state: RankState, seconds: float) -> None:
        """A rank finished a step; ``seconds`` are those without known pauses."""

    def pace(self, step: Step, state: RankState, seconds: float) -> None:
        """The lead rank's step time where no steps are timed: from its metrics or the pace of its logging."""

    def sample(self, sample: Sample, meaning: Meaning) -> None:
        """A point of a metric that it wants."""

    def beat(self, beat: Heartbeat, state: RankState) -> None:
        """A rank lives."""

    def phase_began(self, phase: PhaseBegan, state: RankState) -> None:
        """A long phase opened."""

    def phase_ended(self, phase: PhaseEnded, state: RankState, seconds: float | None) -> None:
        """A long phase is over."""

    def saved(self, checkpoint: Checkpoint) -> None:
        """A checkpoint was written."""

    def hit(self, hit: Hit) -> None:
        """A known line was read."""

    def rank_ended(self, end: RankEnded, state: RankState) -> None:
        """A rank ended."""

    def attempt_ended(self, end: AttemptEnded) -> None:
        """The attempt is over; whatever lasts ends here. Called again when words about it come after its end."""

    def reopened(self, at: int) -> None:
        """An attempt that was taken for lost lives."""


def close(episodes: Iterable[Episode | None], at: int, why: str) -> None:
    """End what has not ended."""
    for episode in episodes:
        if episode is not None and not episode.over:
            episode.end(at, data={"ended_by": why})


Handler = Callable[..., None]


def overriding(detectors: Iterable[Detector], name: str) -> list[Handler]:
    """The methods of this name of those detectors that have one of their own."""
    return [
        getattr(detector, name)
        for detector in detectors
        if getattr(type(detector), name) is not getattr(Detector, name)
    ]
