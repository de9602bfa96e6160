"""From lines of output to hits: the catalogue of signatures over what a stream has got since the last look."""

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial

import numpy as np

from stepward.detect.signals import Hit
from stepward.diagnose.clues import Role
from stepward.diagnose.lines import clean
from stepward.diagnose.matcher import CACHED, Matcher, template
from stepward.diagnose.signatures import catalogue
from stepward.model.resources import LogStream
from stepward.model.words import NODES_PROJECT
from stepward.store.catalog.detected import Stay
from stepward.store.logs import LogStore
from stepward.store.logs.read import RawLine

MAX_HITS = 20
"""Hits of one signature in one stream that are told: the first ones; more say nothing new to a detector."""
IN_VAIN, SAMPLED = 300, 50
"""How often a template whose numbers decide is asked in vain until it is asked only once in ``SAMPLED`` times: a line that
each step prints."""
READ_BYTES = 4096
"""Of a line, from its begin, that are looked at."""
NODE_LINES = 20_000
"""Of a node's kernel log, the last lines that a run that begins to be observed is told of."""
_NEWLINE = 10
_MEMORY = frozenset({"host_oom", "gpu_oom"})
_SEVERITY = {Role.ROOT: "critical", Role.EITHER: "warning"}


class Place:
    """How far the streams of a run are read."""

    def __init__(self) -> None:
        self.next: dict[str, int] = {}
        self.found: Counter[tuple[str, str]] = Counter()
        self.told: Counter[tuple[str, str]] = Counter()


class LineReader:
    """Reads the output of many runs; one thread uses it.

    Args:
        logs: where output rests.
    """

    def __init__(self, logs: LogStore) -> None:
        self._logs = logs
        self._matcher = Matcher(catalogue())
        self._in_vain: dict[bytes, int] = {}

    def hits(
        self, project: str, run: str, place: Place, keys: Mapping[int, str], *, to_the_end: bool = False
    ) -> Iterator[Hit]:
        """Hits of lines that are new since ``place``, which moves on.

        Args:
            keys: attempt number -> key.
            to_the_end: a last line without an end, which may still grow, is read too.
        """
        lines = self._logs.line_counts(project, run, complete=not to_the_end)
        for stream in self._logs.streams(project, run, attempts={key: number for number, key in keys.items()}):
            first, last = place.next.get(stream.id, 1), lines.get(stream.id, 0)
            attempt = keys.get(stream.attempt)
            if first > last or attempt is None:
                continue
            place.next[stream.id] = last + 1
            matches = partial(self._matches, place, stream.id)
            for line in self._logs.matching(project, run, stream.id, matches, first=first, last=last):
                yield from self._of_line(stream, attempt, place, line)

    def of_node(self, stay: Stay, place: Place) -> Iterator[Hit]:
        """Hits of the kernel's log of a node while an attempt was there, new since ``place``.

        Kills for memory are left out: on a node that is shared they are others' as well, and the attempt's own are told by its
        control group and its wrapper.
        """
        lines = self._logs.line_counts(NODES_PROJECT, stay.node_run, complete=True)
        for stream in self._logs.streams(NODES_PROJECT, stay.node_run, attempts={}):
            key, last = f"{stay.attempt}/{stay.node_run}/{stream.id}", lines.get(stream.id, 0)
            first = place.next.get(key, max(1, last - NODE_LINES + 1))
            if stream.stream != "kernel" or first > last:
                continue
            place.next[key] = last + 1
            matches = partial(self._matches, None, key)
            for line in self._logs.matching(NODES_PROJECT, stay.node_run, stream.id, matches, first=first, last=last):
                if line.at is not None and stay.started_at <= line.at <= (stay.ended_at or line.at):
                    for hit in self._of_line(stream, stay.attempt, place, line):
                        if hit.label not in _MEMORY:
                            yield hit._replace(node=stay.node, rank=None, source=f"node:{stay.node}:{stream.id}")

    def _of_line(self, stream: LogStream, attempt: str, place: Place, line: RawLine) -> Iterator[Hit]:
        if line.at is None:
            return
        text = clean(line.data[:READ_BYTES].decode("utf-8", "replace"))
        for signature in self._matcher.signatures(text):
            place.told[stream.id, signature.id] += 1
            if place.told[stream.id, signature.id] <= MAX_HITS:
                yield Hit(
                    line.at,
                    attempt,
                    signature.id,
                    signature.label,
                    signature.role.value,
                    _SEVERITY.get(signature.role, "info"),
                    text,
                    f"log:{stream.id}",
                    line.n,
                    stream.rank,
                    stream.node,
                )

    def _matches(self, place: Place | None, stream: str, block: bytes) -> list[int]:
        """Indexes of the lines of a block that have something to tell: literals first, then each new template once."""
        starts = self._matcher.hits(block)
        if not starts:
            return []
        newlines = np.flatnonzero(np.frombuffer(block, np.uint8) == _NEWLINE)
        numbers = np.unique(np.searchsorted(newlines, np.asarray(starts))).tolist()
        ends = [*newlines.tolist(), len(block)]
        found = []
        for number in numbers:
            begin = ends[number - 1] + 1 if number else 0
            if self._has_news(place, stream, block[begin : min(ends[number], begin + READ_BYTES)]):
                found.append(number)
        return found

    def _has_news(self, place: Place | None, stream: str, line: bytes) -> bool:
        shape = template(line)
        in_vain = self._in_vain.get(shape, 0)
        if in_vain > IN_VAIN and in_vain % SAMPLED:
            self._in_vain[shape] = in_vain + 1
            return False
        if not self._matcher.matters(shape, line):
            return False
        signatures = self._matcher.signatures(clean(line.decode("utf-8", "replace")))
        if not signatures:
            if len(self._in_vain) >= CACHED:
                self._in_vain.clear()
            self._in_vain[shape] = in_vain + 1
            return False
        if place is None:
            return True
        news = False
        for signature in signatures:
            place.found[stream, signature.id] += 1
            news |= place.found[stream, signature.id] <= MAX_HITS
        return news
