"""Telemetry that ceases."""

from stepward.detect.metrics import Meaning
from stepward.detect.progress import US, RankState
from stepward.detect.scene import Detector, Episode, Scene, close
from stepward.detect.signals import AttemptEnded, Heartbeat, Sample
from stepward.model.words import HEARTBEAT_S

MISSED = 3
"""Scrapes in a row (thresholds 1); a few in a hundred are missed anyway, so that twice as many confirm."""
LEAST_S = 10.0
LOOK_S = 10.0
_SEEN = frozenset({Meaning.DUTY, Meaning.DEVICE_MEMORY_USED, Meaning.DEVICE_CLOCK})
_Place = tuple[str, int | None]


class _Pulse:
    """When a place was last heard of, and how far apart its words are."""

    __slots__ = ("at", "count", "episode", "period")

    def __init__(self, at: int) -> None:
        self.at = at
        self.period = 0.0
        self.count = 0
        self.episode: Episode | None = None

    def heard(self, at: int) -> None:
        gap = (at - self.at) / US
        if gap <= 0.05:
            return
        self.at = at
        self.count += 1
        # The longest usual distance counts: those of one sampler hardly differ.
        self.period = gap if self.count == 1 else self.period + 0.1 * (min(gap, 3 * self.period) - self.period)


class TelemetryGap(Detector):
    """A device, or a whole node, is no longer heard of while others are.

    Signal: samples of devices by node, heartbeats of ranks. Method: three missed scrapes of a device whose host answers
    (suspect: off the bus), or of a node while others are heard, are suspected; six confirm. Silence of everything is nobody's
    fault that can be named from here and gives no event.
    Known false positives: an agent that was restarted.
    """

    type = "telemetry_gap"
    meanings = _SEEN

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._pulses: dict[_Place, _Pulse] = {}
        self._nodes: dict[str, _Pulse] = {}
        self._set = False

    def sample(self, sample: Sample, meaning: Meaning) -> None:
        """A device is heard of."""
        if sample.node:
            self._heard(self._pulses, (sample.node, sample.device), sample.time)

    def beat(self, beat: Heartbeat, state: RankState) -> None:
        """A node is heard of by its ranks."""
        node = self.attempt.node_of(beat.rank)
        if node:
            self._heard(self._nodes, node, beat.time)

    def attempt_ended(self, end: AttemptEnded) -> None:
        """Nothing more is expected."""
        pulses = [*self._pulses.values(), *self._nodes.values()]
        close([pulse.episode for pulse in pulses], end.time, "the attempt ended")

    def _heard(self, pulses: dict[_Place, _Pulse] | dict[str, _Pulse], place: object, time: int) -> None:
        pulse = pulses.get(place)  # type: ignore[call-overload]
        if pulse is None:
            pulses[place] = _Pulse(time)  # type: ignore[index]
            if not self._set:
                self._set = True
                self.scene.alarms.at(time + int(LOOK_S * US), self._look)
            return
        pulse.heard(time)
        if pulse.episode is not None and not pulse.episode.over:
            pulse.episode.end(time)

    def _look(self, now: int) -> None:
        if self.attempt.ended_at is not None:
            return
        self.scene.alarms.at(now + int(LOOK_S * US), self._look)
        answering = self._answering(now)
        for node, pulse in self._nodes.items():
            if node in answering or not answering:
                continue
            if any(self.attempt.ranks[rank].ended_at is None for rank in self._ranks(node)):
                self._judge(pulse, now, HEARTBEAT_S, node, None)
        by_node: dict[str, list[_Pulse]] = {}
        for (node, _), pulse in self._pulses.items():
            by_node.setdefault(node, []).append(pulse)
        for (node, device), pulse in self._pulses.items():
            answers = node not in self._nodes or now - self._nodes[node].at < MISSED * HEARTBEAT_S * US
            # Where no device is heard of, it is the one that reads them: an event of the node, by its first device.
            first = pulse is by_node[node][0]
            alone = len(by_node[node]) > 1 and any(self._in_time(one, now) for one in by_node[node])
            if answers and answering and (alone or first):
                self._judge(pulse, now, 0.0, node, device if alone else None)

    def _ranks(self, node: str) -> list[int]:
        return [rank for rank in self.attempt.ranks if self.attempt.node_of(rank) == node]

    def _answering(self, now: int) -> set[str]:
        """Nodes of which anything is heard."""
        found = {node for node, pulse in self._nodes.items() if now - pulse.at < MISSED * HEARTBEAT_S * US}
        for (node, _), pulse in self._pulses.items():
            if pulse.count >= MISSED and now - pulse.at < MISSED * max(pulse.period, 1.0) * US:
                found.add(node)
        return found

    @staticmethod
    def _in_time(pulse: _Pulse, now: int) -> bool:
        return now - pulse.at < max(LEAST_S, (MISSED + 0.5) * pulse.period) * US

    def _judge(self, pulse: _Pulse, now: int, period: float, node: str, device: int | None) -> None:
        if pulse.count < 2 * MISSED:
            return
        period = max(period, pulse.period)
        silent = (now - pulse.at) / US
        if silent < (MISSED + 0.5) * period or self._in_time(pulse, now):
            return
        what = f"Device {device}" if device is not None else "Nothing"
        title = f"{what} of {node} is no longer heard of" if device is not None else f"{node} sends nothing"
        if pulse.episode is None or pulse.episode.over:
            rank = self.attempt.rank_of(node, device) if device is not None else None
            lead = self.attempt.lead
            pulse.episode = Episode(
                self,
                pulse.at,
                f"{node} {device}" if device is not None else node,
                step=lead.step if lead is not None else None,
                nodes=(node,),
                devices=(device,) if device is not None else (),
                ranks=(rank,) if rank is not None else tuple(sorted(self._ranks(node))) if device is None else (),
                title=title,
            )
            pulse.episode.suspect(now, data={"silent_s": silent, "period_s": period})
        elif not pulse.episode.confirmed and silent >= max(2 * LEAST_S, 2 * MISSED * period):
            label = "gpu_off_bus" if pulse.episode.event.devices else "node_failure"
            pulse.episode.confirm(now, data={"silent_s": silent, "suspect": label})
