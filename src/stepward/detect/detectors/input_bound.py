"""Accelerators wait for data."""

from stepward.detect.progress import WARM_UP_STEPS, RankState
from stepward.detect.scene import Detector, Episode, Scene, close
from stepward.detect.series import median
from stepward.detect.signals import AttemptEnded, Step
from stepward.detect.speed import DATA_WAIT_SHARE
from stepward.model.words import Phase

STRETCH = 10
"""Steps of one look; two looks in a row are the 20 steps of the table."""
CLEAR = 10
"""Looks without it that end it: stalls may be periodic."""
_DATA = Phase.DATA_WAIT.value


class _Rank:
    __slots__ = ("first", "low", "over", "share", "stretch", "total", "waited")

    def __init__(self) -> None:
        self.stretch = -1
        self.total = self.waited = self.share = 0.0
        self.over = self.low = 0
        self.first: tuple[int, int] | None = None
        """Step and begin (µs) of the first step of this stretch that waited as long itself."""


class InputBound(Detector):
    """Steps wait for data more than 20 % of their time.

    Signal: phase ``data_wait`` (any clock: it is the host that waits). Method: share over ten steps in a row, twice in a row
    (facts 4.1: 20 steps), a rank at a time; one event, which names ranks only where at most half of them wait.
    Known false positives: a first pass over data that later comes from a cache; steps of a few milliseconds.
    """

    type = "input_bound"

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._ranks: dict[int, _Rank] = {}
        self._episode: Episode | None = None

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
        close([self._episode], end.time, "the attempt ended")

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
