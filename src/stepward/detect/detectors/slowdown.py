"""Steps take longer than they did."""

import math
from collections import deque

from stepward.detect.metrics import Meaning
from stepward.detect.progress import WARM_UP_STEPS, RankState
from stepward.detect.scene import Detector, Episode, Scene, close
from stepward.detect.series import MAD_TO_SIGMA, correlation, mad, median, trimmed_mean
from stepward.detect.signals import AttemptEnded, Sample, Step
from stepward.detect.speed import SIGMA_FLOOR, SIGMAS, SLOWER

BLOCK = 30
"""Steps whose level counts as one (thresholds 3)."""
HOP = 10
"""Steps between two looks at the newest two blocks."""
TRIM = 0.2
LEARN = 3
"""Blocks of one's own from which on a run can be judged."""
KEPT = 24
LEARNED_STEPS = LEARN * BLOCK
UNSURE = 1.0
"""Sigma of n blocks is taken as 1 + 1/n times what it seems: a level of few blocks is itself uncertain."""
EACH_SIGMAS = 3.0
CUSUM_SLACK, CUSUM_LIMIT, CLIP = 0.5, 8.0, 3.0
EFFECT = 1.04
RECENT = 15
"""Tier 1: clipped CUSUM, and a median of the last 15 steps at least 4 % (and 3 sigma) above (thresholds 3)."""
_PACE, _METRIC, _STEP = 1, 2, 3
"""What is judged, the surest last."""


class Slowdown(Detector):
    """The steps of the lead rank became slower than its own past.

    Signal: step time less announced pauses, of the lowest rank; without timed steps a metric of step time or throughput, or
    the pace of logging. Log scale. Method (thresholds 3): tier 1 suspects by a CUSUM of clipped z (k 0.5, h 8) whose effect is
    at least max(4 %, 3 sigma) over the last 15 steps; tier 2 confirms when two blocks of 30 steps in a row lie, together,
    above max(5 %, 5 sigma) of the run's own blocks, and each above max(4 %, 3 sigma). A block's level is its mean without a
    fifth at either end, which varies less than the median and shrugs off pauses just as well; sigma is the larger of the
    blocks' own MAD and what the spread and correlation of single steps give. The baseline learns from blocks without alarm
    alone, and anew in each attempt. ``data.detectable`` is the least change that would have been seen.
    A run that is slow from its first step is seen where earlier runs of its configuration are known: its first three blocks
    lie above the median of their paces by as much as above, and by 5 sigma of what lies between those runs.
    Known false positives: work that grows on purpose (a curriculum of longer sequences).
    """

    type = "slowdown"
    meanings = frozenset({Meaning.STEP_TIME, Meaning.THROUGHPUT})

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._basis = 0
        self._start()
        self._episode: Episode | None = None

    def _start(self) -> None:
        self._fresh: list[float] = []
        """Steps of the block that the baseline may learn next."""
        self._newest: deque[float] = deque(maxlen=2 * BLOCK)
        self._times: deque[tuple[int, int]] = deque(maxlen=2 * BLOCK)
        self._blocks: deque[float] = deque(maxlen=KEPT)
        self._spreads: deque[float] = deque(maxlen=KEPT)
        self._shared: deque[float] = deque(maxlen=KEPT)
        self._base = self._sigma = self._spread = math.nan
        self._learned = False
        self._earlier = False
        """Whether it is earlier runs that it is slower than."""
        self._first: tuple[int, int] | None = None
        self._sum = 0.0
        self._since = 0
        self._hop = 0
        self._high = 0

    def step(self, step: Step, state: RankState, seconds: float) -> None:
        """A timed step."""
        if self.attempt.lead is state and state.steps > WARM_UP_STEPS:
            self._take(_STEP, step.time, step.step, seconds)

    def pace(self, step: Step, state: RankState, seconds: float) -> None:
        """The pace of logging."""
        if state.steps > WARM_UP_STEPS:
            self._take(_PACE, step.time, step.step, seconds)

    def sample(self, sample: Sample, meaning: Meaning) -> None:
        """A metric of the step time, or its inverse."""
        lead = self.attempt.lead
        if lead is not None and (sample.rank or 0) == lead.rank and lead.steps > WARM_UP_STEPS:
            value = sample.value
            if meaning is Meaning.THROUGHPUT and value:
                value = 1.0 / value
            self._take(_METRIC, sample.time, sample.step if sample.step is not None else lead.step or 0, value)

    def attempt_ended(self, end: AttemptEnded) -> None:
        """It is over."""
        close([self._episode], end.time, "the attempt ended")

    def _take(self, basis: int, time: int, step: int, seconds: float) -> None:
        if basis != self._basis:
            if basis < self._basis:
                return
            self._basis = basis
            self._start()
        if not 0 < seconds < math.inf:
            return
        value = math.log(seconds)
        self._first = self._first or (time, step)
        self._newest.append(value)
        self._times.append((time, step))
        self._fresh.append(value)
        if self._learned:
            self._cusum(value, time)
        self._hop += 1
        if self._hop >= HOP:
            self._hop = 0
            self._judge(time)

    def _cusum(self, value: float, time: int) -> None:
        z = (value - self._base) / self._spread
        before = self._sum
        self._sum = max(0.0, min(before + max(-CLIP, min(CLIP, z)) - CUSUM_SLACK, 4 * CUSUM_LIMIT))
        if before == 0.0 < self._sum:
            self._since = time
        if self._sum > CUSUM_LIMIT and (self._episode is None or self._episode.over):
            recent = list(self._newest)[-RECENT:]
            level = median(recent)
            if level - self._base >= max(math.log(EFFECT), EACH_SIGMAS * self._sigma * math.sqrt(BLOCK / RECENT)):
                first = next((entry for entry in self._times if entry[0] >= self._since), self._times[-1])
                self._episode = self._begun(first)
                self._episode.suspect(time, **self._words(level))

    def _judge(self, time: int) -> None:
        """Every ten steps: the newest two blocks against the baseline."""
        if self._learned and len(self._newest) == 2 * BLOCK:
            values = list(self._newest)
            levels = trimmed_mean(values[:BLOCK], TRIM), trimmed_mean(values[BLOCK:], TRIM)
            both = sum(levels) / 2 > self._base + self._least()
            if both and min(levels) > self._base + max(math.log(EFFECT), EACH_SIGMAS * self._sigma):
                self._confirm(time, levels)
            elif levels[1] < self._base + self._least() / 2:
                self._calm(time, max(levels) < self._base + self._least() / 2)
        if len(self._fresh) >= BLOCK:
            self._learn()

    def _least(self) -> float:
        """The least change of two blocks together, as a logarithm, that confirms."""
        return max(math.log(SLOWER), SIGMAS * self._sigma / math.sqrt(2))

    def _confirm(self, time: int, levels: tuple[float, float]) -> None:
        if self._episode is None or self._episode.over:
            self._episode = self._begun(self._times[0])
        if not self._episode.confirmed:
            self._episode.confirm(time, **self._words(sum(levels) / 2))

    def _begun(self, seen: tuple[int, int]) -> Episode:
        """An event from the step where it was seen, or from the first one where it was there before."""
        began, step = self._first if self._earlier and self._first else seen
        return Episode(self, began, step=step)

    def _calm(self, time: int, both: bool) -> None:
        episode = self._episode
        if episode is None or episode.over:
            return
        old = time - episode.event.started_at > 0 and self._times[0][0] >= episode.event.started_at
        if (both and episode.confirmed) or (old and not episode.confirmed):
            episode.end(time, self._times[BLOCK][0] if episode.confirmed else time)
            self._sum = 0.0

    def _learn(self) -> None:
        """Let the baseline have a block that is not under suspicion."""
        block, self._fresh = self._fresh[:BLOCK], self._fresh[BLOCK:]
        level = trimmed_mean(block, TRIM)
        open_ = self._episode is not None and not self._episode.over
        if open_ or (self._learned and level > self._base + self._least()):
            return
        centre = median(block)
        spread = max(MAD_TO_SIGMA * mad(block), SIGMA_FLOOR)
        near = [max(-CLIP * spread, min(CLIP * spread, value - centre)) for value in block]
        self._blocks.append(level)
        self._spreads.append(spread)
        # Thirty values give a correlation that is too low; this is its first-order correction.
        self._shared.append(min(0.95, (correlation(near) * BLOCK + 1) / (BLOCK - 4)))
        if len(self._blocks) >= LEARN:
            self._calibrate()

    def _calibrate(self) -> None:
        first, self._learned, self._earlier = not self._learned, True, False
        count = len(self._blocks)
        # Of few blocks the calmest ones mislead: until there are enough, the wildest counts.
        typical = max if count < 2 * LEARN else median
        shared = typical(self._shared)
        self._base = median(self._blocks)
        # Correlated steps wander: the CUSUM counts in what is left of them, not in their bare spread.
        self._spread = typical(self._spreads) * math.sqrt((1 + shared) / (1 - shared))
        own = MAD_TO_SIGMA * mad(self._blocks) if count >= 2 * LEARN else 0.0
        sigma = max(self._spread / math.sqrt(BLOCK), own, SIGMA_FLOOR / math.sqrt(BLOCK))
        self._sigma = sigma * (1 + UNSURE / count)
        if first and self._basis != _METRIC:  # whose unit nobody knows
            expected = self.scene.expected()
            usual, apart = expected.step_s, SIGMAS * expected.step_sigma
            if usual and self._base - math.log(usual) > max(self._least(), apart):
                # Slow from its first step: its own blocks are no baseline.
                self._base, self._earlier = math.log(usual), True
                for kept in (self._blocks, self._spreads, self._shared):
                    kept.clear()

    def _words(self, level: float) -> dict[str, object]:
        ratio = math.exp(level - self._base)
        data: dict[str, object] = {
            "ratio": ratio,
            "before_s": math.exp(self._base),
            "now_s": math.exp(level),
            "detectable": math.exp(self._least()) - 1.0,
            "basis": {_PACE: "pace", _METRIC: "metric", _STEP: "step"}[self._basis],
        }
        than = "in earlier runs of the same configuration" if self._earlier else "before"
        if self._earlier:
            data["against"] = "earlier runs"
        return {"data": data, "title": f"Steps take {ratio:.2f} times as long as {than}"}
