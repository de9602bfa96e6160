"""Hardware that fails: what drivers, kernels and counters say of devices, links and hosts."""

import re
from collections import deque
from typing import NamedTuple

from stepward.detect.metrics import Meaning
from stepward.detect.progress import US
from stepward.detect.scene import Detector, Episode, Scene, close
from stepward.detect.series import median
from stepward.detect.signals import AttemptEnded, Hit, Sample
from stepward.detect.usage import CLOCK_LOST

LABELS = frozenset(
    {
        "gpu_memory_ecc",
        "gpu_off_bus",
        "gpu_driver_firmware",
        "nvlink_fabric",
        "network_link",
        "node_failure",
        "thermal_power",
        "storage_io",
    }
)
_GROUP = dict.fromkeys(("gpu_memory_ecc", "gpu_off_bus", "gpu_driver_firmware", "nvlink_fabric"), "device")
"""A device that dies says so in many ways: these labels at one place are one event, named by the first that is sure."""
SAME_S = 300.0
"""Lines of one kind from one place within five minutes are one event (thresholds 1, 2.4)."""
DOUBT_S = 600.0
"""A line that may be a cause or not, and that nothing follows, is withdrawn after this."""
_WORDS = re.compile(r"[A-Za-z0-9][\w-]*(?:\.[\w-]+)*")
_PEER = re.compile(r"\bpeer:? \[?([0-9A-Fa-f.:]*[0-9A-Fa-f]|[\w.-]*\w)")
"""Whom a library's line names as the other end of a connection (thresholds 2.2: the peer is the suspect)."""
CORRECTED_TIMES, CORRECTED_LEAST = 10.0, 50.0
LINK_TIMES, LINK_LEAST = 20.0, 50.0
RISES = 3
"""Corrected errors beyond 10 times, errors of a link beyond 20 times the median of the others (thresholds 1), and at least
fifty in five minutes: one error beside none is no rate. Growth at three looks confirms."""
RATE_S = 300.0
THROTTLED_S = 60.0
FAILED_LOOKS = 3
LEARN = 12


class _Place(NamedTuple):
    """What is broken where; ``where`` is the node, or the rank where no node is known."""

    label: str
    device: int | None
    where: str


class _About(NamedTuple):
    """Whom a line is about; ``where`` is that as one word, ``data`` what the event says of it."""

    where: str
    nodes: tuple[str, ...]
    ranks: tuple[int, ...]
    data: dict[str, object]


class _Said(NamedTuple):
    """What a line or a counter said."""

    signature: str
    sure: bool
    title: str
    data: dict[str, object]


class HardwareFault(Detector):
    """A device, a link, a file system or a host is broken or held down.

    Signal: lines of the kernel, the driver and the libraries by their label and role; counters of memory errors, link errors,
    devices that do not answer; throttle flags and clocks. Method (thresholds 1, 2): a root line confirms at once, a line that may
    be a cause or not is suspected, and confirmed by another signature or counter from the same place; a line that only
    confirms (corrected errors, a pending remap) never begins an event. Uncorrectable errors by one confirm. Corrected ones
    beyond ten times the median of the others are suspected, links beyond twenty, and confirmed when they go on. Throttled
    for a minute with the clock 10 % below its own past: confirmed. One event a group of labels and place. A line that names
    another node, or a peer, is about that and not about who wrote it; a peer whose node nothing tells is ``data.unknown``.
    Known false positives: a fault of a device of the node that the run does not use.
    """

    type = "hardware_fault"
    meanings = frozenset(
        {
            Meaning.DEVICE_ECC_CORRECTED,
            Meaning.DEVICE_ECC_UNCORRECTED,
            Meaning.DEVICE_THROTTLE,
            Meaning.DEVICE_CLOCK,
            Meaning.DEVICES_FAILED,
            Meaning.NIC_ERRORS,
        }
    )

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._episodes: dict[_Place, Episode] = {}
        self._said: dict[_Place, tuple[int, set[str]]] = {}
        self._counts: dict[tuple[str, str, int | None], deque[tuple[int, float]]] = {}
        self._clocks: dict[tuple[str, int | None], deque[float]] = {}
        self._low: set[tuple[str, int | None]] = set()
        self._throttled: dict[tuple[str, int | None, str], int] = {}
        self._failed: dict[str, int] = {}
        self._rises: dict[tuple[str, str, int | None], int] = {}

    def hit(self, hit: Hit) -> None:
        """A known line."""
        if hit.label not in LABELS or hit.role not in ("root", "either", "confirm"):
            return
        about = self._about(hit)
        place = _Place(_GROUP.get(hit.label, hit.label), None, about.where)
        if hit.role == "confirm" and place not in self._episodes:
            return
        data: dict[str, object] = {
            "label": hit.label,
            "line": hit.text[:400],
            "source": hit.source,
            "number": hit.line,
            "signature": hit.signature,
            **about.data,
        }
        title = hit.text[:200]
        said = _Said(hit.signature, hit.role == "root", title, data)
        self._tell(hit.time, place, said, about.nodes, about.ranks)

    def _about(self, hit: Hit) -> _About:
        """Whom a line is about: the one other node or the peer that it names, else who wrote it."""
        writer = hit.node or self.attempt.node_of(hit.rank)
        named = self._named(hit.text)
        if named and writer not in named:
            ranks = tuple(sorted(self.attempt.nodes.get(named[0], ())))
            told: dict[str, object] = {"reported_by": writer} if writer else {}
            if len(named) > 1:
                return _About("", (), (), {**told, "unknown": f"the line names {len(named)} nodes"})
            return _About(named[0], (named[0],), ranks if len(ranks) == 1 else (), told)
        peer = _PEER.search(hit.text) if hit.label == "network_link" and not named else None
        if peer is not None:
            unknown = f"the line names a peer, {peer[1]}, and nothing tells which node that is"
            return _About(f"peer {peer[1]}", (), (), {"peer": peer[1], "reported_by": writer, "unknown": unknown})
        ranks = (hit.rank,) if hit.rank is not None else ()
        return _About(writer or (f"rank {hit.rank}" if ranks else ""), (writer,) if writer else (), ranks, {})

    def _named(self, text: str) -> list[str]:
        """Nodes of the attempt whose name, with or without its domain, stands in a line."""
        words = set(_WORDS.findall(text))
        words |= {_short(word) for word in words}
        return [node for node in self.attempt.nodes if node in words or _short(node) in words]

    def sample(self, sample: Sample, meaning: Meaning) -> None:
        """A counter, a flag or a clock."""
        device = (sample.node, sample.device)
        if meaning is Meaning.DEVICE_CLOCK:
            self._clock(device, sample)
        elif meaning is Meaning.DEVICE_THROTTLE:
            self._throttle(device, sample)
        elif meaning is Meaning.DEVICES_FAILED:
            looks = self._failed[sample.node] = self._failed.get(sample.node, 0) + 1 if sample.value > 0 else 0
            if looks in (1, FAILED_LOOKS):
                title = f"{sample.value:.0f} devices do not answer"
                self._count(sample, "gpu_off_bus", looks == FAILED_LOOKS, title, {"devices_failed": sample.value})
        else:
            self._counter(sample, meaning)

    def attempt_ended(self, end: AttemptEnded) -> None:
        """What is broken stays so; for this attempt it is over."""
        bad = end.state not in ("finished", "cancelled")
        for episode in self._episodes.values():
            if episode.over:
                continue
            if bad and not episode.confirmed and end.time - episode.event.detected_at <= SAME_S * US:
                # The attempt died of something, and this is what was wrong.
                episode.confirm(end.time, ended_at=end.time, data={"evidence": f"the attempt ended: {end.state}"})
        close(self._episodes.values(), end.time, "the attempt ended")

    def _counter(self, sample: Sample, meaning: Meaning) -> None:
        key = (sample.metric, sample.node, sample.device)
        past = self._counts.get(key)
        if past is None:
            past = self._counts[key] = deque()
        before = past[-1][1] if past else None
        past.append((sample.time, sample.value))
        while len(past) > 2 and sample.time - past[0][0] > RATE_S * US:
            past.popleft()
        if before is None or sample.value <= before:
            return
        data = {"metric": sample.metric, "count": sample.value, "new": sample.value - before}
        if meaning is Meaning.DEVICE_ECC_UNCORRECTED:
            title = f"{sample.value - before:.0f} uncorrectable memory errors"
            self._count(sample, "gpu_memory_ecc", True, title, data)
            return
        grown = sample.value - past[0][1]
        others = [
            series[-1][1] - series[0][1]
            for (metric, node, device), series in self._counts.items()
            if metric == sample.metric and (node, device) != (sample.node, sample.device)
        ]
        link = meaning is Meaning.NIC_ERRORS
        times, least = (LINK_TIMES, LINK_LEAST) if link else (CORRECTED_TIMES, CORRECTED_LEAST)
        if others and grown >= least and grown > times * max(1.0, median(others)):
            rises = self._rises[key] = self._rises.get(key, 0) + 1
            what = "errors of the link" if link else "corrected memory errors"
            label = "network_link" if link else "gpu_memory_ecc"
            title = f"{grown:.0f} {what} in five minutes"
            self._count(sample, label, rises >= RISES, title, {**data, "others": median(others)})

    def _clock(self, device: tuple[str, int | None], sample: Sample) -> None:
        clocks = self._clocks.get(device)
        if clocks is None:
            clocks = self._clocks[device] = deque(maxlen=60)
        if len(clocks) >= LEARN and sample.value < CLOCK_LOST * median(clocks):
            self._low.add(device)
        else:
            self._low.discard(device)
            clocks.append(sample.value)

    def _throttle(self, device: tuple[str, int | None], sample: Sample) -> None:
        key = (*device, sample.metric)
        if sample.value <= 0:
            self._throttled.pop(key, None)
            place = _Place("thermal_power", sample.device, sample.node)
            episode = self._episodes.get(place)
            held = any(one[:2] == device for one in self._throttled)
            if episode is not None and not episode.over and not held and "metric" in episode.event.data:
                episode.end(sample.time)
            return
        since = self._throttled.setdefault(key, sample.time)
        # A power cap alone is how most data centres run.
        if sample.time - since < THROTTLED_S * US or (device not in self._low):
            return
        reason = sample.metric.rsplit("/", 1)[-1].removeprefix("throttle_")
        title = f"Clocks are held down: {reason.replace('_', ' ')}"
        self._count(sample, "thermal_power", True, title, {"metric": sample.metric, "reason": reason})

    def _count(self, sample: Sample, label: str, sure: bool, title: str, data: dict[str, object]) -> None:
        """Something that a counter tells."""
        rank = self.attempt.rank_of(sample.node, sample.device)
        ranks = (rank,) if rank is not None and sample.device is not None else ()
        place = _Place(_GROUP.get(label, label), sample.device, sample.node)
        said = _Said(sample.metric, sure, title, {"label": label, **data})
        self._tell(sample.time, place, said, (sample.node,) if sample.node else (), ranks)

    def _tell(self, time: int, place: _Place, said: _Said, nodes: tuple[str, ...], ranks: tuple[int, ...]) -> None:
        episode = self._same(place, time)
        if episode is None:
            lead = self.attempt.lead
            episode = self._episodes[place] = Episode(
                self,
                time,
                " ".join(str(part) for part in (place.label, place.where, place.device) if part not in (None, "")),
                step=lead.step if lead is not None else None,
                nodes=nodes,
                ranks=ranks,
                devices=(place.device,) if place.device is not None else (),
                severity="critical" if said.sure else "warning",
                title=said.title,
                data=said.data,
            )
            self._said[place] = (time, {said.signature})
            if not said.sure:
                episode.suspect(time)
                self.scene.alarms.at(time + int(DOUBT_S * US), self._doubt)
        _, signatures = self._said.get(place, (time, set()))
        another = said.signature not in signatures
        signatures.add(said.signature)
        self._said[place] = (time, signatures)
        more = {"ranks": ranks} if ranks and not episode.event.ranks else {}
        if not episode.confirmed and (said.sure or another):
            episode.confirm(time, severity="critical", title=said.title, data=said.data, **more)
        elif more and not episode.over:
            # A kernel names the node, a rank that meets the fault itself.
            (episode.confirm if episode.confirmed else episode.suspect)(time, **more)
        if self.attempt.ended_at is not None and not episode.over:
            episode.end(time)

    def _same(self, place: _Place, time: int) -> Episode | None:
        """The open event of a place, or of its whole node where the label is the same."""
        for known in (place, place._replace(device=None)):
            episode = self._episodes.get(known)
            if episode is not None and (not episode.over or time - self._said[known][0] <= SAME_S * US):
                return episode
        if place.device is None:
            for known, episode in self._episodes.items():
                if known.label == place.label and known.where == place.where and not episode.over:
                    return episode
        return None

    def _doubt(self, now: int) -> None:
        """What nothing followed is withdrawn."""
        for place, episode in self._episodes.items():
            newest = self._said[place][0] if place in self._said else 0
            if not episode.over and not episode.confirmed and now - newest >= DOUBT_S * US:
                episode.end(now)
            elif not episode.over and not episode.confirmed:
                self.scene.alarms.at(newest + int(DOUBT_S * US), self._doubt)


def _short(name: str) -> str:
    """A host's name without its domain; an address is its own short name."""
    return name if name[:1].isdigit() else name.partition(".")[0]
