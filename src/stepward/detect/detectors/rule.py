"""Rules of people at work."""

import math
from collections import deque
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase

from stepward.detect.metrics import Meaning
from stepward.detect.progress import US
from stepward.detect.rules import Rule
from stepward.detect.scene import Detector, Episode, Scene, close
from stepward.detect.signals import AttemptEnded, Sample

MAX_HELD = 4096
"""Samples of one window; of a denser series the newest count."""
MAX_SERIES = 20_000
_Key = tuple[int, str, int | None, int | None, str]
_HOLDS: dict[str, Callable[[float, float], bool]] = {
    "above": lambda value, threshold: value > threshold,
    "below": lambda value, threshold: value < threshold,
    "equals": lambda value, threshold: value == threshold,
    "not_finite": lambda value, threshold: not math.isfinite(value),
}


class _Series:
    __slots__ = ("episode", "since", "values")

    def __init__(self) -> None:
        self.values: deque[tuple[int, float]] = deque(maxlen=MAX_HELD)
        self.since: int | None = None
        self.episode: Episode | None = None


class RuleWatch(Detector):
    """What people said a metric must not do.

    Signal: samples whose metric matches a rule's glob, each series by itself. Method: the aggregate of its window against the
    threshold; suspected when it holds, confirmed when it has held for ``for_s``, over when it does not. Without a window
    that is filled nothing is said.
    Known false positives: those of the rule.
    """

    type = "rule"

    def __init__(self, scene: Scene, rules: Sequence[Rule] = ()) -> None:
        super().__init__(scene)
        self._rules = rules
        self._matching: dict[str, tuple[int, ...]] = {}
        self._series: dict[_Key, _Series] = {}

    def wants(self, metric: str) -> bool:
        """Whether a rule is about the metric."""
        return bool(self._of(metric))

    def sample(self, sample: Sample, meaning: Meaning | None) -> None:
        """A point of a metric that a rule is about."""
        for number in self._of(sample.metric):
            key = (number, sample.metric, sample.rank, sample.device, sample.node)
            series = self._series.get(key)
            if series is None:
                if len(self._series) >= MAX_SERIES:
                    return
                series = self._series[key] = _Series()
            self._judge(self._rules[number], series, sample)

    def attempt_ended(self, end: AttemptEnded) -> None:
        """It is over."""
        close([series.episode for series in self._series.values()], end.time, "the attempt ended")

    def _of(self, metric: str) -> tuple[int, ...]:
        known = self._matching.get(metric)
        if known is None:
            known = tuple(at for at, rule in enumerate(self._rules) if fnmatchcase(metric, rule.metric))
            if len(self._matching) > 10_000:
                self._matching.clear()
            self._matching[metric] = known
        return known

    def _judge(self, rule: Rule, series: _Series, sample: Sample) -> None:
        value = self._value(rule, series, sample)
        if value is None:
            return
        if not _HOLDS[rule.when](value, rule.threshold):
            series.since = None
            if series.episode is not None and not series.episode.over:
                series.episode.end(sample.time)
            return
        if series.since is None:
            series.since = sample.time
        episode = series.episode
        held = (sample.time - series.since) / US
        if episode is None or episode.over:
            where = (rule.name, sample.metric, sample.rank, sample.device, sample.node)
            episode = series.episode = Episode(
                self,
                series.since,
                " ".join(str(part) for part in where if part not in (None, "")),
                step=sample.step,
                ranks=(sample.rank,) if sample.rank is not None else (),
                nodes=(sample.node,) if sample.node else (),
                devices=(sample.device,) if sample.device is not None else (),
                severity=rule.severity,
                title=rule.name,
                data={"rule": rule.name, "metric": sample.metric, "threshold": rule.threshold, "when": rule.when},
            )
            if held < rule.for_s:
                episode.suspect(sample.time, data={"value": value})
        if held >= rule.for_s and not episode.confirmed:
            episode.confirm(sample.time, data={"value": value})

    @staticmethod
    def _value(rule: Rule, series: _Series, sample: Sample) -> float | None:
        if rule.window_s == 0:
            return sample.value
        values, span = series.values, rule.window_s * US
        values.append((sample.time, sample.value))
        full = sample.time - values[0][0] >= span or len(values) == MAX_HELD
        while sample.time - values[0][0] > span:
            values.popleft()
        if not full:
            return None
        numbers = [value for _, value in values]
        if rule.aggregate == "delta":
            return numbers[-1] - numbers[0]
        if rule.aggregate == "mean":
            return sum(numbers) / len(numbers)
        return {"last": lambda: numbers[-1], "min": lambda: min(numbers), "max": lambda: max(numbers)}[rule.aggregate]()
