"""No progress, though there should be."""

from stepward.detect.culprit import Culprit, Watchdogs, find_culprit
from stepward.detect.metrics import Meaning
from stepward.detect.progress import US, WARM_UP_STEPS, RankState
from stepward.detect.scene import Detector, Episode, Scene, close
from stepward.detect.signals import AttemptEnded, Heartbeat, Hit, RankEnded, Sample, Step
from stepward.model.words import HEARTBEAT_S, MISSED_HEARTBEATS, Phase

LEAST_S = 30.0
TURNS = 3.0
PAUSES = 1.5
LONG_S = 600.0
"""No progress for max(30 s, 3 q99(step) + 1.5 longest known pause) is a hang; while warming up, restoring or compiling for ten
minutes."""
SURE_S = 15.0
CONFIRM_S = 55.0
"""Further silence that confirms: 15 s where evidence names what stands still, else within the minute of the table."""
LOOK_S = 5.0
TOGETHER_S = 15.0
"""Ranks that stopped within this of the first stopped together: a synchronous step, seen through different reports."""
LOST_S = HEARTBEAT_S * MISSED_HEARTBEATS
_SLOW_PHASES = frozenset({Phase.INIT, Phase.RESTORE, Phase.COMPILE, Phase.PROVISION})
_SAVING = frozenset({Phase.CHECKPOINT_SAVE, Phase.EVALUATION})


class Hang(Detector):
    """No rank, or not every rank, moves forward.

    Signal: the end of steps, points logged for new steps, heartbeats' ``progress_at``, begin and end of long phases.
    Method: silence since the last progress of the rank that is furthest back, against a limit that the attempt's own pace
    and pauses set (thresholds 1, 5); by phase: ten minutes for init, restore, compile, the first five steps, and the
    first checkpoint or evaluation. Pauses that were always announced by their phases count only while one is open.
    Confirmed by continued silence while somebody still hears of the run; if nobody does, it stays suspected, for a
    network or a server may be at fault.
    Known false positives: a first pause beyond 85 s that nothing announces (an upload inside of a step).
    """

    type = "hang"
    meanings = frozenset({Meaning.DUTY})

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._episode: Episode | None = None
        self._stuck: dict[int, int] = {}
        """Ranks that stand, and when each last moved."""
        self._since = 0
        self._heard_at = -(1 << 62)
        self._beats = False
        self._duty: dict[tuple[str, int | None], float] = {}
        self._watchdogs = Watchdogs()
        self._set = False

    def step(self, step: Step, state: RankState, seconds: float) -> None:
        """Progress: where a hang is open it may be over."""
        if not self._set:
            self._arm(step.time)
        if self._stuck:
            self._moved(state.rank, step.time)

    def pace(self, step: Step, state: RankState, seconds: float) -> None:
        """Progress of a rank whose steps are not timed."""
        self.step(step, state, seconds)

    def beat(self, beat: Heartbeat, state: RankState) -> None:
        """Somebody lives, and may have moved."""
        self._heard_at, self._beats = beat.time, True
        if not self._set:
            self._arm(beat.time)
        if state.moved_at > self._stuck.get(state.rank, state.moved_at):
            self._moved(state.rank, beat.time)

    def sample(self, sample: Sample, meaning: Meaning) -> None:
        """Use of devices: a rank that idles while others spin is the one they wait for."""
        self._heard_at = max(self._heard_at, sample.time)
        self._duty[sample.node, sample.device] = sample.value

    def hit(self, hit: Hit) -> None:
        """Watchdogs of the ranks that wait name, by their silence, the one that they wait for; or a line names it."""
        known = self._watchdogs.known
        self._watchdogs.hit(hit)
        episode = self._episode
        if episode is None or episode.over or not episode.confirmed or self._watchdogs.known == known:
            return
        said = episode.event.data
        standing = self._standing()
        culprit = self._culprit(standing, [state for state in standing if state.rank in self._stuck])
        # What is sure stays, unless more of the same kind is known: at first several ranks have not reported.
        more = culprit.sure and (not said.get("sure") or said.get("why") == culprit.why)
        if more and culprit.ranks != episode.event.ranks:
            words = self._words(hit.time, culprit, standing)
            episode.confirm(hit.time, **words, title=_title(culprit, episode.event.step))

    def rank_ended(self, end: RankEnded, state: RankState) -> None:
        """A rank that ended hangs no more."""
        if end.rank in self._stuck:
            self._moved(end.rank, end.time)

    def attempt_ended(self, end: AttemptEnded) -> None:
        """Nothing hangs any more."""
        close([self._episode], end.time, f"the attempt ended: {end.state}")
        self._stuck.clear()

    def reopened(self, at: int) -> None:
        """It goes on."""
        self._arm(at)

    def _arm(self, time: int) -> None:
        self._set = True
        self.scene.alarms.at(time + int(LEAST_S * US), self._look)

    def _standing(self) -> list[RankState]:
        """Ranks that should move: those that have stepped, all others only while nobody has."""
        living = self.attempt.living()
        stepped = [state for state in living if state.steps]
        return stepped or living

    def limit_s(self) -> float:
        """Seconds without progress that are a hang here and now."""
        attempt = self.attempt
        lead = attempt.lead
        phases = attempt.open_phases()
        if lead is None or lead.steps <= WARM_UP_STEPS or not attempt.turns or not _SLOW_PHASES.isdisjoint(phases):
            return LONG_S
        if any(state.ended_at is not None and not state.failed for state in attempt.ranks.values()):
            # The run comes to its end, which has work of its own.
            return LONG_S
        _, slow = attempt.usual_turn()
        quiet = attempt.pauses.get("", 0.0)
        pause = quiet if quiet > TURNS * slow else 0.0
        for name in _SAVING.intersection(phases):
            known = attempt.pauses.get(name)
            if known is None:
                return LONG_S
            pause = max(pause, known)
        return max(LEAST_S, TURNS * slow + PAUSES * pause)

    def _look(self, now: int) -> None:
        """The deadline: is anybody too long without progress?"""
        if self.attempt.ended_at is not None:
            return
        standing = self._standing()
        if not standing:
            self._set = False
            return
        if self._episode is not None and not self._episode.over:
            return
        oldest = min(state.moved_at for state in standing)
        due = oldest + int(self.limit_s() * US)
        # All ranks stopped at once is a scheduler that suspends the job.
        suspended = len(standing) > 1 and all(state.stopped for state in standing)
        if suspended or due > now:
            # The limit may shrink meanwhile (a pause ends), so that a far deadline is looked at before.
            soon = now + int(LOOK_S * US)
            self.scene.alarms.at(soon if suspended else max(now + US, min(due, soon)), self._look)
            return
        self._suspect(now, oldest, standing)

    def _suspect(self, now: int, oldest: int, standing: list[RankState]) -> None:
        behind = [state for state in standing if state.moved_at - oldest <= TOGETHER_S * US]
        self._stuck = {state.rank: state.moved_at for state in behind}
        self._since = oldest
        self._watchdogs.forget(oldest - int(LEAST_S * US))
        culprit = self._culprit(standing, behind)
        first = min(behind, key=lambda state: (state.moved_at, state.rank))
        step = first.step
        self._episode = Episode(self, oldest, step=step, severity="critical")
        self._episode.suspect(now, **self._words(now, culprit, behind), title=_title(culprit, step))
        sure = SURE_S if culprit.sure else CONFIRM_S
        self.scene.alarms.at(now + int(sure * US), self._again)

    def _again(self, now: int) -> None:
        """Later: is it still silent?"""
        episode = self._episode
        if episode is None or episode.over or self.attempt.ended_at is not None or not self._stuck:
            return
        standing = self._standing()
        behind = [state for state in standing if state.rank in self._stuck]
        heard = now - self._heard_at <= LOST_S * US
        if self._beats and not heard:
            # Nobody is heard of: whether it hangs, nobody knows.
            episode.suspect(now, data={"unknown": "nothing is heard of the run"})
            self.scene.alarms.at(now + int(LEAST_S * US), self._again)
            return
        culprit = self._culprit(standing, behind)
        self.attempt.hung = True
        evidence = "heartbeats continue" if self._beats else "silence alone"
        words = self._words(now, culprit, behind, evidence)
        episode.confirm(now, **words, title=_title(culprit, episode.event.step))

    def _culprit(self, standing: list[RankState], behind: list[RankState]) -> Culprit:
        return find_culprit(self.attempt, standing, behind, self._duty, self._watchdogs)

    def _words(
        self, now: int, culprit: Culprit, behind: list[RankState], evidence: str | None = None
    ) -> dict[str, object]:
        _, slow = self.attempt.usual_turn()
        data: dict[str, object] = {
            "limit_s": self.limit_s(),
            "silent_s": (now - self._since) / US,
            "q99_step_s": slow if self.attempt.turns else None,
            "phases": sorted(self.attempt.open_phases()),
            "stuck_ranks": len(behind),
            "why": culprit.why,
            "sure": culprit.sure,
        }
        if evidence is not None:
            data["evidence"] = evidence
        if not culprit.ranks:
            data["unknown"] = "no rank stands out"
        return {"data": data, "ranks": culprit.ranks, "nodes": culprit.nodes}

    def _moved(self, rank: int, time: int) -> None:
        self._stuck.pop(rank, None)
        if self._stuck or self._episode is None or self._episode.over:
            return
        self._episode.end(time)
        self._watchdogs.forget(time)
        self.attempt.hung = False
        self._arm(time)


def _title(culprit: Culprit, step: int | None) -> str:
    after = f" after step {step}" if step is not None else ""
    if not culprit.ranks:
        return f"No progress{after}"
    who = ", ".join(map(str, culprit.ranks[:4]))
    return f"No progress{after}: rank {who} {culprit.why}"
