"""Cuts a range of a journal into one frame: rows become columns, payloads go as they are, gaps become events.

The range alone decides what a frame holds, so a range that is cut again after a crash holds the same points. Which
definitions go along is the sender's matter: the server says when it lacks one.
"""

from collections.abc import Callable, Set
from struct import Struct

import msgspec

from stepward.model.frames import Block, Event, Events, Frame, Part, PhaseColumn, Points, SeriesDef, Steps, part
from stepward.spool import records, writers
from stepward.spool.reader import Gap, Item, Reader
from stepward.spool.records import U32, Record
from stepward.spool.writers import WriterMeta

MAX_POINTS = 64_000
"""Points of a frame: the size from which the server's store is at its best (docs/spool.md)."""
MAX_BYTES = 1 << 20
"""Journal bytes of a frame."""
_NAN = Struct("<d").pack(float("nan"))


class Cut:
    """One range of a journal, sorted by kind.

    Attributes:
        start, end: the range.
        series: numbers of the series that its points use.
        gaps: what could not be read.
        items: number of records and gaps.
    """

    def __init__(self, start: int, reader: Reader) -> None:
        self.start = self.end = start
        self.items = self.points = 0
        self.gaps: list[Gap] = []
        self._reader = reader
        self._rows: dict[int, list[memoryview]] = {}
        self._rounded: dict[int, list[int]] = {}
        self._steps: list[tuple[list[PhaseColumn], memoryview]] = []
        self._parts: list[Part] = []
        self._add: dict[int, Callable[[memoryview], None]] = {
            records.ROW: self._add_row,
            records.ROUNDED_ROW: self._add_rounded,
            records.STEP: self._add_step,
            records.PAYLOAD: self._add_payload,
            # Definitions were noted by the reader; a hole means nothing.
            **dict.fromkeys((records.VOID, records.KEYSET, records.PHASES), lambda _: None),
        }

    @property
    def series(self) -> dict[int, SeriesDef]:
        """Series number -> definition, of all points of the range."""
        return {one.id: one for keyset in self._rows for one in self._reader.series[keyset]}

    def take(self, item: Item) -> None:
        """Add what was read next."""
        self.end = item.end
        self.items += 1
        what = item.what
        if isinstance(what, Gap):
            self.gaps.append(what)
            return
        try:
            self._add[what.type](what.content)
        except (KeyError, ValueError):
            # A newer writer's record, or a row whose definition was in a damaged stretch.
            self.gaps.append(Gap(item.start, item.end, "not understood"))

    def frame(self, meta: WriterMeta, run: str, told: Set[int], sent_at: int, more: list[Gap]) -> Frame:
        """The frame of the range; definitions of series in ``told`` are left out, ``more`` gaps are told along."""
        parts = [*self._points(told), *self._step_part(), *self._parts]
        gaps = [*more, *self.gaps]
        if gaps:
            parts.append(part("events", Events([_event(meta, gap, sent_at) for gap in gaps])))
        return Frame(
            project=meta.project,
            run=run,
            writer=meta.writer,
            seq=self.start,
            end=self.end,
            sent_at=sent_at,
            source=meta.source,
            parts=parts,
            alive=not writers.finished(self._reader.folder, meta),
        )

    def _add_row(self, content: memoryview) -> None:
        keyset = U32.unpack_from(content)[0]
        if len(content) != records.ROW_HEAD + 8 * len(self._reader.series[keyset]):
            raise ValueError
        self._rows.setdefault(keyset, []).append(content)
        self.points += (len(content) - records.ROW_HEAD) // 8

    def _add_rounded(self, content: memoryview) -> None:
        marks, row = records.read_rounded(content)
        self._add_row(row)
        keyset = U32.unpack_from(row)[0]
        base = (len(self._rows[keyset]) - 1) * len(self._reader.series[keyset])
        self._rounded.setdefault(keyset, []).extend(base + mark for mark in marks)

    def _add_step(self, content: memoryview) -> None:
        columns = self._reader.phases[U32.unpack_from(content)[0]]
        if len(content) != records.STEP_HEAD + 8 * len(columns):
            raise ValueError
        self._steps.append((columns, content))

    def _add_payload(self, content: memoryview) -> None:
        kind, payload = records.read_payload(content)
        self._parts.append(Part(kind, msgspec.Raw(payload)))

    def _points(self, told: Set[int]) -> list[Part]:
        if not self._rows:
            return []
        blocks = [
            Block(
                [one.id for one in self._reader.series[keyset]],
                b"".join([row[4:12] for row in rows]),
                b"".join([row[12:20] for row in rows]),
                b"".join([row[20:] for row in rows]),
                self._rounded.get(keyset, []),
            )
            for keyset, rows in self._rows.items()
        ]
        definitions = [one for number, one in sorted(self.series.items()) if number not in told]
        return [part("points", Points(definitions, blocks))]

    def _step_part(self) -> list[Part]:
        """All steps of the range as one table over the union of their phases."""
        if not self._steps:
            return []
        phases = list(dict.fromkeys(column for columns, _ in self._steps for column in columns))
        rows = [content for _, content in self._steps]
        seconds = []
        for columns, content in self._steps:
            places = {column: records.STEP_HEAD + 8 * index for index, column in enumerate(columns)}
            seconds += [content[places[one] : places[one] + 8] if one in places else _NAN for one in phases]
        steps, starts, durations = (b"".join([row[at : at + 8] for row in rows]) for at in (4, 12, 20))
        return [part("steps", Steps(phases, steps, starts, durations, b"".join(seconds)))]


def cut(
    reader: Reader, position: int, *, finished: bool, max_points: int = MAX_POINTS, max_bytes: int = MAX_BYTES
) -> Cut | None:
    """The next range from ``position`` on: at least one record, at most the limits; None where nothing is left.

    Raises:
        Misaligned: no record begins at ``position``.
    """
    taken = Cut(position, reader)
    for item in reader.read(position, finished=finished):
        record = item.what
        points = records.points_of(record.type, len(record.content)) if isinstance(record, Record) else 0
        if taken.items and (taken.points + points > max_points or item.end - position > max_bytes):
            break
        taken.take(item)
    return taken if taken.items else None


def _event(meta: WriterMeta, gap: Gap, at: int) -> Event:
    """The event of a gap; its id is the same whenever the gap is told."""
    return Event(
        id=f"gap-{meta.writer}-{gap.start}",
        type="gap",
        started_at=at,
        ended_at=at,
        title=f"{gap.end - gap.start} bytes of the journal are not there: {gap.reason}",
        data={"from": gap.start, "to": gap.end, "reason": gap.reason},
    )
