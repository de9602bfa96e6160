"""One rank, or all of one node, holds the others up."""

import math
from collections.abc import Collection

from stepward.detect.progress import US, WARM_UP_STEPS, RankState
from stepward.detect.scene import Detector, Episode, Scene, close
from stepward.detect.series import MAD_TO_SIGMA, mad, median
from stepward.detect.signals import AttemptEnded, Step
from stepward.detect.speed import BEHIND, BEHIND_OWN, BEHIND_PEER, BEHIND_Z, RANK_FLOOR, outliers
from stepward.model.words import Phase

WINDOW = 20
"""Steps whose median counts as one (thresholds 4)."""
WINDOWS = 3
"""Windows in a row that confirm."""
CLEAR = 2
"""Windows in a row that end it."""
HISTORY = 16
LEARNED = 3
"""Windows of a rank's own past from which on it is a reference."""
NODE_SHARE = 0.75
FEW = 4
LASTING_S = 60.0
"""Up to four ranks on one host, timed by that host's clock, share its processors: who is late there has mostly been
scheduled away for a while. They are held against their own past alone, and for a minute at least."""
_COLLECTIVE = Phase.COLLECTIVE.value
_COMPUTE = (Phase.FORWARD.value, Phase.OPTIMIZER.value)


class _Track:
    """What is kept of one rank: its open window, its own past, how long it stands out."""

    __slots__ = ("flags", "low", "past", "ratio", "values", "window")

    def __init__(self) -> None:
        self.window = -1
        self.values: list[float] = []
        self.past: list[float] = []
        self.flags = 0
        self.low = 0
        self.ratio = 1.0


class Straggler(Detector):
    """A rank's own time is longer than that of its peers.

    Signal: self time, that is step less collective wait; with a device clock for the collective it is measured, with the
    host's it is the inverse of the wait (the culprit waits least), and where there is no collective time the forward and
    optimizer phases of a device clock. With step times alone a rank is only compared where steps differ between ranks,
    and only against its own past: in a synchronous job all are equal and nothing can be localised.
    Method: median of 20 steps a rank, log ratio to the ranks' median, MAD over ranks with a floor of 1 %, z >= 4 in three
    windows in a row, and a ratio of 1.10, or of 1.08 once a rank's own past takes the lasting differences between ranks out
    (thresholds 4). Where two modes are apart by more than 0.2 and the smaller holds 10 %, the lower quartile is the
    reference. Of two ranks one is behind by 1/0.75, or against their past. Ranks of one node share an event; data ``scope`` is
    ``node`` where most of its ranks stand out. Up to four ranks of one host that only its clock times compete for its
    processors: they are held against their own past alone, and for a minute at least.
    Known false positives: work that is unequal on purpose (experts, sequence lengths, stages).
    """

    type = "straggler"

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._tracks: dict[int, _Track] = {}
        self._medians: dict[int, dict[int, float]] = {}
        self._basis = ""
        self._judged = -1
        self._episodes: dict[str, Episode] = {}

    def step(self, step: Step, state: RankState, seconds: float) -> None:
        """One value of one rank."""
        if state.steps <= WARM_UP_STEPS:
            return
        own = self._own(step, seconds)
        if own is None or own <= 0:
            return
        track = self._tracks.get(state.rank)
        if track is None:
            track = self._tracks[state.rank] = _Track()
        window = step.step // WINDOW
        if window != track.window:
            self._close(state.rank, track, step.time)
            track.window = window
        track.values.append(own)

    def attempt_ended(self, end: AttemptEnded) -> None:
        """Nobody waits any more."""
        close(self._episodes.values(), end.time, "the attempt ended")

    def _own(self, step: Step, seconds: float) -> float | None:
        phases = step.phases
        wait = phases.get(_COLLECTIVE)
        if wait is not None:
            basis, own = ("self" if _COLLECTIVE in step.device_phases else "wait"), seconds - wait
        elif step.device_phases and not step.device_phases.isdisjoint(_COMPUTE):
            basis, own = "device", sum(phases[name] for name in _COMPUTE if name in step.device_phases)
        else:
            basis, own = "step", seconds
        if basis != self._basis:
            if self._basis:
                self._restart()
            self._basis = basis
        return own

    def _restart(self) -> None:
        """Another measure: what was known of the old one is no reference."""
        self._tracks.clear()
        self._medians.clear()

    def _close(self, rank: int, track: _Track, now: int) -> None:
        """A rank's window is over; the ranks are compared when all have closed theirs."""
        window, values = track.window, track.values
        track.values = []
        if len(values) * 2 < WINDOW or window <= self._judged:
            return
        medians = self._medians.setdefault(window, {})
        medians[rank] = median(values)
        whole = sum(state.ended_at is None and state.steps > 0 for state in self.attempt.ranks.values())
        if len(medians) >= whole:
            self._judge(window, now)
        elif len(self._medians) > 2:
            # Some rank gives no window any more: the others are judged without it.
            self._judge(min(self._medians), now)

    def _judge(self, window: int, now: int) -> None:
        medians = self._medians.pop(window)
        for older in [one for one in self._medians if one < window]:
            del self._medians[older]
        self._judged = window
        if len(medians) < 2 or min(medians.values()) <= 0:
            return
        middle = median(list(medians.values()))
        logs = {rank: math.log(value / middle) for rank, value in medians.items()}
        out = self._out(logs)
        began = now - int(WINDOW * self._turn_s() * US)
        for rank, value in logs.items():
            track = self._tracks[rank]
            if rank in out:
                track.flags, track.low, track.ratio = track.flags + 1, 0, math.exp(out[rank])
            else:
                track.low += 1
                track.flags = 0 if track.low >= CLEAR or track.flags < WINDOWS else track.flags
                # Where many stand out the median has moved, and the others seem faster than they are.
                if len(out) * 4 <= len(logs):
                    track.past.append(value)
                    del track.past[:-HISTORY]
        self._tell({rank: self._tracks[rank] for rank in logs}, now, began, window)

    def _out(self, logs: dict[int, float]) -> dict[int, float]:
        """Ranks that stand out and by how much: against their peers now, or against their own past among them."""
        if self._basis == "step" or self._shared(logs):
            found = {}
        elif len(logs) == 2:
            found = {rank: 2 * value for rank, value in logs.items() if 2 * value >= math.log(BEHIND_PEER)}
        else:
            found = outliers(logs, math.log(BEHIND), BEHIND_Z)
        changes, spreads = {}, []
        for rank, value in logs.items():
            past = self._tracks[rank].past
            # The newest window may be its beginning: it is no reference.
            known = past[:-1] if len(past) > LEARNED else []
            if known:
                changes[rank] = value - median(known)
                spreads.append(mad(known))
        if len(changes) < len(logs):
            return found
        if len(changes) == 2:
            # Of two ranks the spread between them says nothing; that of their own past does. Each is the other's mirror.
            sigma = max(MAD_TO_SIGMA * max(spreads), RANK_FLOOR / 2)
            rank, change = max(changes.items(), key=lambda item: item[1])
            return {rank: 2 * change} if 2 * change >= math.log(BEHIND_OWN) and change >= BEHIND_Z * sigma else found
        return found | outliers(changes, math.log(BEHIND_OWN), BEHIND_Z)

    def _shared(self, ranks: Collection[int]) -> bool:
        """Whether few ranks compete for one host's processors, by whose clock they are timed."""
        if self._basis not in ("wait", "step") or len(ranks) > FEW:
            return False
        return len({self.attempt.node_of(rank) for rank in ranks}) == 1

    def _turn_s(self) -> float:
        return self.attempt.usual_turn()[0] if self.attempt.turns else 0.0

    def _tell(self, tracks: dict[int, _Track], now: int, began: int, window: int) -> None:
        """Open, confirm and end events."""
        groups = self._groups(tracks)
        for key, ranks in groups.items():
            slow = sorted((rank for rank in ranks if tracks[rank].flags), key=lambda rank: -tracks[rank].ratio)
            flags = max((tracks[rank].flags for rank in slow), default=0)
            episode = self._episodes.get(key)
            if slow and (episode is None or episode.over):
                episode = self._episodes[key] = Episode(self, began, key, step=max(0, window * WINDOW))
            if episode is None or episode.over:
                continue
            if not slow:
                episode.end(now)
                continue
            words = self._words(slow, tracks, flags)
            soon = now - episode.event.started_at < LASTING_S * US and self._shared(tracks)
            if (flags < WINDOWS or soon) and not episode.confirmed:
                episode.suspect(now, **words)
            elif not episode.confirmed or set(slow) - set(episode.event.ranks):
                episode.confirm(now, **words)
        for key, episode in list(self._episodes.items()):
            if not episode.over and key not in groups:
                episode.end(now)
            if episode.over:
                del self._episodes[key]

    def _words(self, slow: list[int], tracks: dict[int, _Track], flags: int) -> dict[str, object]:
        ratio = tracks[slow[0]].ratio
        nodes = tuple(sorted({node for rank in slow if (node := self.attempt.node_of(rank))}))
        whole = len(nodes) == 1 and len(slow) >= max(2, NODE_SHARE * len(self.attempt.nodes.get(nodes[0], ())))
        who = f"Node {nodes[0]}" if whole else f"Rank {', '.join(map(str, slow[:4]))}"
        data = {"ratio": ratio, "worst": slow[0], "basis": self._basis, "threshold": BEHIND_OWN, "windows": flags}
        return {
            "ranks": tuple(slow),
            "nodes": nodes,
            "data": {**data, "scope": "node" if whole else "rank"},
            "title": f"{who} takes {ratio:.2f} times as long as the others",
        }

    def _groups(self, tracks: dict[int, _Track]) -> dict[str, list[int]]:
        """Ranks by the event that they belong to: a node has one, and nodes that begin at once have one together."""
        found: dict[str, list[int]] = {}
        rest = {rank for rank, track in tracks.items() if track.flags}
        for key, episode in self._episodes.items():
            if episode.confirmed and not episode.over:
                nodes = set(episode.event.nodes)
                mine = {rank for rank in rest if rank in episode.event.ranks or self.attempt.node_of(rank) in nodes}
                found[key] = sorted(mine.union(rank for rank in episode.event.ranks if rank in tracks))
                rest -= mine
        apart: dict[str, list[int]] = {}
        for rank in sorted(rest):
            node = self.attempt.node_of(rank)
            apart.setdefault(f"node {node}" if node else f"rank {rank}", []).append(rank)
        if len(apart) > 1:
            apart = {"several": sorted(rest)}
        return {**found, **apart}
