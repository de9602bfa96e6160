"""Accelerators wait for data."""

from stepward.detect.metrics import Meaning
from stepward.detect.progress import US, WARM_UP_STEPS, RankState
from stepward.detect.scene import Detector, Episode, Scene, close
from stepward.detect.series import median
from stepward.detect.signals import AttemptEnded, PhaseBegan, PhaseEnded, Sample, Step
from stepward.detect.speed import DATA_WAIT_SHARE
from stepward.detect.usage import DUTY_BACK, DUTY_LOW, HOST_BUSY
from stepward.model.words import Phase

STRETCH = 10
"""Steps of one look; two looks in a row are the 20 steps of the table."""
CLEAR = 10
"""Looks without it that end it: stalls may be periodic."""
BIN_S = 60.0
SUSPECT_BINS, SURE_BINS, BACK_BINS = 2, 5, 2
"""Minutes of low duty that are suspected and that confirm, and minutes that end it (thresholds 5)."""
_DATA = Phase.DATA_WAIT.value


class _Rank:
    __slots__ = ("first", "low", "over", "share", "stretch", "total", "waited")

    def __init__(self) -> None:
        self.stretch = -1
        self.total = self.waited = self.share = 0.0
        self.over = self.low = 0
        self.first: tuple[int, int] | None = None
        """Step and begin (µs) of the first step of this stretch that waited as long itself."""


class _Minute:
    """What devices and hosts were read to do in a minute."""

    __slots__ = ("cpu", "cpus", "duties", "duty", "paused")

    def __init__(self) -> None:
        self.duty = self.cpu = 0.0
        self.duties = self.cpus = 0
        self.paused = False


class InputBound(Detector):
    """Steps wait for data more than 20 % of their time, or accelerators idle half of it while their hosts are busy.

    Signal: phase ``data_wait`` (any clock: it is the host that waits). Method: share over ten steps in a row, twice in a row
    (thresholds 1: 20 steps), a rank at a time; one event, which names ranks only where at most half of them wait. Where no step
    tells its waits: mean duty of all devices below 50 % while the mean host's processors are beyond 80 %, five minutes in a row;
    over when the duty is above 70 % for two (thresholds 1, 5). Minutes with an announced pause or a hang do not count.
    Known false positives: a first pass over data that later comes from a cache; steps of a few milliseconds; hosts that
    are busy with something else (then it is contention, and still what holds the accelerators up).
    """

    type = "input_bound"
    meanings = frozenset({Meaning.DUTY, Meaning.HOST_CPU})

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._ranks: dict[int, _Rank] = {}
        self._episode: Episode | None = None
        self._slot, self._minute = -1, _Minute()
        self._open = self._low = self._back = 0
        self._starved: Episode | None = None

    def step(self, step: Step, state: RankState, seconds: float) -> None:
        """One step of one rank."""
        waited = step.phases.get(_DATA)
        if waited is None or state.steps <= WARM_UP_STEPS:
            return
        rank = self._ranks.get(state.rank)
        if rank is None:
            rank = self._ranks[state.rank] = _Rank()
        stretch = step.step // STRETCH
        if stretch != rank.stretch:
            if rank.total > 0:
                self._close(rank, state.rank, step)
            rank.stretch, rank.total, rank.waited, rank.first = stretch, 0.0, 0.0, None
        rank.total += seconds
        rank.waited += waited
        if rank.first is None and waited > DATA_WAIT_SHARE * seconds:
            rank.first = (step.step, step.time - int(seconds * 1e6))

    def attempt_ended(self, end: AttemptEnded) -> None:
        """It is over."""
        close([self._episode, self._starved], end.time, "the attempt ended")

    def phase_began(self, phase: PhaseBegan, state: RankState) -> None:
        """A pause: devices may rest."""
        self._minute.paused = True
        self._open += 1

    def phase_ended(self, phase: PhaseEnded, state: RankState, seconds: float | None) -> None:
        """Its end is in this minute too."""
        self._minute.paused = True
        self._open = max(0, self._open - 1)

    def sample(self, sample: Sample, meaning: Meaning) -> None:
        """Use of a device, or of a host's processors."""
        slot = int(sample.time // int(BIN_S * US))
        if slot != self._slot:
            if self._slot >= 0:
                self._look(self._minute, sample.time)
            self._slot, self._minute = slot, _Minute()
            self._minute.paused = self._open > 0
        minute = self._minute
        if meaning is Meaning.HOST_CPU:
            minute.cpu, minute.cpus = minute.cpu + sample.value, minute.cpus + 1
        else:
            own = sample.value <= 1.0 and not sample.metric.startswith("system/")
            minute.duty, minute.duties = minute.duty + sample.value * (100.0 if own else 1.0), minute.duties + 1

    def _look(self, minute: _Minute, now: int) -> None:
        """A minute is over."""
        attempt = self.attempt
        if not minute.duties or not minute.cpus or minute.paused or attempt.hung or attempt.lead is None:
            return
        duty, cpu = minute.duty / minute.duties / 100.0, minute.cpu / minute.cpus / 100.0
        starved = duty < DUTY_LOW and cpu >= HOST_BUSY and not self._ranks and attempt.lead.steps > WARM_UP_STEPS
        self._low = self._low + 1 if starved else 0
        self._back = self._back + 1 if duty > DUTY_BACK or self._ranks else 0
        episode = self._starved
        if episode is not None and not episode.over:
            if self._back >= BACK_BINS or (not starved and not episode.confirmed):
                episode.end(now)
            elif self._low >= SURE_BINS and not episode.confirmed:
                episode.confirm(now, **_starving(duty, cpu))
        elif self._low >= SUSPECT_BINS:
            began = int((self._slot - self._low + 1) * BIN_S * US)
            self._starved = Episode(self, began, "duty", step=attempt.lead.step)
            self._starved.suspect(now, **_starving(duty, cpu))

    def _close(self, rank: _Rank, number: int, step: Step) -> None:
        rank.share = min(1.0, rank.waited / rank.total)
        if rank.share > DATA_WAIT_SHARE:
            rank.over, rank.low = rank.over + 1, 0
        else:
            rank.low += 1
            rank.over = 0 if rank.over < 2 or rank.low >= CLEAR else rank.over
        episode = self._episode
        lasting = episode is not None and not episode.over
        if rank.over == 1 and rank.low == 0 and not lasting and rank.first is not None:
            first, began = rank.first
            self._episode = episode = Episode(self, began, step=first)
            episode.suspect(step.time, **self._words([number]))
        elif rank.over >= 2 and rank.low == 0 and episode is not None and not episode.confirmed:
            waiting = sorted(who for who, one in self._ranks.items() if one.over)
            episode.confirm(step.time, **self._words(waiting))
        elif lasting and episode is not None and not any(one.over for one in self._ranks.values()):
            episode.end(step.time)

    def _words(self, waiting: list[int]) -> dict[str, object]:
        share = median([self._ranks[rank].share for rank in waiting])
        some = len(self._ranks) > 1 and len(waiting) * 2 <= len(self._ranks)
        ranks = tuple(waiting) if some else ()
        nodes = tuple(sorted({node for rank in ranks if (node := self.attempt.node_of(rank))}))
        data = {"share": share, "threshold": DATA_WAIT_SHARE, "waiting_ranks": len(waiting)}
        return {"ranks": ranks, "nodes": nodes, "data": data, "title": f"Steps wait for data {share:.0%} of their time"}


def _starving(duty: float, cpu: float) -> dict[str, object]:
    title = f"Accelerators work {duty:.0%} of their time while their hosts' processors are busy"
    return {"data": {"duty": duty, "cpu": cpu, "threshold": DUTY_LOW, "basis": "duty"}, "title": title}
