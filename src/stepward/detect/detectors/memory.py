"""Memory that grows towards its limit."""

from itertools import pairwise

from stepward.detect.metrics import Meaning
from stepward.detect.progress import US
from stepward.detect.scene import Detector, Episode, Scene, close
from stepward.detect.series import slope
from stepward.detect.signals import AttemptEnded, Sample
from stepward.detect.usage import NEARLY_FULL

AHEAD_S = 1800.0
"""Full within 30 minutes at the present slope (thresholds 1)."""
BIN_S = 30.0
BINS = 40
LEAST_BINS = 8
RISING = 0.8
GROWN = 0.03
"""Least growth over the window, as a share of the limit: less may be noise."""
WARM_UP_S = 120.0
"""Caches fill when an attempt begins."""
SURE = 3
_USED = {
    Meaning.DEVICE_MEMORY_USED: (Meaning.DEVICE_MEMORY_TOTAL, "Device memory"),
    Meaning.HOST_MEMORY_USED: (Meaning.HOST_MEMORY_TOTAL, "Host memory"),
    Meaning.CGROUP_MEMORY_USED: (Meaning.CGROUP_MEMORY_LIMIT, "Memory of the job's cgroup"),
}
_Place = tuple[str, int | None]


class _Growth:
    """The largest value of each half minute, and what follows from them."""

    __slots__ = ("began", "bins", "due", "episode", "flags", "largest", "slot")

    def __init__(self) -> None:
        self.bins: list[tuple[float, float]] = []
        self.slot = -1
        self.largest = 0.0
        self.began = 0
        self.flags = 0
        self.due = 0.0
        self.episode: Episode | None = None


class MemoryGrowth(Detector):
    """Memory use rises steadily and would be full within 30 minutes.

    Signal: used memory of devices, hosts and the job's cgroup against their totals. Method: largest use a half minute, up to
    twenty minutes of them; Theil-Sen slope extrapolated to the limit (thresholds 1); four fifths of them rise; growth of
    3 % of the limit; three times in a row confirm. The first two minutes of an attempt do not count.
    Known false positives: a pool that grows to a set size (a cache, an allocator's arena).
    """

    type = "memory_growth"
    meanings = frozenset([*_USED, *(total for total, _ in _USED.values())])

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._totals: dict[tuple[Meaning, _Place], float] = {}
        self._growths: dict[tuple[Meaning, _Place], _Growth] = {}

    def sample(self, sample: Sample, meaning: Meaning) -> None:
        """Used memory, or the whole."""
        place = (sample.node, sample.device)
        pair = _USED.get(meaning)
        if pair is None:
            self._totals[meaning, place] = sample.value
            return
        limit = self._totals.get((pair[0], place))
        if not limit or (sample.time - self.attempt.started_at) < WARM_UP_S * US:
            return
        growth = self._growths.get((meaning, place))
        if growth is None:
            growth = self._growths[meaning, place] = _Growth()
        slot = int(sample.time // int(BIN_S * US))
        if slot != growth.slot:
            if growth.slot >= 0:
                growth.bins.append((growth.slot * BIN_S, growth.largest))
                del growth.bins[:-BINS]
                self._judge(growth, sample, limit, pair[1])
            growth.slot, growth.largest = slot, sample.value
        else:
            growth.largest = max(growth.largest, sample.value)

    def attempt_ended(self, end: AttemptEnded) -> None:
        """It is over."""
        close([growth.episode for growth in self._growths.values()], end.time, "the attempt ended")

    def _judge(self, growth: _Growth, sample: Sample, limit: float, what: str) -> None:
        left = _left_s(growth.bins, limit)
        if left is None:
            growth.flags = 0
            if growth.episode is not None and not growth.episode.over and growth.bins[-1][1] < NEARLY_FULL * limit:
                growth.episode.end(sample.time)
            return
        growth.flags += 1
        if growth.episode is None or growth.episode.over:
            since = int(growth.bins[0][0] * US)
            where = f"{sample.node or 'host'} {sample.device if sample.device is not None else what}"
            rank = self.attempt.rank_of(sample.node, sample.device) if sample.device is not None else sample.rank
            growth.episode = Episode(
                self,
                since,
                where,
                step=self.attempt.lead.step if self.attempt.lead else None,
                nodes=(sample.node,) if sample.node else (),
                devices=(sample.device,) if sample.device is not None else (),
                ranks=(rank,) if rank is not None else (),
                title=f"{what} will be full in {max(1, round(left / 60))} min",
            )
        data = {"metric": sample.metric, "used": growth.bins[-1][1], "limit": limit, "full_in_s": left}
        if growth.flags >= SURE and not growth.episode.confirmed:
            growth.episode.confirm(sample.time, data=data)
        elif growth.flags == 1 and not growth.episode.confirmed:
            growth.episode.suspect(sample.time, data=data)


def _left_s(bins: list[tuple[float, float]], limit: float) -> float | None:
    """Seconds until the limit at the present slope, None where nothing grows towards it within the time."""
    if len(bins) < LEAST_BINS or bins[-1][1] - bins[0][1] < GROWN * limit:
        return None
    rising = sum(b[1] >= a[1] for a, b in pairwise(bins))
    if rising < RISING * (len(bins) - 1):
        return None
    # A pool that has filled rose too, but not lately.
    recent = bins[-LEAST_BINS:]
    speed = min(slope(bins[-2 * LEAST_BINS :]), slope(recent))
    if speed <= 0:
        return None
    left = max(0.0, limit - bins[-1][1]) / speed
    return left if left <= AHEAD_S else None
