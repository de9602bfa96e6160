"""From what writers sent to signals: one conversion for a live server, a stored run and an export.

A signal's time is when its fact could be known, on the server's clock: a phase that ended is known at its end, an attempt
that was lost when its lease ran out. So the order of signals does not depend on who converts when.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from math import isnan

from stepward.detect.signals import (
    AttemptEnded,
    AttemptStarted,
    Checkpoint,
    Heartbeat,
    PhaseBegan,
    PhaseEnded,
    RankEnded,
    Sample,
    Signal,
    Step,
    Waited,
)
from stepward.ingest.protocols import SYSTEM_PREFIX, PointColumns, SeriesKey, StepColumns
from stepward.model.frames import Config, Event, Events, Payload, Source, Status
from stepward.model.states import Exit, State
from stepward.model.words import HEARTBEAT_S, MISSED_HEARTBEATS, Clock, Phase, SourceKind

US = 1_000_000
LEASE_US = round(HEARTBEAT_S * MISSED_HEARTBEATS * US)
SMALL_OFFSET_US = 2 * US
"""Offsets below this are transport, not clocks; larger ones are taken in whole seconds, so that they do not wander."""
_LONG_PHASES = frozenset(
    {Phase.INIT, Phase.RESTORE, Phase.COMPILE, Phase.EVALUATION, Phase.CHECKPOINT_SAVE, Phase.ROLLOUT, Phase.PROVISION}
)


def clock_error(offset_us: int) -> int:
    """What to add to a source's times, from the offset of its clock."""
    return 0 if abs(offset_us) < SMALL_OFFSET_US else round(offset_us / US) * US


class RunSignals:
    """The conversion of one run; it remembers which rank is where, and which phase each writer was last in."""

    def __init__(self) -> None:
        self._nodes: dict[str, dict[str, set[int]]] = defaultdict(dict)
        self._phases: dict[tuple[str, int], str] = {}

    def of_payload(self, attempt: str, source: Source, payload: Payload, shift: int) -> Iterator[Signal]:
        """Signals of a part that is neither points, steps nor output.

        Args:
            attempt: key of the attempt that the source speaks of.
            shift: µs to add to its times.
        """
        if isinstance(payload, Status):
            yield from self._status(attempt, source, payload, shift)
        elif isinstance(payload, Events):
            for event in payload.events:
                yield from self._event(attempt, source, event, shift)
        elif isinstance(payload, Config):
            yield from self._config(attempt, source, payload, shift)
        elif isinstance(payload, Exit):
            yield from self._exit(attempt, source, payload, shift)

    def _status(self, attempt: str, source: Source, status: Status, shift: int) -> Iterator[Signal]:
        at = status.at + shift
        if source.kind == SourceKind.RANK and source.rank is not None:
            progress = None if status.progress_at is None else status.progress_at + shift
            yield from self._phase(attempt, source.rank, status.phase, at)
            yield Heartbeat(at, attempt, source.rank, status.step, progress, status.phase)
            return
        # A wrapper sees a process, not its progress: of those that run it says nothing new.
        for rank in status.stopped:
            yield Heartbeat(at, attempt, rank, phase=self._phases.get((attempt, rank)), stopped=True)

    def _phase(self, attempt: str, rank: int, phase: str | None, at: int) -> Iterator[Signal]:
        """Long phases are seen to begin by heartbeats; their end is an event."""
        before = self._phases.get((attempt, rank))
        if phase == before:
            return
        if phase is None:
            self._phases.pop((attempt, rank), None)
        else:
            self._phases[attempt, rank] = phase
            if phase in _LONG_PHASES:
                yield PhaseBegan(at, attempt, rank, phase)

    def _event(self, attempt: str, source: Source, event: Event, shift: int) -> Iterator[Signal]:
        end = (event.started_at if event.ended_at is None else event.ended_at) + shift
        seconds = max(end - event.started_at - shift, 0) / US
        rank = event.rank if event.rank is not None else source.rank
        if event.type == "phase" and rank is not None and event.data.get("name") in _LONG_PHASES:
            yield PhaseEnded(end, attempt, rank, str(event.data["name"]), seconds)
        elif event.type in ("checkpoint", "checkpoint_durable") and event.step is not None:
            durable = event.type == "checkpoint_durable"
            yield Checkpoint(end, attempt, rank or 0, event.step, None if durable else seconds, durable)
        elif event.type == "resumed" and isinstance(event.data.get("step"), int):
            yield AttemptStarted(end, attempt, nodes=self._placed(attempt), resumed_step=event.data["step"])
        elif event.type == "queued" and event.ended_at is not None:
            yield Waited(end, attempt, seconds, str(event.data.get("reason", "")))

    def _config(self, attempt: str, source: Source, config: Config, shift: int) -> Iterator[Signal]:
        if config.started_at is None:
            return
        if source.rank is not None and source.node:
            self._nodes[attempt].setdefault(source.node, set()).add(source.rank)
        yield AttemptStarted(config.started_at + shift, attempt, config.ranks, self._placed(attempt))

    def _placed(self, attempt: str) -> dict[str, tuple[int, ...]]:
        return {node: tuple(sorted(ranks)) for node, ranks in self._nodes[attempt].items()}

    def _exit(self, attempt: str, source: Source, exit: Exit, shift: int) -> Iterator[Signal]:
        rank = exit.rank if source.kind != SourceKind.RANK else source.rank
        if rank is not None:
            yield RankEnded(exit.at + shift, attempt, rank, exit.exit_code, exit.signal, source.node)


def of_points(
    attempt: str, source: Source, keys: Sequence[SeriesKey], points: PointColumns, shift: int
) -> Iterator[Sample]:
    """The points of one frame; the step of a system metric is a sample counter and means nothing."""
    own = source.rank if source.kind == SourceKind.RANK else None
    columns = zip(
        points.series.tolist(), points.step.tolist(), points.time.tolist(), points.value.tolist(), strict=True
    )
    for number, step, time, value in columns:
        key = keys[number]
        system = key.metric.startswith(SYSTEM_PREFIX)
        yield Sample(
            time + shift,
            attempt,
            key.metric,
            value,
            None if system else step,
            own if key.rank is None else key.rank,
            key.device,
            source.node,
        )


def of_steps(attempt: str, rank: int, steps: StepColumns, shift: int) -> Iterator[Step]:
    """The steps of one frame. A phase that both clocks measured is the device's."""
    names = [phase.name for phase in steps.phases]
    device = frozenset(phase.name for phase in steps.phases if phase.clock == Clock.DEVICE)
    by_device = [phase.clock == Clock.DEVICE for phase in steps.phases]
    rows = zip(steps.step.tolist(), steps.start.tolist(), steps.duration.tolist(), steps.seconds.tolist(), strict=True)
    for number, start, duration, seconds in rows:
        phases: dict[str, float] = {}
        for name, measured, value in zip(names, by_device, seconds, strict=True):
            if not isnan(value) and (measured or name not in device or name not in phases):
                phases[name] = value
        yield Step(
            start + round(duration * US) + shift, attempt, rank, number, duration, phases, device & phases.keys()
        )


def attempt_end(attempt: str, state: str, ended_at: int, reason: str | None) -> AttemptEnded:
    """The end of an attempt as it was judged; one that was lost is known to be when its lease is over."""
    known = ended_at + LEASE_US if state == State.LOST else ended_at
    return AttemptEnded(known, attempt, state, reason or "")
