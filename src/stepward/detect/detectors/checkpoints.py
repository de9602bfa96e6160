"""Checkpoints that hold the run up."""

from collections import deque

from stepward.detect.progress import US, RankState
from stepward.detect.scene import Detector, Episode, Scene, close
from stepward.detect.series import median
from stepward.detect.signals import AttemptEnded, Checkpoint, Hit, PhaseBegan, PhaseEnded, Step
from stepward.model.words import Phase

SLOWER = 3.0
"""A save that takes three times the median of the earlier ones (thresholds 1)."""
SURE_S = 30.0
"""From this length on one such save is enough; shorter ones confirm by the second in a row."""
LEAST_S = 2.0
LEARN = 1
KEPT = 20
FIRST_S = 600.0
"""In-flight age that is a stall where nothing is known yet: what the hang detector gives to long phases."""
_SAVE = Phase.CHECKPOINT_SAVE.value


class CheckpointStall(Detector):
    """Saving takes far longer than it did, or does not end.

    Signal: seconds that a checkpoint blocks the loop (phase, ``blocking_s``), the age of an open save, the age of an
    asynchronous one that is not durable. Method: blocking over three times the median of the earlier saves: suspected when it is
    reached, confirmed from 30 s on or by the second slow save in a row; an asynchronous save in flight for more than the
    interval of checkpoints, as the table has it (thresholds 1). Root lines confirm.
    Known false positives: a last checkpoint that also saves what others do not.
    """

    type = "checkpoint_stall"

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._past: deque[float] = deque(maxlen=KEPT)
        self._episode: Episode | None = None
        self._slow = 0
        self._open: dict[int, int] = {}
        self._flying: dict[int, int] = {}
        self._landed: set[int] = set()
        self._starts: deque[int] = deque(maxlen=8)
        self._asynchronous = False
        self._noted: tuple[int, float] = (-1, 0.0)

    def phase_began(self, phase: PhaseBegan, state: RankState) -> None:
        """A save began: look again when it should long be over."""
        if phase.phase != _SAVE:
            return
        self._open[phase.rank] = phase.time
        self.scene.alarms.at(phase.time + int(self._limit_s() * US), self._aged)

    def phase_ended(self, phase: PhaseEnded, state: RankState, seconds: float | None) -> None:
        """It is over."""
        if phase.phase == _SAVE:
            self._open.pop(phase.rank, None)
            if seconds is not None:
                self._took(phase.time, seconds, state.step, phase.rank)

    def step(self, step: Step, state: RankState, seconds: float) -> None:
        """Saves inside of a step."""
        saving = step.phases.get(_SAVE)
        if saving:
            self._took(step.time, saving, step.step, step.rank)

    def saved(self, checkpoint: Checkpoint) -> None:
        """A checkpoint: what it cost, and whether it is complete."""
        if checkpoint.durable:
            self._flying.pop(checkpoint.step, None)
            self._landed.add(checkpoint.step)
            if len(self._landed) > 64:
                self._landed.discard(min(self._landed))
        elif checkpoint.step not in self._landed and checkpoint.step not in self._flying:
            self._starts.append(checkpoint.time)
            self._flying[checkpoint.step] = checkpoint.time
            if len(self._starts) >= 2:
                interval = (self._starts[-1] - self._starts[0]) // (len(self._starts) - 1)
                self.scene.alarms.at(checkpoint.time + interval, self._unfinished)
        if checkpoint.durable and checkpoint.blocking_s is None:
            self._asynchronous = True
        if checkpoint.blocking_s is not None:
            self._took(checkpoint.time, checkpoint.blocking_s, checkpoint.step, checkpoint.rank)

    def hit(self, hit: Hit) -> None:
        """The framework says so."""
        if hit.label == "checkpoint_stall" and hit.role == "root":
            lead = self.attempt.lead
            self._begin(hit.time, lead.step if lead else None, hit.rank).confirm(
                hit.time, title=hit.text[:200], data={"line": hit.text[:400], "source": hit.source, "number": hit.line}
            )

    def attempt_ended(self, end: AttemptEnded) -> None:
        """Nothing is saved any more."""
        close([self._episode], end.time, "the attempt ended")
        self._open.clear()
        self._flying.clear()

    def _limit_s(self) -> float:
        if len(self._past) < LEARN:
            return FIRST_S
        return max(SLOWER * median(self._past), LEAST_S)

    def _begin(self, at: int, step: int | None, rank: int | None) -> Episode:
        if self._episode is None or self._episode.over:
            node = self.attempt.node_of(rank)
            ranks = (rank,) if rank is not None else ()
            self._episode = Episode(self, at, step=step, ranks=ranks, nodes=(node,) if node else ())
        return self._episode

    def _aged(self, now: int) -> None:
        """A save is still open beyond its limit."""
        if not self._open or self.attempt.ended_at is not None:
            return
        rank, since = min(self._open.items(), key=lambda item: (item[1], item[0]))
        age, limit = (now - since) / US, self._limit_s()
        if age < limit:
            return
        episode = self._begin(since, self.attempt.rank(rank).step, rank)
        words = self._words(age, limit)
        if age >= max(limit, SURE_S):
            if not episode.confirmed:
                episode.confirm(now, **words)
            return
        episode.suspect(now, **words)
        self.scene.alarms.at(since + int(max(limit, SURE_S) * US), self._aged)

    def _unfinished(self, now: int) -> None:
        """An asynchronous save is in flight longer than the interval."""
        if not self._asynchronous or not self._flying or self.attempt.ended_at is not None or len(self._starts) < 2:
            return
        lead = self.attempt.lead
        if lead is None or self.attempt.hung or lead.moved_at < self._starts[-1] + US:
            # The run itself stands: that its save is not reported is no news.
            return
        step, since = min(self._flying.items(), key=lambda item: item[1])
        interval = (self._starts[-1] - self._starts[0]) / US / (len(self._starts) - 1)
        age = (now - since) / US
        if age >= interval * 0.99:
            episode = self._begin(since, step, None)
            if not episode.confirmed:
                episode.confirm(now, **self._words(age, interval))

    def _took(self, at: int, seconds: float, step: int | None, rank: int) -> None:
        """A save that has ended; the same one may be told by its phase and by its checkpoint."""
        if step is not None and self._noted[0] == step and abs(self._noted[1] - seconds) <= 0.2 * seconds + 1.0:
            return
        self._noted = (step if step is not None else -1, seconds)
        limit = self._limit_s()
        episode = self._episode
        if len(self._past) < LEARN or seconds < limit:
            self._slow = 0
            if seconds < FIRST_S:
                self._past.append(seconds)
            if episode is not None and not episode.over and not (self._asynchronous and self._flying):
                episode.end(at)
            return
        self._slow += 1
        if episode is None or episode.over:
            episode = self._begin(at - int(seconds * US), step, rank)
        if not episode.confirmed:
            sure = seconds >= SURE_S or (self._slow >= 2 and len(self._past) > LEARN)
            (episode.confirm if sure else episode.suspect)(at, **self._words(seconds, limit))

    def _words(self, seconds: float, limit: float) -> dict[str, object]:
        usual = median(self._past) if self._past else None
        data = {"seconds": seconds, "usual_s": usual, "limit_s": limit}
        was = f", and took {usual:.3g} s" if usual is not None else ""
        return {"data": data, "title": f"A checkpoint takes {seconds:.3g} s{was}"}
