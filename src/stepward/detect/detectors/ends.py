"""How an attempt ended badly: crash, out of memory, taken away."""

from collections.abc import Mapping

from stepward.detect.culprit import silent
from stepward.detect.metrics import Meaning
from stepward.detect.progress import US, RankState
from stepward.detect.scene import Detector, Episode, Scene
from stepward.detect.signals import AttemptEnded, Hit, RankEnded, Sample
from stepward.model.states import State

TOLD_S = 10.0
"""A rank's bad end that nothing else explains within this time is a crash."""
DOUBT_S = 60.0
"""A suspicion of memory that nobody takes up within this time (six samples of an agent) was none."""
TOGETHER_S = 2.0
"""SIGTERM on two ranks or more within 2 s: somebody takes the job away."""
_ASKED = frozenset({"SIGTERM", "SIGINT", "SIGKILL"})
_ASKED_CODES = frozenset({130, 137, 143})
_ASKED_GENTLY = frozenset({"SIGTERM", "SIGINT"})
_GENTLE_CODES = frozenset({130, 143})
_CRASHED = frozenset({State.FAILED, State.CRASHED, State.LOST})
_MEMORY = frozenset({"gpu_oom", "host_oom"})
_OTHERS = _MEMORY | {"preemption", "user_cancelled"}
"""Labels whose events tell the end: a crash beside them would say it twice."""
EXPLAINS_S = 120.0


def _was_asked(end: RankEnded) -> bool:
    """Whether somebody may have ended it on purpose: such an end alone tells nothing."""
    return end.signal in _ASKED or (end.signal is None and end.exit_code in _ASKED_CODES)


def _was_asked_gently(end: RankEnded) -> bool:
    """Whether it ended as ranks do that their launcher stops once another one has died."""
    return end.signal in _ASKED_GENTLY or (end.signal is None and end.exit_code in _GENTLE_CODES)


def _how(end: RankEnded) -> str:
    return end.signal or f"exit {end.exit_code}"


class Crash(Detector):
    """A rank ended badly and the attempt with it.

    Signal: ends of ranks and of the attempt, lines with their roles. Method: the first bad end by time (thresholds 1),
    unless that rank's lines are only echoes of somebody else's failure and another rank's are not (4.2 rule 5), or other
    ranks had not been heard of since well before. A rank that its launcher stopped (SIGTERM) may be heard of before the one
    that died: an end of another kind within 2 s takes its place. An end
    that a person or a scheduler may have asked for (SIGTERM, SIGINT, SIGKILL and their codes) is suspected until the
    attempt's state is known. No event of its own where the state or a line says out of memory, preempted, cancelled, time limit.
    Known false positives: a program that exits with a code that is not 0 on purpose.
    """

    type = "crash"

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._episode: Episode | None = None
        self._first: RankEnded | None = None
        self._roots: dict[int | None, Hit] = {}
        self._echoes: set[int] = set()
        self._explained_at = -(1 << 62)
        self._lost: tuple[int, ...] = ()
        """Ranks that were no longer heard of when the first one ended."""

    def hit(self, hit: Hit) -> None:
        """Whose lines name a cause and whose only echo one."""
        if hit.role == "root" and hit.label in _OTHERS:
            self._explained_at = hit.time
        if hit.role in ("root", "either") and hit.label is not None and len(self._roots) < 2048:
            self._roots.setdefault(hit.rank, hit)
        elif hit.role == "cascade" and hit.rank is not None:
            self._echoes.add(hit.rank)

    def rank_ended(self, end: RankEnded, state: RankState) -> None:
        """The first bad end opens the event."""
        if self._first is not None:
            self._instead(end, state)
            return
        if not state.failed or (self._episode is None and self.attempt.ended_at is not None):
            return
        self._first = end
        if self._episode is not None:
            # The attempt's end was heard of before its ranks'.
            self._episode.confirm(end.time, **self._words(self._episode.event.data))
            return
        self._lost = tuple(silent(list(self.attempt.ranks.values())))
        self._episode = Episode(self, end.time, step=state.step, severity="critical")
        if _was_asked(end) or self._explained(end.time):
            self._episode.suspect(end.time, **self._words())
            self.scene.alarms.at(end.time + int(TOLD_S * US), self._late)
        else:
            self._episode.confirm(end.time, **self._words())

    def _instead(self, end: RankEnded, state: RankState) -> None:
        """The one that died, where the first that was heard of was only stopped for it."""
        first, episode = self._first, self._episode
        if first is None or episode is None or not state.failed:
            return
        soon = end.time - first.time <= TOGETHER_S * US
        if soon and _was_asked_gently(first) and not _was_asked_gently(end):
            self._first = end
            words = self._words(episode.event.data)
            (episode.confirm if episode.confirmed or not _was_asked(end) else episode.suspect)(end.time, **words)

    def attempt_ended(self, end: AttemptEnded) -> None:
        """The state decides."""
        bad = end.state in _CRASHED and not self._explained(end.time)
        episode = self._episode
        if episode is None and bad:
            episode = self._episode = Episode(self, end.time, step=self._step(), severity="critical")
        if episode is None or episode.over:
            return
        data = {"state": end.state, "reason": end.reason}
        if bad:
            episode.confirm(end.time, ended_at=end.time, **self._words(data))
        elif not episode.over:
            episode.end(end.time, data=data)

    def reopened(self, at: int) -> None:
        """It did not crash."""
        if self._episode is not None:
            self._episode.withdraw(at)
        self._episode = self._first = None

    def _explained(self, now: int) -> bool:
        return now - self._explained_at <= EXPLAINS_S * US

    def _late(self, now: int) -> None:
        """Nobody explained the end."""
        episode = self._episode
        if episode is not None and not episode.confirmed and not episode.over and not self._explained(now):
            episode.confirm(now, **self._words())

    def _step(self) -> int | None:
        return self.attempt.lead.step if self.attempt.lead is not None else None

    def _words(self, data: Mapping[str, object] | None = None) -> dict[str, object]:
        rank = self._first.rank if self._first is not None else None
        root = self._roots.get(rank)
        if root is None and self._roots and (rank is None or rank in self._echoes):
            root = min(self._roots.values(), key=lambda hit: (hit.time, hit.rank if hit.rank is not None else -1))
            rank = root.rank if root.rank is not None else rank
        if self._lost and 2 * len(self._lost) <= len(self.attempt.ranks) and rank not in self._lost:
            gone = tuple(sorted({name for one in self._lost if (name := self.attempt.node_of(one))}))
            lost = sorted(self._lost)
            named = ", ".join(map(str, lost[:4])) + (f" and {len(lost) - 4} more" if len(lost) > 4 else "")
            who = f"Rank {named} was lost" if len(lost) == 1 else f"Ranks {named} were lost"
            return {"data": dict(data or {}), "ranks": tuple(lost), "nodes": gone, "title": who}
        node = self.attempt.node_of(rank) or (root.node if root is not None else "")
        if not node and self._first is not None and self._first.rank == rank:
            node = self._first.node
        found: dict[str, object] = dict(data or {})
        if self._first is not None:
            found |= {"exit_code": self._first.exit_code, "signal": self._first.signal}
        if root is not None:
            found |= {"label": root.label, "line": root.text[:400], "source": root.source, "number": root.line}
        ended = f"ended: {_how(self._first)}" if self._first is not None else "ended badly"
        who = f"Rank {rank} {ended}" if rank is not None else f"The attempt {ended}"
        return {"data": found, "ranks": () if rank is None else (rank,), "nodes": (node,) if node else (), "title": who}


class OutOfMemory(Detector):
    """Memory of a device or of the host ran out.

    Signal: lines labelled ``gpu_oom`` or ``host_oom``, the counters of memory kills, the state ``oom``. Method: a root line, a
    counter that rose, or the state confirm (thresholds 1, 2.5: a bare SIGKILL is not memory until somebody says so);
    a line that may be a cause or not is suspected until then, and so is a kill somewhere on the node; a minute without
    another word, and it was about somebody else. One event an attempt.
    Known false positives: a kill of another process in the same cgroup.
    """

    type = "oom"
    meanings = frozenset({Meaning.OOM_KILLS})

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._episode: Episode | None = None
        self._kills: dict[tuple[str, str], float] = {}
        self._killed: RankEnded | None = None
        self._ranks: set[int] = set()
        self._nodes: set[str] = set()

    def hit(self, hit: Hit) -> None:
        """A line about memory."""
        if hit.label not in _MEMORY or hit.role not in ("root", "either"):
            return
        if hit.rank is not None and len(self._ranks) < 16:
            self._ranks.add(hit.rank)
        node = hit.node or self.attempt.node_of(hit.rank)
        if node:
            self._nodes.add(node)
        data = {"label": hit.label, "line": hit.text[:400], "source": hit.source, "number": hit.line}
        self._tell(hit.time, hit.role == "root", hit.text[:200], data)

    def sample(self, sample: Sample, meaning: Meaning) -> None:
        """A counter of memory kills; it counts since the first look, so that above nothing is news."""
        key = (sample.metric, sample.node)
        before = self._kills.get(key, 0.0)
        self._kills[key] = sample.value
        # A node has victims of its own: only the job's cgroup speaks for the job.
        if sample.value > before:
            if sample.node:
                self._nodes.add(sample.node)
            sure = sample.metric.startswith("system/cgroup/")
            self._tell(sample.time, sure, "The kernel killed for memory", {"label": "host_oom", "kills": sample.value})

    def rank_ended(self, end: RankEnded, state: RankState) -> None:
        """A kernel names the process that it kills, not its rank: the rank that was killed is the one."""
        episode = self._episode
        if self._ranks or not (end.signal == "SIGKILL" or end.exit_code == 137):
            return
        if episode is None:
            self._killed = self._killed or end
        if episode is None or episode.over:
            return
        if end.time - episode.event.detected_at <= TOLD_S * US:
            self._ranks.add(end.rank)
            node = self.attempt.node_of(end.rank) or end.node
            where = {"ranks": (end.rank,), "nodes": (node,) if node else episode.event.nodes}
            (episode.confirm if episode.confirmed else episode.suspect)(end.time, **where)

    def attempt_ended(self, end: AttemptEnded) -> None:
        """The state is the last word."""
        if end.state == State.OOM:
            self._tell(end.time, True, end.reason or "Out of memory", {"reason": end.reason})
        if self._episode is not None and not self._episode.over:
            self._episode.end(end.time)

    def _tell(self, time: int, sure: bool, title: str, data: Mapping[str, object]) -> None:
        first = self._episode is None
        if self._killed is not None and not self._ranks and time - self._killed.time <= TOLD_S * US:
            self._ranks.add(self._killed.rank)
        if self._episode is None:
            lead = self.attempt.lead
            self._episode = Episode(self, time, step=lead.step if lead else None, severity="critical", title=title)
        elif self._episode.confirmed:
            return
        where = {"ranks": tuple(sorted(self._ranks)), "nodes": tuple(sorted(self._nodes))}
        if sure:
            self._episode.confirm(time, data=data, **where)
        elif first:
            self._episode.suspect(time, data=data, **where)
            self.scene.alarms.at(time + int(DOUBT_S * US), self._doubt)

    def _doubt(self, now: int) -> None:
        """Nobody has said more: what comes later is another story."""
        episode = self._episode
        if episode is None or episode.confirmed or episode.over:
            return
        if now - episode.event.detected_at >= int(DOUBT_S * US):
            episode.withdraw(now)
            self._episode = None
            self._ranks.clear()
            self._nodes.clear()


class Preemption(Detector):
    """The resources were taken away.

    Signal: lines labelled ``preemption``, the state ``preempted``, SIGTERM on two ranks or more within 2 s (thresholds 1).
    Method: a root line or the state confirm at once; anything else is suspected until the attempt's state is known.
    Known false positives: a notice that was taken back.
    """

    type = "preemption"

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._episode: Episode | None = None
        self._terms: list[int] = []

    def hit(self, hit: Hit) -> None:
        """The scheduler or the cloud says so."""
        if hit.label == "preemption" and hit.role in ("root", "either"):
            self._tell(hit.time, hit.role == "root", hit.text[:200], {"line": hit.text[:400]}, hit.node)

    def rank_ended(self, end: RankEnded, state: RankState) -> None:
        """Ranks that are asked to end together."""
        if self.attempt.ended_at is None and (end.signal == "SIGTERM" or end.exit_code == 143):
            self._terms = [at for at in self._terms[-8:] if end.time - at <= TOGETHER_S * US]
            self._terms.append(end.time)
            if len(self._terms) == 2:
                self._tell(end.time, False, "SIGTERM to several ranks", {}, "")

    def attempt_ended(self, end: AttemptEnded) -> None:
        """The state is the last word."""
        if end.state == State.PREEMPTED:
            self._tell(end.time, True, end.reason or "The job was preempted", {"reason": end.reason}, "")
        if self._episode is not None and not self._episode.over:
            self._episode.end(end.time, data={"state": end.state})

    def _tell(self, time: int, sure: bool, title: str, data: Mapping[str, object], node: str) -> None:
        new = self._episode is None
        if self._episode is None:
            lead = self.attempt.lead
            self._episode = Episode(
                self, time, step=lead.step if lead else None, title=title, nodes=(node,) if node else ()
            )
        elif self._episode.confirmed:
            return
        if sure:
            self._episode.confirm(time, data=data)
        elif new:
            self._episode.suspect(time, data=data)
