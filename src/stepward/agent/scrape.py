"""Scrapes Prometheus exporters, one after the other, each with bounds of time, size and number of series."""

from collections.abc import Sequence
from urllib.parse import urlsplit, urlunsplit

from stepward.client.transport import Transport
from stepward.collect import exposition
from stepward.collect.readings import Reading
from stepward.errors import Unavailable
from stepward.model.frames import MAX_NAME

ANSWER_S = 5.0
MOST_BYTES = 4 << 20
MOST_SERIES = 1000
"""Series of one exporter; more belong into a store of their own."""
ACCEPT = "application/openmetrics-text;version=1.0.0;q=0.9,text/plain;version=0.0.4;q=0.8"
PREFIX = "system/scrape"


class Target:
    """One exporter.

    Attributes:
        problem: why the last scrape gave nothing; "" where it did.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.instance = parts.netloc.rpartition("@")[2]
        self._path = urlunsplit(("", "", parts.path or "/metrics", parts.query, ""))
        self._transport = Transport(f"{parts.scheme}://{self.instance}")
        self.problem = ""

    def scrape(self) -> list[list[Reading]]:
        """Readings by metric name, so that each name's series make a row of their own; ``up`` is always there."""
        found, left_out, malformed = self._samples()
        counted = {"left_out": float(left_out), "malformed": float(malformed)} if not self.problem else {}
        own = [self._own(name, value) for name, value in ({"up": float(not self.problem)} | counted).items()]
        rows: dict[str, list[Reading]] = {}
        # Whether it is up is not for the exporter to say.
        seen: set[tuple[str, int | None]] = {(reading.metric, reading.device) for reading in own}
        for sample in found:
            reading = self._reading(sample)
            if len(reading.metric) <= MAX_NAME and (reading.metric, reading.device) not in seen:
                seen.add((reading.metric, reading.device))
                rows.setdefault(sample.name, []).append(reading)
        return [own, *rows.values()]

    def _samples(self) -> tuple[Sequence[exposition.Sample], int, int]:
        self.problem = ""
        try:
            answer = self._transport.request(
                "GET", self._path, headers={"Accept": ACCEPT}, timeout_s=ANSWER_S, most_bytes=MOST_BYTES
            )
            if answer.status != 200:
                self.problem = f"it answered {answer.status}"
                return [], 0, 0
        except Unavailable as error:
            self.problem = error.message
            return [], 0, 0
        read = exposition.read(answer.body.decode("utf-8", "replace"), most=MOST_SERIES)
        return read.samples, read.left_out, read.malformed

    def _reading(self, sample: exposition.Sample) -> Reading:
        labels, device = dict(sample.labels), None
        gpu = labels.get("gpu", "")
        if gpu.isascii() and gpu.isdigit() and len(gpu) < 5:
            device = int(labels.pop("gpu"))
        labels.setdefault("instance", self.instance)
        name = f"{PREFIX}/{sample.name}{exposition.label_text(tuple(labels.items()))}"
        return Reading(name, "", sample.value, device)

    def _own(self, name: str, value: float) -> Reading:
        return Reading(f"{PREFIX}/{name}{exposition.label_text((('instance', self.instance),))}", "", value)
