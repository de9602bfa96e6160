"""Accelerators that work less than they did, or not at all."""

from stepward.detect.metrics import Meaning
from stepward.detect.progress import US, RankState
from stepward.detect.scene import Detector, Episode, Scene, close
from stepward.detect.series import MAD_TO_SIGMA, mad, median
from stepward.detect.signals import AttemptEnded, PhaseBegan, PhaseEnded, Sample
from stepward.detect.usage import DUTY_DROP, IDLE_DUTY

BIN_S = 60.0
LEARN = 5
KEPT = 30
SURE = 3
CLEAR = 2
SIGMAS = 5.0
IDLE_BINS = 10
"""Ten minutes (thresholds 1)."""
_Place = tuple[str, int | None]


class _Device:
    """Mean duty of each minute."""

    __slots__ = ("count", "flags", "low", "mean", "past", "total")

    def __init__(self) -> None:
        self.total = 0.0
        self.count = 0
        self.mean = 0.0
        self.past: list[float] = []
        self.flags = self.low = 0

    def close(self) -> float | None:
        """The minute's mean, None without a sample."""
        mean = self.total / self.count if self.count else None
        self.total, self.count = 0.0, 0
        return mean

    def dropped(self, mean: float) -> float | None:
        """By what share the minute lies below the own baseline, None where that is no drop."""
        if len(self.past) < LEARN:
            return None
        usual = median(self.past)
        sigma = max(MAD_TO_SIGMA * mad(self.past), 0.01 * usual)
        if usual <= 0 or mean > usual * (1.0 - DUTY_DROP) or usual - mean < SIGMAS * sigma:
            return None
        return 1.0 - mean / usual


class DutyCycle(Detector):
    """Duty cycle below the run's own baseline, and accelerators that do nothing.

    Signal: ``system/device/utilization`` (and duty-cycle metrics), a mean a minute and device; minutes with an announced pause,
    of warm-up or of a confirmed hang do not count. Method: 15 % and 5 sigma below the median of one's own past minutes (at most
    30, those in alarm left out), three minutes in a row; all devices together where half of them or their mean dropped,
    single ones otherwise. Below 5 % on every device for ten minutes outside of a known phase is ``idle_accelerators``; one idle
    device beside busy ones is a matter of hang and straggler (thresholds 1, 5).
    Known false positives: another, legitimately lighter stage of the same program.
    """

    type = "duty_cycle"
    meanings = frozenset({Meaning.DUTY})
    IDLE = "idle_accelerators"

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._devices: dict[_Place, _Device] = {}
        self._all = _Device()
        self._slot = -1
        self._paused = False
        self._open = 0
        self._episodes: dict[_Place | None, Episode] = {}
        """None: all devices together."""
        self._idle: Episode | None = None
        self._idle_bins = 0

    def phase_began(self, phase: PhaseBegan, state: RankState) -> None:
        """A pause: devices may rest."""
        self._paused = True
        self._open += 1

    def phase_ended(self, phase: PhaseEnded, state: RankState, seconds: float | None) -> None:
        """Its end is in this minute too."""
        self._paused = True
        self._open = max(0, self._open - 1)

    def sample(self, sample: Sample, meaning: Meaning) -> None:
        """A device's duty."""
        slot = int(sample.time // int(BIN_S * US))
        if slot != self._slot:
            if self._slot >= 0:
                self._close(slot, sample.time)
            self._slot = slot
        place = (sample.node, sample.device if sample.device is not None else sample.rank)
        device = self._devices.get(place)
        if device is None:
            device = self._devices[place] = _Device()
        value = sample.value
        device.total += value * 100.0 if value <= 1.0 and not sample.metric.startswith("system/") else value
        device.count += 1

    def attempt_ended(self, end: AttemptEnded) -> None:
        """It is over."""
        close([*self._episodes.values(), self._idle], end.time, "the attempt ended")

    def _close(self, slot: int, now: int) -> None:
        """A minute is over."""
        means = {place: mean for place, one in self._devices.items() if (mean := one.close()) is not None}
        paused, self._paused = self._paused, self._open > 0
        began = int((self._slot * BIN_S) * US)
        # A minute that the attempt did not fill says nothing about it.
        if not means or began < self.attempt.started_at:
            return
        self._judge_idle(means, now, began, paused)
        if paused or self.attempt.hung or self.attempt.lead is None:
            return
        dropped = {}
        for place, mean in means.items():
            device = self._devices[place]
            share = self._track(device, mean)
            if share is not None:
                dropped[place] = share
        mean = sum(means.values()) / len(means)
        share = self._track(self._all, mean)
        whole = share is not None or len(dropped) * 2 >= max(2, len(means))
        if whole and share is None:
            share = median(list(dropped.values()))
            self._all.flags, self._all.low = self._all.flags + 1, 0
        self._tell(None, self._all, share if whole else None, now, began)
        for place, device in self._devices.items():
            alone = None if whole else dropped.get(place)
            if alone is not None or place in self._episodes:
                self._tell(place, device, alone, now, began)

    @staticmethod
    def _track(device: _Device, mean: float) -> float | None:
        share = device.dropped(mean)
        device.mean = mean
        if share is None:
            device.low += 1
            device.flags = 0 if device.low >= CLEAR or device.flags < SURE else device.flags
            device.past.append(mean)
            del device.past[:-KEPT]
        else:
            device.flags, device.low = device.flags + 1, 0
        return share

    def _tell(self, place: _Place | None, device: _Device, share: float | None, now: int, began: int) -> None:
        episode = self._episodes.get(place)
        if share is None:
            if episode is not None and not episode.over and (not episode.confirmed or device.flags == 0):
                episode.end(now)
            return
        if episode is None or episode.over:
            rank = self.attempt.rank_of(*place) if place is not None else None
            lead = self.attempt.lead
            self._episodes[place] = episode = Episode(
                self,
                began,
                "" if place is None else f"{place[0]} {place[1]}",
                step=lead.step if lead is not None else None,
                nodes=(place[0],) if place is not None and place[0] else (),
                devices=(place[1],) if place is not None and place[1] is not None else (),
                ranks=(rank,) if rank is not None else (),
            )
        who = "The accelerators work" if place is None else f"Device {place[1]} of {place[0]} works"
        words = {
            "data": {"drop": share, "duty": device.mean, "baseline": median(device.past), "threshold": DUTY_DROP},
            "title": f"{who} {share:.0%} less than before",
        }
        if device.flags >= SURE and not episode.confirmed:
            episode.confirm(now, **words)
        elif not episode.confirmed:
            episode.suspect(now, **words)

    def _judge_idle(self, means: dict[_Place, float], now: int, began: int, paused: bool) -> None:
        if max(means.values()) >= IDLE_DUTY * 100 or paused:
            self._idle_bins = 0
            if self._idle is not None and not self._idle.over:
                self._idle.end(now)
            return
        self._idle_bins += 1
        if self._idle_bins == IDLE_BINS // 2 and (self._idle is None or self._idle.over):
            self._idle = Episode(self, began - int((IDLE_BINS // 2 - 1) * BIN_S * US), type=self.IDLE)
            self._idle.suspect(now, title=f"{len(means)} accelerators do nothing", data={"threshold": IDLE_DUTY})
        elif self._idle_bins >= IDLE_BINS and self._idle is not None and not self._idle.confirmed:
            self._idle.confirm(now, title=f"{len(means)} accelerators do nothing")
