"""A stored run as signals in their order: what a server that starts, ``reprocess`` and a test of sameness read."""

from collections.abc import Callable, Iterable, Iterator
from heapq import merge
from operator import itemgetter

import msgspec

from stepward.detect.signals import Sample, Signal, Step
from stepward.errors import ParseError
from stepward.ingest.protocols import SYSTEM_PREFIX
from stepward.model import frames
from stepward.model.frames import Part
from stepward.model.launches import covers
from stepward.model.words import SourceKind
from stepward.observe.lines import LineReader, Place
from stepward.observe.signals import RunSignals, attempt_end, clock_error
from stepward.store.catalog.detected import DetectedEvents
from stepward.store.points.protocol import PointsStore, RawPart, Speaker

_KINDS = ("status", "events", "config", "exit")
_PAGE = 2000
AFTERMATH_US = 3_600_000_000
"""How long after the last signal of a run that is over its detectors are asked once more: whatever they wait for has
come by then, or never will."""


class Replay:
    """Reads stored runs.

    Args:
        points, lines, catalog: what is known of them.
    """

    def __init__(self, points: PointsStore, lines: LineReader, catalog: DetectedEvents) -> None:
        self._points, self._lines, self._catalog = points, lines, catalog

    def positions(self, project: str, run: str) -> dict[str, int]:
        """How far the journal of each writer of a run is committed."""
        every = self._points.positions(project)
        return {writer: position.end for writer, position in every.items() if position.run == run}

    def signals(
        self, project: str, run: str, conversion: RunSignals | None = None, place: Place | None = None
    ) -> Iterator[Signal]:
        """All signals of a run, by time; ``conversion`` and ``place`` learn what a live observer goes on with.

        The last line of a stream, where it has no end, is read of a run that is over.
        """
        shifts = shift_of(self._catalog, run)
        numbers = self._catalog.attempts(run)
        of_parts = sorted(self._of_parts(project, run, conversion or RunSignals(), numbers, shifts), key=itemgetter(0))
        hits = self._lines.hits(
            project,
            run,
            place or Place(),
            {n: key for key, n in numbers.items()},
            to_the_end=run in self._catalog.over([run]),
        )
        place = place or Place()
        of_nodes = [hit for stay in self._catalog.stays([run]) for hit in self._lines.of_node(stay, place)]
        ends = [attempt_end(end.attempt, end.state, end.ended_at, end.reason) for end in self._catalog.ends([run])]
        streams: list[Iterable[Signal]] = [
            of_parts,
            (
                Sample(
                    point.time_us,
                    attempt_of(point.speaker.kind, point.speaker.attempt, numbers),
                    point.metric,
                    point.value,
                    None if point.metric.startswith(SYSTEM_PREFIX) else point.step,
                    point.rank,
                    point.device,
                    point.speaker.node,
                )
                for point in self._points.recorded_points(project, run, shift=shifts)
            ),
            (
                Step(
                    step.end_us,
                    step.speaker.attempt,
                    step.speaker.rank or 0,
                    step.step,
                    step.duration_s,
                    step.phases,
                    step.device_phases,
                )
                for step in self._points.recorded_steps(project, run, shift=shifts)
            ),
            sorted([*hits, *of_nodes], key=itemgetter(0)),
            sorted(ends, key=itemgetter(0)),
        ]
        return merge(*streams, key=itemgetter(0))

    def _of_parts(
        self,
        project: str,
        run: str,
        conversion: RunSignals,
        numbers: dict[str, int],
        shifts: Callable[[Speaker], int],
    ) -> Iterator[Signal]:
        for part in self._parts(project, run):
            try:
                payload = frames.payload(Part(part.kind, msgspec.Raw(part.payload)))
            except ParseError:  # an older version took it
                continue
            if payload is not None:
                source = part.source
                attempt = attempt_of(source.kind, source.attempt, numbers)
                shift = shifts(Speaker(source.kind, source.attempt, source.rank, source.node))
                yield from conversion.of_payload(attempt, source, payload, shift)

    def _parts(self, project: str, run: str) -> Iterator[RawPart]:
        after = 0
        while page := self._points.payloads(project, after=after, run=run, kinds=_KINDS, limit=_PAGE):
            yield from page
            after = page[-1].cursor


def shift_of(catalog: DetectedEvents, run: str) -> Callable[[Speaker], int]:
    """What to add to the times of each source of a run."""
    known = {
        (clock.kind, clock.attempt, clock.rank, clock.node): clock_error(clock.offset_us)
        for clock in catalog.clocks(run)
    }
    return lambda speaker: known.get((speaker.kind.value, speaker.attempt, speaker.rank, speaker.node), 0)


def attempt_of(kind: SourceKind, attempt: str, numbers: dict[str, int]) -> str:
    """The attempt that a source speaks of: of a watcher, the newest one inside the launch that it sees."""
    if kind is not SourceKind.WATCHER:
        return attempt
    inside = [key for key in numbers if covers(attempt, key)]
    return max(inside, key=numbers.__getitem__) if inside else attempt
