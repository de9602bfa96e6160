"""From lines of output to hits: the catalogue of signatures over what a stream has got since the last look."""

from collections import Counter
from collections.abc import Iterator, Mapping

from stepward.detect.signals import Hit
from stepward.diagnose.clues import Role
from stepward.diagnose.lines import clean
from stepward.diagnose.matcher import Matcher
from stepward.diagnose.signatures import catalogue
from stepward.store.logs import LogStore

MAX_HITS = 20
"""Hits of one signature in one stream that are told: the first ones; more say nothing new to a detector."""
READ_CHARACTERS = 4000
_SEVERITY = {Role.ROOT: "critical", Role.EITHER: "warning"}


class LineReader:
    """Reads the output of many runs; one thread uses it.

    Args:
        logs: where output rests.
    """

    def __init__(self, logs: LogStore) -> None:
        self._logs = logs
        self._matcher = Matcher(catalogue())

    def hits(
        self, project: str, run: str, place: "Place", keys: Mapping[int, str], *, to_the_end: bool = False
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
            for line in self._logs.lines(project, run, stream.id, first, last):
                if line.at is None:
                    continue
                text = clean(line.data[:READ_CHARACTERS].decode("utf-8", "replace"))
                for signature in self._matcher.signatures(text):
                    place.told[stream.id, signature.id] += 1
                    if place.told[stream.id, signature.id] > MAX_HITS:
                        continue
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


class Place:
    """How far the streams of a run are read."""

    def __init__(self) -> None:
        self.next: dict[str, int] = {}
        self.told: Counter[tuple[str, str]] = Counter()
