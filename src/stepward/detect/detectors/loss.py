"""Loss and gradient norm as they come: spiked, diverging, not finite."""

import math
from bisect import bisect_left, insort
from collections import deque
from typing import ClassVar

from stepward.detect.loss import DIVERGED, SPIKE_MADS
from stepward.detect.metrics import Meaning
from stepward.detect.scene import Detector, Episode, Scene, close
from stepward.detect.series import mad
from stepward.detect.signals import AttemptEnded, Hit, Sample

NORM_JUMP = 10.0
NEAR_STEPS = 3
"""A spike of the loss is one where the gradient norm is tenfold within 3 steps of it."""
RECOVERS = 200
"""A spike has come back within 200 steps; otherwise it is a divergence."""
WINDOW = 200
LEAST = 30
ALONE = 3
"""Samples in a row above the limit that count where no gradient norm is logged, or two where it is
logged too seldom to show a peak."""
PLAIN, PLAIN_TIMES = 3.0, 1.3
"""There a single sample counts too that is three times as high as the limit, and 30 % above its trend."""
FLOOR = 0.01
TREND = 0.1
RISING_STEPS = 500
SKIPS = 5
"""A loss scaler skips single steps: five gradient norms in a row that are not finite are no skips."""
_EVERY = 16


class NonFinite(Detector):
    """Loss or gradients are no numbers any more.

    Signal: loss and gradient norm of every rank; lines labelled ``numerics_nan``. Method: the first loss that is not finite is
    suspected, the second in a row, another rank's or a root line confirms; a gradient norm needs five in a row (thresholds 1:
    loss scalers skip steps). The step is the first bad one: the target of a rewind. Ranks are named where the first bad step
    is that of fewer than half of the ranks that log.
    Known false positives: a loss that is undefined by design (an empty batch).
    """

    type = "non_finite"
    meanings = frozenset({Meaning.LOSS, Meaning.GRAD_NORM})

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._bad: dict[tuple[str, int], int] = {}
        self._ranks: set[int] = set()
        self._first: dict[int, int] = {}
        self._episode: Episode | None = None
        self._good = 0

    def sample(self, sample: Sample, meaning: Meaning) -> None:
        """One loss or norm."""
        rank = sample.rank if sample.rank is not None else 0
        self._ranks.add(rank)
        key = (sample.metric, rank)
        if math.isfinite(sample.value):
            if self._bad:
                self._bad.pop(key, None)
                self._recover(sample)
            return
        bad = self._bad[key] = self._bad.get(key, 0) + 1
        self._good = 0
        sure = bad >= (2 if meaning is Meaning.LOSS else SKIPS)
        step = sample.step if sample.step is not None else -1
        if meaning is Meaning.LOSS or sure:
            self._first.setdefault(rank, step)
            others = sum(metric == sample.metric for metric, _ in self._bad) > 1 and meaning is Meaning.LOSS
            self._tell(sample.time, sure or others, sample.step, f"{sample.metric} is {sample.value}")

    def hit(self, hit: Hit) -> None:
        """The program says so itself."""
        if hit.label == "numerics_nan" and hit.role == "root":
            if hit.rank is not None:
                self._ranks.add(hit.rank)
                self._first.setdefault(hit.rank, -1)
            lead = self.attempt.lead
            self._tell(hit.time, True, lead.step if lead else None, hit.text[:200])

    def attempt_ended(self, end: AttemptEnded) -> None:
        """It is over."""
        close([self._episode], end.time, "the attempt ended")

    def _tell(self, time: int, sure: bool, step: int | None, title: str) -> None:
        if self._episode is None or self._episode.over:
            self._episode = Episode(self, time, step=step, severity="critical", title=title)
        elif self._episode.confirmed:
            return
        first = min(self._first.values(), default=-1)
        mine = sorted(rank for rank, at in self._first.items() if at == first)
        ranks = tuple(mine) if len(mine) * 2 <= len(self._ranks) else ()
        nodes = tuple(sorted({node for rank in ranks if (node := self.attempt.node_of(rank))}))
        data = {"bad_ranks": len(self._first), "logging_ranks": len(self._ranks)}
        say = self._episode.confirm if sure else self._episode.suspect
        say(time, ranks=ranks, nodes=nodes, data=data)

    def _recover(self, sample: Sample) -> None:
        if self._bad:
            return
        self._good += 1
        if self._episode is not None and not self._episode.over and self._good >= 1:
            self._episode.end(sample.time)
        self._first.clear()


class _Spread:
    """Median and MAD of the newest samples, kept sorted; the MAD is renewed every few samples only."""

    def __init__(self) -> None:
        self.newest: deque[float] = deque()
        self._sorted: list[float] = []
        self._mad = 0.0
        self._age = _EVERY

    def add(self, value: float) -> None:
        """Take a sample, forget the oldest."""
        self.newest.append(value)
        insort(self._sorted, value)
        if len(self.newest) > WINDOW:
            del self._sorted[bisect_left(self._sorted, self.newest.popleft())]
        self._age += 1

    @property
    def middle(self) -> float:
        """The median."""
        return self._sorted[len(self._sorted) // 2]

    def limit(self) -> float:
        """Above this a sample stands out."""
        if self._age >= _EVERY:
            self._age, self._mad = 0, mad(self._sorted)
        return self.middle + SPIKE_MADS * max(self._mad, FLOOR)


class LossSpike(Detector):
    """The loss jumped, and came back or did not.

    Signal: loss and gradient norm of the lowest rank that logs them. Method (thresholds 1, 5): the logarithm of the loss over
    its own trend (a mean over some 20 samples), above the median + 8 MAD of the last 200, is suspected; with a gradient norm
    above ten times its median within 3 steps, or, where none is logged so near, three samples in a row or one far above,
    it is confirmed when it comes back within 200 steps, and is a divergence when it does not. The smoothed loss diverges by
    itself when it is 10 % above its best and has risen for 500 steps.
    Known false positives: a change of the data on purpose; a loss around zero has no ratio and is not judged.
    """

    type = "loss_spike"
    meanings = frozenset({Meaning.LOSS, Meaning.GRAD_NORM})
    DIVERGENCE: ClassVar[str] = "divergence"

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._source: tuple[str, int] | None = None
        self._loss, self._norm = _Spread(), _Spread()
        self._jump_step: int | None = None
        self._spike: Episode | None = None
        self._divergence: Episode | None = None
        self._above = 0
        self._backed = False
        self._trend = self._smooth = self._best = math.nan
        self._rose_from: tuple[int, int] | None = None
        self._norms = False
        self._last_step: int | None = None
        self._stride = 1
        self._mark = (0, math.inf)

    def sample(self, sample: Sample, meaning: Meaning) -> None:
        """One loss or norm."""
        if not math.isfinite(sample.value) or sample.step is None:
            return
        if meaning is Meaning.GRAD_NORM:
            if (sample.rank or 0) == (self._source[1] if self._source else 0):
                self._take_norm(sample)
            return
        source = (sample.metric, sample.rank or 0)
        if self._source is None or source[1] < self._source[1]:
            self._source = source
        if source == self._source:
            self._take_loss(sample, sample.step)

    def attempt_ended(self, end: AttemptEnded) -> None:
        """It is over."""
        close([self._spike, self._divergence], end.time, "the attempt ended")

    def _take_norm(self, sample: Sample) -> None:
        norm = self._norm
        self._norms = True
        if len(norm.newest) >= LEAST and sample.value > NORM_JUMP * norm.middle:
            self._jump_step = sample.step
            self._back(sample.step or 0)
        else:
            norm.add(sample.value)

    def _back(self, step: int) -> None:
        """The gradient norm backs the loss."""
        if self._spike is not None and not self._spike.over and self._spike.event.step is not None:
            self._backed = self._backed or abs(step - self._spike.event.step) <= NEAR_STEPS * max(1, self._stride)

    def _take_loss(self, sample: Sample, step: int) -> None:
        if self._last_step is not None and step > self._last_step:
            self._stride = step - self._last_step
        gap = max(1, self._stride)
        self._last_step = step
        if sample.value > 0:
            loss, height = self._loss, math.log(sample.value)
            above = 0.0 if math.isnan(self._trend) else height - self._trend
            if len(loss.newest) >= LEAST and above > loss.limit():
                self._higher(sample, step)
            else:
                loss.add(above)
                self._trend = height if math.isnan(self._trend) else self._trend + TREND * above
                self._lower(sample, step)
        self._smoothed(sample, step, gap)

    def _higher(self, sample: Sample, step: int) -> None:
        self._above += 1
        if self._spike is None or self._spike.over:
            if self._divergence is not None and not self._divergence.over:
                return
            data = {
                "value": sample.value,
                "limit": math.exp(self._trend + self._loss.limit()),
                "usual": math.exp(self._trend),
            }
            title = f"The loss jumped to {sample.value:.4g}"
            self._spike = Episode(self, sample.time, step=step, data=data, title=title)
            self._backed = False
            self._spike.suspect(sample.time)
            if self._jump_step is not None:
                self._back(self._jump_step)
        # Between two logged steps far apart a gradient's peak goes unseen.
        height = math.log(sample.value) - self._trend
        plain = height > max(PLAIN * self._loss.limit(), math.log(PLAIN_TIMES))
        if (not self._norms or self._stride > NEAR_STEPS) and (
            plain or self._above >= (2 if self._stride > NEAR_STEPS else ALONE)
        ):
            self._backed = True
        spike, began = self._spike, self._spike.event.step
        if began is None or step - began <= RECOVERS:
            return
        if self._backed:
            self._diverge(spike.event.started_at, began, sample, confirm=True)
        spike.end(sample.time, data={"became": self.DIVERGENCE if self._backed else "the new level"})
        self._above, self._loss, self._trend = 0, _Spread(), math.nan

    def _lower(self, sample: Sample, step: int) -> None:
        self._above = 0
        spike = self._spike
        if spike is None or spike.over or spike.event.step is None:
            return
        if self._backed:
            spike.confirm(sample.time, ended_at=sample.time, data={"steps": step - spike.event.step})
        elif step - spike.event.step > NEAR_STEPS * max(1, self._stride):
            spike.end(sample.time)

    def _smoothed(self, sample: Sample, step: int, gap: int) -> None:
        """The exponential mean over some 200 steps against its best."""
        share = min(1.0, 2.0 * gap / (WINDOW + 1))
        before = self._smooth
        self._smooth = sample.value if math.isnan(before) else before + share * (sample.value - before)
        if not self._best <= self._smooth:
            self._best = self._smooth
        if len(self._loss.newest) < LEAST or self._best <= 0:
            return
        over = self._smooth > self._best * DIVERGED
        if not over:
            self._rose_from = None
            if self._divergence is not None and not self._divergence.over:
                self._divergence.end(sample.time)
            return
        if self._rose_from is None:
            self._rose_from = (step, sample.time)
        rising = self._smooth >= self._level_then(step)
        since, at = self._rose_from
        if rising and step - since >= RISING_STEPS:
            self._diverge(at, since, sample, confirm=True)
        elif rising and step - since >= WINDOW:
            self._diverge(at, since, sample, confirm=False)

    def _level_then(self, step: int) -> float:
        """The smoothed loss of some 100 steps ago: it must not have fallen since."""
        if self._mark[1] == math.inf or step - self._mark[0] >= WINDOW // 2:
            level, self._mark = self._mark[1], (step, self._smooth)
            return level if level != math.inf else self._smooth
        return self._mark[1]

    def _diverge(self, at: int, step: int, sample: Sample, *, confirm: bool) -> None:
        if self._divergence is None or self._divergence.over:
            self._divergence = Episode(self, at, type=self.DIVERGENCE, step=step, severity="critical")
        elif self._divergence.confirmed or not confirm:
            return
        data = {"value": self._smooth, "best": self._best, "threshold": DIVERGED}
        title = f"The loss rises: {self._smooth:.4g}, and was {self._best:.4g}"
        say = self._divergence.confirm if confirm else self._divergence.suspect
        say(sample.time, data=data, title=title)
