"""Disks that fill."""

from collections import deque

from stepward.detect.metrics import Meaning
from stepward.detect.progress import US
from stepward.detect.scene import Detector, Episode, Scene, close
from stepward.detect.series import slope
from stepward.detect.signals import AttemptEnded, Checkpoint, Hit, Sample
from stepward.detect.usage import NEARLY_FULL

LOW = 0.10
"""Less than 10 % free, or full within two checkpoint intervals at the present slope (thresholds 1)."""
INTERVALS = 2
AHEAD_S = 3600.0
"""Where no checkpoints are known."""
KEPT = 30
LEAST = 6
GROWN = 0.002
_Place = tuple[str, str]
"""Node and label of a disk."""


class _Disk:
    __slots__ = ("began_low", "episode", "flags", "free", "points", "used")

    def __init__(self) -> None:
        self.free = self.used = -1.0
        self.points: deque[tuple[float, float]] = deque(maxlen=KEPT)
        self.episode: Episode | None = None
        self.flags = 0
        self.began_low = False


class DiskFilling(Detector):
    """A disk that the run writes to is nearly full, or soon will be.

    Signal: ``system/disk/<label>/used`` and ``free``, lines labelled ``storage_full``. Method (thresholds 1): full within two
    checkpoint intervals by a Theil-Sen slope over the last thirty samples, three times in a row, or a root line, or less
    than 3 % free confirm; below 10 % free is suspected, and stays so while nothing is written: many disks live like that.
    Known false positives: a disk that somebody cleans by a timer.
    """

    type = "disk_filling"
    meanings = frozenset({Meaning.DISK_FREE, Meaning.DISK_USED})

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._disks: dict[_Place, _Disk] = {}
        self._saves: deque[int] = deque(maxlen=4)
        self._line: Episode | None = None
        self._shared: dict[str, Episode] = {}
        """Events by label: a disk that many nodes mount fills once."""

    def saved(self, checkpoint: Checkpoint) -> None:
        """The interval of checkpoints."""
        if not self._saves or checkpoint.time - self._saves[-1] > US:
            self._saves.append(checkpoint.time)

    def hit(self, hit: Hit) -> None:
        """Somebody met the full disk."""
        if hit.label != "storage_full" or hit.role not in ("root", "either"):
            return
        if self._line is None or self._line.over:
            known = next((one for one in self._shared.values() if not one.over), None)
            state = self.attempt.lead if hit.rank is None else self.attempt.ranks.get(hit.rank)
            step = None if state is None else state.step
            self._line = known or Episode(self, hit.time, "line", step=step, severity="critical", title=hit.text[:200])
        if self._line.confirmed:
            return
        node = hit.node or self.attempt.node_of(hit.rank)
        nodes = (node,) if node else self._line.event.nodes
        ranks = () if hit.rank is None else (hit.rank,)
        say = self._line.confirm if hit.role == "root" else self._line.suspect
        say(hit.time, nodes=nodes, ranks=ranks, data={"line": hit.text[:400], "source": hit.source, "number": hit.line})

    def sample(self, sample: Sample, meaning: Meaning) -> None:
        """A disk's state. The share used comes after the free bytes of the same look."""
        place = (sample.node, sample.metric.split("/")[2])
        disk = self._disks.get(place)
        if disk is None:
            disk = self._disks[place] = _Disk()
        if meaning is Meaning.DISK_FREE:
            disk.free = sample.value
            return
        disk.used = sample.value / 100.0
        disk.points.append((sample.time / US, disk.used))
        self._judge(place, disk, sample)

    def attempt_ended(self, end: AttemptEnded) -> None:
        """It is over for this attempt."""
        close([disk.episode for disk in self._disks.values()], end.time, "the attempt ended")
        close([self._line], end.time, "the attempt ended")

    def _ahead_s(self) -> float:
        if len(self._saves) < 2:
            return AHEAD_S
        return INTERVALS * (self._saves[-1] - self._saves[0]) / US / (len(self._saves) - 1)

    def _judge(self, place: _Place, disk: _Disk, sample: Sample) -> None:
        left = None
        if len(disk.points) >= LEAST and disk.points[-1][1] - disk.points[0][1] >= GROWN:
            speed = slope(disk.points)
            left = max(0.0, 1.0 - disk.used) / speed if speed > 0 else None
        soon = left is not None and left <= self._ahead_s()
        disk.flags = disk.flags + 1 if soon else 0
        full = disk.used >= NEARLY_FULL
        low = disk.used > 1.0 - LOW
        episode = disk.episode
        if not (soon or full or low):
            disk.episode = None
            if (
                episode is not None
                and not episode.over
                and all(one.episode is not episode for one in self._disks.values())
            ):
                episode.end(sample.time)
            return
        if episode is None or episode.over:
            known = self._line if self._line is not None and not self._line.over else self._shared.get(place[1])
            if known is not None and not known.over:
                disk.episode = known
                return
            episode = disk.episode = self._shared[place[1]] = Episode(
                self, sample.time, place[1], nodes=(place[0],) if place[0] else (), severity="warning"
            )
            if not (full or disk.flags >= 3):
                episode.suspect(sample.time, **self._words(place, disk, left))
        if not episode.confirmed and (full or disk.flags >= 3):
            episode.confirm(sample.time, severity="critical", **self._words(place, disk, left))

    def _words(self, place: _Place, disk: _Disk, left: float | None) -> dict[str, object]:
        data = {"disk": place[1], "used": disk.used, "free_bytes": disk.free if disk.free >= 0 else None}
        when = f", full in {max(1, round(left / 60))} min" if left is not None else ""
        title = f"Disk {place[1]} is {disk.used:.0%} full{when}"
        return {"data": {**data, "full_in_s": left}, "title": title}
