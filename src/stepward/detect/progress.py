"""Where the ranks of an attempt stand: what every detector needs to know and none should find out by itself."""

from collections import deque
from collections.abc import Mapping

from stepward.detect.series import median, quantile
from stepward.detect.signals import Checkpoint, Heartbeat, PhaseBegan, PhaseEnded, Step
from stepward.model.words import Phase

US = 1_000_000
WARM_UP_STEPS = 5
"""Steps of an attempt that say nothing about its speed (the detectors' table)."""
_PAUSES = frozenset({Phase.CHECKPOINT_SAVE.value, Phase.EVALUATION.value, Phase.COMPILE.value, Phase.RESTORE.value})
"""Phases inside of a step that are no part of its usual time."""
_KEPT = 512
_NEVER = -(1 << 62)


class RankState:
    """One rank of an attempt. Times are µs, ``_NEVER`` where it did not happen."""

    __slots__ = (
        "beat_at", "ended_at", "failed", "logged", "moved_at", "node", "open", "phase", "rank", "step", "step_at", "steps",
        "stopped",
    )  # fmt: skip

    def __init__(self, rank: int, node: str) -> None:
        self.rank, self.node = rank, node
        self.step: int | None = None
        self.steps = 0
        self.step_at = self.moved_at = self.beat_at = _NEVER
        self.logged = _NEVER
        """Highest step that a point was logged for."""
        self.phase: str | None = None
        """Innermost phase by the last heartbeat."""
        self.open: dict[str, int] = {}
        """Long phases that are open, and since when."""
        self.stopped = False
        self.ended_at: int | None = None
        self.failed = False
        """Whether it ended badly."""

    @property
    def moves(self) -> bool:
        """Whether it has ever moved forward and has not ended."""
        return self.ended_at is None and self.moved_at != _NEVER


class Attempt:
    """One attempt: its ranks, its pace, its pauses.

    Attributes:
        turns: seconds of the lead rank's newest steps, pauses taken out.
        pauses: longest known pause by phase, seconds; ``""`` for pauses that nobody announced.
        hung: a confirmed hang is open; the gap at its end is no pause that may come again.
    """

    def __init__(self, key: str, started_at: int) -> None:
        self.key, self.started_at = key, started_at
        self.ended_at: int | None = None
        self.world: int | None = None
        self.nodes: Mapping[str, tuple[int, ...]] = {}
        self.ranks: dict[int, RankState] = {}
        self.lead: RankState | None = None
        self.turns: deque[float] = deque(maxlen=_KEPT)
        self.pauses: dict[str, float] = {}
        self.hung = False
        self.paused_at = _NEVER
        """When the last pause ended."""
        self._node_of: dict[int, str] = {}

    def place(self, world: int | None, nodes: Mapping[str, tuple[int, ...]]) -> None:
        """Learn the world's size and which ranks are on which node."""
        self.world = world or self.world
        if nodes:
            self.nodes = dict(nodes)
            self._node_of = {rank: node for node, ranks in nodes.items() for rank in ranks}

    def node_of(self, rank: int | None) -> str:
        """Node of a rank, empty where nobody told."""
        if rank is None:
            return ""
        known = self._node_of.get(rank, "")
        return known or (self.ranks[rank].node if rank in self.ranks else "")

    def rank_of(self, node: str, device: int | None) -> int | None:
        """Rank that works on a device: the i-th of the node's ranks, where there are as many as devices."""
        ranks = sorted(self.nodes.get(node, ()))
        if device is None or not 0 <= device < len(ranks):
            return ranks[0] if len(ranks) == 1 else None
        return ranks[device]

    def rank(self, number: int) -> RankState:
        """The state of a rank, new where it was not heard of."""
        state = self.ranks.get(number)
        if state is None:
            state = self.ranks[number] = RankState(number, self._node_of.get(number, ""))
        return state

    def stepped(self, state: RankState, step: Step) -> float:
        """A rank finished a step; returns the step's seconds without known pauses."""
        seconds, phases = step.duration_s, step.phases
        if phases and not _PAUSES.isdisjoint(phases):
            for name in sorted(_PAUSES.intersection(phases)):
                seconds -= phases[name]
                self.pauses[name] = max(self.pauses.get(name, 0.0), phases[name])
            seconds = max(seconds, 0.0)
        if self._leads(state):
            self._turn(state, step.time, seconds, (step.time - state.step_at) / US - step.duration_s)
        state.step, state.step_at = step.step, step.time
        state.moved_at = max(state.moved_at, step.time)
        state.steps += 1
        return seconds

    def paced(self, state: RankState, time: int, step: int) -> float | None:
        """A rank without timed steps logged for a new step: seconds a step since its last, None where it paused."""
        before, at = state.logged, state.step_at
        state.logged = state.step = step
        state.step_at = time
        state.moved_at = max(time, state.moved_at)
        state.steps += 1
        if state.steps == 1 or step <= before or self.paused_at >= at:
            return None
        seconds = (time - at) / US / (step - before)
        if self._leads(state):
            self._turn(state, time, seconds, 0.0)
        return seconds

    def _leads(self, state: RankState) -> bool:
        lead = self.lead
        if lead is None or lead.ended_at is not None or state.rank < lead.rank:
            self.lead = lead = state
        return lead is state

    def _turn(self, state: RankState, time: int, seconds: float, gap: float) -> None:
        if state.steps < WARM_UP_STEPS or self.hung:
            return
        self.turns.append(seconds)
        if self.paused_at < state.step_at:
            # What nobody announced may be inside of the step or between two of them.
            longest = seconds + max(gap, 0.0)
            if longest > self.pauses.get("", 0.0):
                self.pauses[""] = longest

    def beat(self, state: RankState, beat: Heartbeat) -> None:
        """A rank, or whoever sees it, says where it is."""
        state.beat_at, state.phase, state.stopped = beat.time, beat.phase, beat.stopped
        if beat.progress_at is not None and beat.progress_at > state.moved_at:
            state.moved_at = beat.progress_at
            if beat.step is not None and state.step is None:
                state.step = beat.step

    def began(self, state: RankState, phase: PhaseBegan) -> None:
        """A long phase opened, which is progress."""
        state.open[phase.phase] = phase.time
        state.moved_at = max(state.moved_at, phase.time)

    def ended(self, state: RankState, phase: PhaseEnded) -> float | None:
        """It closed; returns its seconds, None where its beginning was not heard."""
        since = state.open.pop(phase.phase, None)
        state.moved_at = max(state.moved_at, phase.time)
        self.paused_at = max(self.paused_at, phase.time)
        seconds = phase.seconds
        if seconds is None:
            if since is None:
                return None
            seconds = (phase.time - since) / US
        if not self.hung:
            self.pauses[phase.phase] = max(self.pauses.get(phase.phase, 0.0), seconds)
        return seconds

    def saved(self, checkpoint: Checkpoint) -> None:
        """A checkpoint took this long out of the loop."""
        if checkpoint.blocking_s is not None:
            self.paused_at = max(self.paused_at, checkpoint.time)
            name = Phase.CHECKPOINT_SAVE.value
            self.pauses[name] = max(self.pauses.get(name, 0.0), checkpoint.blocking_s)

    def living(self) -> list[RankState]:
        """Ranks that have moved and not ended."""
        return [state for state in self.ranks.values() if state.moves]

    def open_phases(self) -> dict[str, int]:
        """Long phases that any living rank is in, since when."""
        found: dict[str, int] = {}
        for state in self.ranks.values():
            if state.ended_at is None:
                for name, since in state.open.items():
                    found[name] = max(since, found.get(name, since))
                if state.phase is not None:
                    found.setdefault(state.phase, state.moved_at)
        return found

    def usual_turn(self) -> tuple[float, float]:
        """Median and 99th percentile of the lead rank's newest steps, seconds; NaN where there is none."""
        return median(self.turns), quantile(self.turns, 0.99)
