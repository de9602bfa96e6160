"""Compiling that does not come to its end."""

from collections import deque

from stepward.detect.metrics import Meaning
from stepward.detect.progress import US, WARM_UP_STEPS, RankState
from stepward.detect.scene import Detector, Episode, Scene, close
from stepward.detect.signals import AttemptEnded, Hit, PhaseEnded, Sample, Step
from stepward.model.words import Phase

SPAN = 100
MOST = 3
"""More than three compiles in 100 steps after the warm-up, or more than 10 % of the time (thresholds 1)."""
SHARE = 0.10
LEAST_S = 0.01
_COMPILE = Phase.COMPILE.value


class RecompilationStorm(Detector):
    """Steps keep on being compiled after the warm-up.

    Signal: phase ``compile`` inside or outside of steps, metrics of compile time, lines labelled ``recompilation``.
    Method: steps with a compile among the last 100 of the rank that compiles most; two are suspected, more than three confirm,
    and so do two that take 10 % of the time of those steps.
    Known false positives: a first evaluation, whose shapes are new.
    """

    type = "recompilation_storm"
    meanings = frozenset({Meaning.COMPILE_TIME})

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._compiles: dict[int, deque[tuple[int, int, float]]] = {}
        self._episode: Episode | None = None

    def step(self, step: Step, state: RankState, seconds: float) -> None:
        """A step that compiled, or one after which the storm may be over."""
        compiled = step.phases.get(_COMPILE)
        if compiled is not None and compiled >= LEAST_S:
            self._compiled(state, step.time, step.step, compiled)
        elif self._episode is not None and not self._episode.over and state is self.attempt.lead:
            newest = max((times[-1][0] for times in self._compiles.values() if times), default=0)
            if step.step - newest >= SPAN:
                self._episode.end(step.time)

    def phase_ended(self, phase: PhaseEnded, state: RankState, seconds: float | None) -> None:
        """A compile between steps."""
        if phase.phase == _COMPILE and seconds is not None:
            self._compiled(state, phase.time, state.step or 0, seconds)

    def sample(self, sample: Sample, meaning: Meaning) -> None:
        """A compile that only a metric tells of."""
        state = self.attempt.ranks.get(sample.rank or 0)
        if state is not None and sample.value > LEAST_S:
            self._compiled(
                state, sample.time, sample.step if sample.step is not None else state.step or 0, sample.value
            )

    def hit(self, hit: Hit) -> None:
        """The framework tells of a compile, or gave up on it."""
        if hit.label != "recompilation":
            return
        if hit.role in ("either", "context"):
            state = self.attempt.ranks.get(hit.rank) if hit.rank is not None else self.attempt.lead
            if state is not None:
                self._compiled(state, hit.time, state.step or 0, 0.0)
        elif hit.role == "root":
            lead = self.attempt.lead
            if self._episode is None or self._episode.over:
                self._episode = Episode(self, hit.time, step=lead.step if lead else None, title=hit.text[:200])
            if not self._episode.confirmed:
                self._episode.confirm(hit.time, data={"line": hit.text[:400], "number": hit.line})

    def attempt_ended(self, end: AttemptEnded) -> None:
        """It is over."""
        close([self._episode], end.time, "the attempt ended")

    def _compiled(self, state: RankState, time: int, step: int, seconds: float) -> None:
        if state.steps <= WARM_UP_STEPS:
            return
        times = self._compiles.setdefault(state.rank, deque(maxlen=SPAN))
        if times and times[-1][0] == step:
            _, at, before = times.pop()
            times.append((step, at, before + seconds))
        else:
            times.append((step, time, seconds))
        while times and times[0][0] <= step - SPAN:
            times.popleft()
        spent = sum(one for _, _, one in times)
        usual = self.attempt.usual_turn()[0]
        share = spent / (spent + SPAN * usual) if self.attempt.turns else 0.0
        sure = len(times) > MOST or (len(times) >= 2 and share > SHARE)
        if len(times) < 2:
            return
        if self._episode is None or self._episode.over:
            began = times[0][1] - int(times[0][2] * US)
            self._episode = Episode(self, began, step=times[0][0])
        elif self._episode.confirmed:
            return
        ranks = (state.rank,) if len(self._compiles) * 2 < len(self.attempt.ranks) else ()
        words = {
            "data": {"compiles": len(times), "steps": SPAN, "seconds": spent, "share": share},
            "title": f"{len(times)} compiles within {SPAN} steps take {spent:.3g} s",
            "ranks": ranks,
        }
        (self._episode.confirm if sure else self._episode.suspect)(time, **words)
