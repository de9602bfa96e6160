"""Reads the records of a writer's journal from a position on, also while it is written and after it was damaged.

A zero length is "nothing yet"; a record whose checksum is wrong is passed over, to the next sound one or to the next
segment, and told as a ``Gap``. The end of a journal that is being written is looked at twice before it counts as damaged:
another processor's stores may be seen in another order. Files are read, not mapped: a file cut short cannot kill us.
"""

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import NamedTuple
from zlib import crc32

from stepward.model.frames import PhaseColumn, SeriesDef
from stepward.spool import records, writers
from stepward.spool.records import OVERHEAD, U32, Record
from stepward.spool.writers import Segment

_WINDOW = 256 << 10
_BREATH = 256
"""Records between two calls of ``breathe``: about 0.3 ms of the interpreter lock."""


class Gap(NamedTuple):
    """Positions that hold no readable records, and why."""

    start: int
    end: int
    reason: str


class Misaligned(Exception):
    """A position that no record begins at: who named it does not know this journal."""


class Item(NamedTuple):
    """What is at ``[start, end)`` of the journal."""

    start: int
    end: int
    what: Record | Gap


class Reader:
    """The journal in one writer's folder.

    Attributes:
        series: keyset id -> its series, as far as they were read.
        phases: phase set id -> its columns.
    """

    def __init__(self, folder: str, breathe: Callable[[], None] = lambda: None) -> None:
        self.folder = folder
        self.series: dict[int, list[SeriesDef]] = {}
        self.phases: dict[int, list[PhaseColumn]] = {}
        self._breathe = breathe
        self._good = -1
        self._suspect = -1

    def oldest(self) -> int | None:
        """Position of the oldest record that is kept; None for an empty journal."""
        kept = writers.segments(self.folder)
        return kept[0].start if kept else None

    def read(self, position: int, *, finished: bool) -> Iterator[Item]:
        """Records and gaps from ``position`` on, definitions noted; ends where nothing more is written.

        Args:
            position: the beginning of a record or gap, not below ``oldest``.
            finished: nothing more will be written, so that a bad end is damage.

        Raises:
            Misaligned: no record begins at ``position``.
        """
        kept = writers.segments(self.folder)
        first = sum(segment.start <= position for segment in kept) - 1
        if first < 0:
            return
        self._learn(kept[first], position)
        for segment, following in zip(kept[first:], [*kept[first + 1 :], None], strict=True):
            for item in self._walk(segment, max(position, segment.start), following is None and not finished):
                self._note(item)
                yield item
                # Who comes back has taken the item: the next read may begin here without a look at what is before.
                position = self._good = item.end
            if following is not None and following.start > segment.end:
                yield Item(segment.end, following.start, Gap(segment.end, following.start, "segment missing"))

    def begins(self, position: int) -> bool:
        """Whether a record begins, or may begin, at ``position``."""
        try:
            next(self.read(position, finished=False), None)
        except Misaligned:
            return False
        return True

    def tail(self, position: int, *, finished: bool) -> int:
        """Position behind the last record from ``position`` on."""
        try:
            for item in self.read(max(position, self.oldest() or 0), finished=finished):
                position = item.end
        except Misaligned:
            return position
        return position

    def _learn(self, segment: Segment, position: int) -> None:
        """Read the definitions between the segment's beginning and ``position``, and check that something begins there."""
        if position in (segment.start, self._good):
            return
        end = segment.start
        for item in self._walk(segment, segment.start, False, position):
            self._note(item)
            end = item.end
            if end >= position:
                break
        if end != position and not (end < position == segment.end):
            raise Misaligned

    def _note(self, item: Item) -> None:
        if isinstance(item.what, Record):
            if item.what.type == records.KEYSET:
                id, series = records.read_keyset(item.what.content)
                self.series[id] = series
            elif item.what.type == records.PHASES:
                id, columns = records.read_phases(item.what.content)
                self.phases[id] = columns

    def _walk(self, segment: Segment, position: int, living: bool, until: int | None = None) -> Iterator[Item]:
        """The items of one segment; ``living``: its end may still be in the writing."""
        limit = segment.end if until is None else min(until, segment.end)
        with contextlib.suppress(FileNotFoundError), open(segment.path, "rb", buffering=0) as file:
            window = _Window(file.fileno(), segment)
            count = 0
            while position < limit:
                end = window.sound(position)
                if end == position:
                    return
                if end > 0:
                    yield Item(position, end, window.record(position, end))
                else:
                    if living and self._suspect != position:
                        self._suspect = position
                        return
                    end = window.resume(position)
                    if living and end == segment.end:
                        return
                    yield Item(position, end, Gap(position, end, "damaged"))
                position = end
                count += 1
                if count % _BREATH == 0:
                    self._breathe()


class _Window:
    """A stretch of a segment in memory, moved along on demand."""

    def __init__(self, fd: int, segment: Segment) -> None:
        self._fd, self._segment = fd, segment
        self._start, self._view, self._void = segment.start, memoryview(b""), False

    def bytes(self, start: int, end: int) -> memoryview:
        """The bytes of [start, end), fewer where the file ends."""
        if start < self._start or end > self._start + len(self._view):
            data = os.pread(self._fd, max(end - start, _WINDOW), start - self._segment.start)
            self._start, self._view = start, memoryview(data)
        return self._view[start - self._start : end - self._start]

    def sound(self, position: int) -> int:
        """End of the record at ``position``; ``position`` itself where nothing is written, -1 where it is damaged."""
        head = self.bytes(position, position + 4)
        (length,) = U32.unpack(head) if len(head) == 4 else (0,)
        if length == 0:
            return position
        end: int = position + length + OVERHEAD
        if end > self._segment.end:
            return -1
        data = self.bytes(position, end)
        if len(data) != end - position:
            return -1
        crc, (kept,) = crc32(data[4:-4]), U32.unpack_from(data, len(data) - 4)
        self._void = kept == records.void_crc(crc)
        return end if kept == crc or self._void else -1

    def record(self, position: int, end: int) -> Record:
        """The record at ``position`` that was just found sound."""
        data = self.bytes(position, end)
        return Record(records.VOID if self._void else data[4], data[5:-4])

    def resume(self, position: int) -> int:
        """Where reading goes on behind the damaged record at ``position``: the record that its length points to, where
        that is sound, else the segment's end."""
        (length,) = U32.unpack(self.bytes(position, position + 4))
        end: int = position + length + OVERHEAD
        return end if end < self._segment.end and self.sound(end) > end else self._segment.end
