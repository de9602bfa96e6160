"""One run's detection: signals in, events out.

Pure and deterministic: the same signals give the same events, live or replayed, in whatever batches they come and however
little out of order (``order``). Signals that are sent again are ignored. What comes later than the lateness allows is still
heard, at once, and counted in ``late``: a replay may then say it better.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from stepward.detect.detectors import ATTEMPT_DETECTORS, RUN_DETECTORS
from stepward.detect.detectors.rule import RuleWatch
from stepward.detect.detectors.slowdown import LEARNED_STEPS
from stepward.detect.metrics import Meaning, meaning
from stepward.detect.order import LATENESS_S, Order
from stepward.detect.progress import Attempt, RankState
from stepward.detect.rules import Rule
from stepward.detect.scene import Detector, Expected, Handler, Outlet, Scene, overriding
from stepward.detect.signals import (
    AttemptEnded,
    AttemptStarted,
    Checkpoint,
    Detected,
    Heartbeat,
    Hit,
    PhaseBegan,
    PhaseEnded,
    RankEnded,
    Sample,
    Signal,
    Step,
    Waited,
)
from stepward.model.states import State

MAX_ATTEMPTS = 4
"""Attempts whose detectors are kept: late words about an older one are of no use."""
MAX_SEEN = 8192
"""Hits, phases and checkpoints that are remembered in order to know them when they are sent again."""


class _Stage:
    """The detectors of one attempt, by what they take."""

    def __init__(self, scene: Scene, rules: Sequence[Rule]) -> None:
        self.attempt = scene.attempt
        detectors: list[Detector] = [kind(scene) for kind in ATTEMPT_DETECTORS]
        if rules:
            detectors.append(RuleWatch(scene, rules))
        self._detectors = detectors
        self.steps = overriding(detectors, "step")
        self.paces = overriding(detectors, "pace")
        self.beats = overriding(detectors, "beat")
        self.begins = overriding(detectors, "phase_began")
        self.ends = overriding(detectors, "phase_ended")
        self.saves = overriding(detectors, "saved")
        self.hits = overriding(detectors, "hit")
        self.rank_ends = overriding(detectors, "rank_ended")
        self.attempt_ends = overriding(detectors, "attempt_ended")
        self.reopens = overriding(detectors, "reopened")
        self.end: AttemptEnded | None = None
        self.timed = False
        """Whether steps are timed: then the pace of logging is not looked at."""
        self.routes: dict[str, tuple[Meaning | None, bool, tuple[Handler, ...]]] = {}
        self.newest: dict[tuple[str, int | None, int | None, str], int] = {}

    def living(self, time: int) -> bool:
        """Whether the attempt goes on; one that was taken for lost does when it is heard of again."""
        if self.end is None:
            return True
        if self.end.state != State.LOST or time <= self.end.time:
            return False
        self.end = self.attempt.ended_at = None
        for reopen in self.reopens:
            reopen(time)
        return True

    def afterword(self) -> None:
        """Something was said of an attempt that is over: whatever it began ends at once."""
        if self.end is not None:
            for take in self.attempt_ends:
                take(self.end)

    def route(self, metric: str) -> tuple[Meaning | None, bool, tuple[Handler, ...]]:
        """Meaning of a metric, whether its step is progress, and who wants it."""
        what = meaning(metric)
        takers = [
            detector.sample
            for detector in self._detectors
            if (what is not None and what in detector.meanings)
            or (isinstance(detector, RuleWatch) and detector.wants(metric))
        ]
        if len(self.routes) > 10_000:
            self.routes.clear()
        found = self.routes[metric] = (what, not metric.startswith("system/"), tuple(takers))
        return found


class Detection:
    """All detectors of one run.

    Args:
        run: id of the run.
        rules: rules of people, in addition.
        expected: says, when it is asked, what earlier runs of the same configuration showed.
        lateness_s: how much out of order signals may be; it delays the answer and does not change it.
    """

    def __init__(
        self,
        run: str,
        rules: Sequence[Rule] = (),
        expected: Callable[[], Expected] = Expected,
        lateness_s: float = LATENESS_S,
    ) -> None:
        self.run = run
        self.late = 0
        self._rules = tuple(rules)
        self._order = Order(lateness_s)
        self._outlet = Outlet(expected)
        self._stages: OrderedDict[str, _Stage] = OrderedDict()
        self._closed: OrderedDict[str, None] = OrderedDict()
        self._seen: OrderedDict[tuple[Any, ...], None] = OrderedDict()
        self._history = [kind(self._outlet) for kind in RUN_DETECTORS]
        self._takers: dict[type, Callable[[Any], None]] = {
            Step: self._step,
            Sample: self._sample,
            Heartbeat: self._beat,
            PhaseBegan: self._phase_began,
            PhaseEnded: self._phase_ended,
            Checkpoint: self._saved,
            Hit: self._hit,
            RankEnded: self._rank_ended,
            AttemptStarted: self._started,
            AttemptEnded: self._ended,
            Waited: self._waited,
        }

    def take(self, signal: Signal) -> list[Detected]:
        """Take a signal; what is now known, each event in its newest version last."""
        order = self._order
        if signal[0] <= order.released:
            taker = self._takers.get(type(signal))
            if taker is not None:
                self.late += 1
                taker(signal)
            return self._said() if self._outlet.said else []
        return self._run(order.ready()) if order.put(signal) else []

    def drain(self) -> list[Detected]:
        """At the end of a replay: judge everything up to the newest signal, expecting no earlier one."""
        return self._run(self._order.ready(everything=True))

    @property
    def usual_step_s(self) -> float | None:
        """Median step of the newest attempt, pauses aside; None where it has too few to tell."""
        attempt = next((stage.attempt for stage in reversed(self._stages.values()) if stage.attempt.turns), None)
        return attempt.usual_turn()[0] if attempt is not None and len(attempt.turns) >= LEARNED_STEPS else None

    def _run(self, signals: Iterable[Signal]) -> list[Detected]:
        alarms, takers = self._outlet.alarms, self._takers
        for signal in signals:
            if alarms.next < signal[0]:
                self._ring(signal[0] - 1)
            takers[type(signal)](signal)
        if alarms.next <= self._order.released:
            self._ring(self._order.released)
        return self._said() if self._outlet.said else []

    def _ring(self, until: int) -> None:
        for time, call in self._outlet.alarms.due(until):
            call(time)

    def _said(self) -> list[Detected]:
        said, self._outlet.said = self._outlet.said, []
        return said

    def _stage(self, key: str, time: int) -> _Stage | None:
        """The stage of an attempt, set up at its first signal; None for one that is long over."""
        stage = self._stages.get(key)
        if stage is None and key not in self._closed:
            stage = self._stages[key] = _Stage(Scene(Attempt(key, time), self._outlet), self._rules)
            while len(self._stages) > MAX_ATTEMPTS:
                self._closed[self._stages.popitem(last=False)[0]] = None
            while len(self._closed) > MAX_SEEN:
                self._closed.popitem(last=False)
        return stage

    def _again(self, *key: Any) -> bool:
        """Whether this was heard already."""
        if key in self._seen:
            return True
        self._seen[key] = None
        if len(self._seen) > MAX_SEEN:
            self._seen.popitem(last=False)
        return False

    def _step(self, step: Step) -> None:
        stage = self._stages.get(step.attempt) or self._stage(step.attempt, step.time)
        if stage is None or (stage.end is not None and not stage.living(step.time)):
            return
        attempt = stage.attempt
        state = attempt.ranks.get(step.rank) or attempt.rank(step.rank)
        if step.time <= state.step_at:
            return
        stage.timed = True
        first = state.steps == 0
        seconds = attempt.stepped(state, step)
        if first:
            for detector in self._history:
                detector.first_step(step)
        for take in stage.steps:
            take(step, state, seconds)

    def _sample(self, sample: Sample) -> None:
        metric = sample.metric
        stage = self._stages.get(sample.attempt) or self._stage(sample.attempt, sample.time)
        if stage is None or stage.end is not None:
            return
        what, progress, takers = stage.routes.get(metric) or stage.route(metric)
        if progress and not stage.timed and sample.step is not None:
            self._pace(stage, sample, what)
        if not takers:
            return
        key = (metric, sample.rank, sample.device, sample.node)
        newest = stage.newest.get(key)
        if newest is not None and sample.time <= newest:
            return
        stage.newest[key] = sample.time
        for take in takers:
            take(sample, what)

    def _pace(self, stage: _Stage, sample: Sample, what: Meaning | None) -> None:
        """Progress of a rank whose steps are not timed: the first point that is logged for a new step."""
        attempt, step = stage.attempt, sample.step
        state = attempt.rank(sample.rank or 0)
        if step is None or step <= state.logged or sample.time <= state.step_at:
            return
        if state.steps == 0:
            turn = Step(sample.time, attempt.key, state.rank, step, 0.0)
            for detector in self._history:
                detector.first_step(turn)
        seconds = attempt.paced(state, sample.time, step)
        if seconds is not None and attempt.lead is state:
            turn = Step(sample.time, attempt.key, state.rank, step, seconds)
            for take in stage.paces:
                take(turn, state, seconds)

    def _beat(self, beat: Heartbeat) -> None:
        stage = self._stage(beat.attempt, beat.time)
        if stage is None or not stage.living(beat.time):
            return
        state = stage.attempt.rank(beat.rank)
        if beat.time <= state.beat_at or state.ended_at is not None:
            return
        stage.attempt.beat(state, beat)
        for take in stage.beats:
            take(beat, state)

    def _phase_began(self, phase: PhaseBegan) -> None:
        stage, state = self._open(phase)
        if stage is not None and state is not None and not self._again(*phase):
            stage.attempt.began(state, phase)
            for take in stage.begins:
                take(phase, state)

    def _phase_ended(self, phase: PhaseEnded) -> None:
        stage, state = self._open(phase)
        if stage is not None and state is not None and not self._again(PhaseEnded, *phase):
            seconds = stage.attempt.ended(state, phase)
            for take in stage.ends:
                take(phase, state, seconds)

    def _open(self, signal: PhaseBegan | PhaseEnded) -> tuple[_Stage | None, RankState | None]:
        stage = self._stage(signal.attempt, signal.time)
        if stage is None or not stage.living(signal.time):
            return None, None
        return stage, stage.attempt.rank(signal.rank)

    def _saved(self, checkpoint: Checkpoint) -> None:
        stage = self._stage(checkpoint.attempt, checkpoint.time)
        if stage is None or self._again(*checkpoint):
            return
        stage.attempt.saved(checkpoint)
        for detector in self._history:
            detector.saved(checkpoint)
        for take in stage.saves:
            take(checkpoint)

    def _hit(self, hit: Hit) -> None:
        stage = self._stage(hit.attempt, hit.time)
        where = (hit.source, hit.line) if hit.line is not None else (hit.time, hit.rank, hit.node)
        if stage is not None and not self._again(hit.signature, *where):
            for take in stage.hits:
                take(hit)
            stage.afterword()

    def _rank_ended(self, end: RankEnded) -> None:
        stage = self._stage(end.attempt, end.time)
        if stage is None:
            return
        state = stage.attempt.rank(end.rank)
        if state.ended_at is not None:
            return
        state.ended_at = end.time
        state.failed = end.signal is not None or end.exit_code not in (None, 0)
        state.open.clear()
        for take in stage.rank_ends:
            take(end, state)
        stage.afterword()

    def _started(self, start: AttemptStarted) -> None:
        known = self._stages.get(start.attempt)
        stage = self._stage(start.attempt, start.time)
        if stage is None:
            return
        stage.attempt.place(start.ranks, start.nodes)
        if known is None or not self._again("started", start.attempt):
            for detector in self._history:
                detector.started(start)

    def _ended(self, end: AttemptEnded) -> None:
        stage = self._stage(end.attempt, end.time)
        if stage is None or stage.end is not None:
            return
        for take in stage.attempt_ends:
            take(end)
        stage.end = end
        stage.attempt.ended_at = end.time
        for detector in self._history:
            detector.ended(end)

    def _waited(self, waited: Waited) -> None:
        if not self._again(*waited):
            for detector in self._history:
                detector.waited(waited)
