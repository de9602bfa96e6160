"""From lines of output to hits: the catalogue of signatures over what a stream has got since the last look."""

from collections import Counter
from collections.abc import Iterator, Mapping

from stepward.detect.signals import Hit
from stepward.diagnose.clues import Role
from stepward.diagnose.lines import clean
from stepward.diagnose.matcher import Matcher, template
from stepward.diagnose.signatures import catalogue
from stepward.model.resources import LogStream
from stepward.store.logs import LogStore
from stepward.store.logs.read import RawLine

MAX_HITS = 20
"""Hits of one signature in one stream that are told: the first ones; more say nothing new to a detector."""
READ_BYTES = 4096
"""Of a line, from its begin, that are looked at."""
_SEVERITY = {Role.ROOT: "critical", Role.EITHER: "warning"}


class Place:
    """How far the streams of a run are read."""

    def __init__(self) -> None:
        self.next: dict[str, int] = {}
        self.told: Counter[tuple[str, str]] = Counter()


class LineReader:
    """Reads the output of many runs; one thread uses it.

    Args:
        logs: where output rests.
    """

    def __init__(self, logs: LogStore) -> None:
        self._logs = logs
        self._matcher = Matcher(catalogue())

    def hits(
        self, project: str, run: str, place: Place, keys: Mapping[int, str], *, to_the_end: bool = False
    ) -> Iterator[Hit]:
        """Hits of lines that are new since ``place``, which moves on.

        Args:
            keys: attempt number -> key.
            to_the_end: the last line of a stream, which may still grow, is read too.
        """
        for stream in self._logs.streams(project, run, attempts={key: number for number, key in keys.items()}):
            first, last = place.next.get(stream.id, 1), stream.lines - (0 if to_the_end else 1)
            attempt = keys.get(stream.attempt)
            if first > last or attempt is None:
                continue
            place.next[stream.id] = last + 1
            for line in self._logs.matching(project, run, stream.id, self._suspicious, first=first, last=last):
                yield from self._of_line(stream, attempt, place, line)

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

    def _suspicious(self, block: bytes) -> list[int]:
        """Indexes of the lines of a block that a signature may want: literals first, then each new template once."""
        found, number, counted, end = list[int](), 0, 0, -1
        for start in self._matcher.hits(block):
            if start < end:
                continue
            begin = block.rfind(b"\n", 0, start) + 1
            end = block.find(b"\n", start)
            end = len(block) if end < 0 else end
            line = block[begin : min(end, begin + READ_BYTES)]
            if self._matcher.matters(template(line), line):
                number += block.count(b"\n", counted, begin)
                counted = begin
                found.append(number)
        return found
