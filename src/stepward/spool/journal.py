"""The journal of one process: what ``log()`` returns from is in a mapped file and survives the death of the process.

A record is reserved, written, checked and only then published by its length, so that a kill at any instruction leaves a
whole journal. The same holds for a signal handler that writes while the main thread is inside ``row``: it fills the hole
before it. No method raises: what cannot be kept is counted in ``dropped``. Shipping is elsewhere (``spool.shipper``).
"""

import mmap
import os
import threading
import time
import weakref
from collections.abc import Sequence
from zlib import crc32

import msgspec

from stepward.model.frames import MAX_NAME, Logs, Payload, PhaseColumn, SeriesDef, Source, Status, part
from stepward.model.identity import ulid
from stepward.model.states import Exit
from stepward.model.words import Clock
from stepward.spool import records, roots, segments, writers
from stepward.spool.logs import MAX_PAYLOAD_BYTES, split
from stepward.spool.records import Shape
from stepward.spool.segments import spool_bytes
from stepward.spool.writers import PENDING, WriterMeta

__all__ = ["CAP_BYTES", "MAX_PAYLOAD_BYTES", "SEGMENT_BYTES", "Journal", "WriterMeta", "spool_bytes"]

SEGMENT_BYTES = 16 << 20
"""Size of a segment, once the journal has grown: the first ones are smaller, for the many processes that write little."""
CAP_BYTES = 10 << 30
"""Bytes that the spool of a user may hold on a host; what comes then is counted as dropped."""
_FIRST_SEGMENT_BYTES = 1 << 20
_LEAST_SEGMENT_BYTES = 64 << 10
"""What is still asked for where a disk or the cap has no room for more."""
_LAST_WORDS_BYTES = 8 << 10
"""End of each segment that only the exit may use: a full disk shall not hide how the process ended."""
_PAGE = mmap.ALLOCATIONGRANULARITY
_RETRY_S = 1.0
"""Pause before a full disk or spool is tried again: a failing allocation costs the training loop a system call or two."""

_put_u32 = records.U32.pack_into
_ROW = records.ROW
_journals: "weakref.WeakSet[Journal]" = weakref.WeakSet()

SeriesOf = tuple[str, str, int | None] | tuple[str, str, int | None, int | None]
"""Metric, unit, device; and the rank that it is about where the writer is no rank itself."""


class Journal:
    """An append-only journal of one process; thread-safe, and safe in signal handlers and after ``fork``.

    Attributes:
        meta: who writes; its run is None until ``assign``.
        root: the spool that is really used (``roots.resolve``); None where no folder will do.
        dropped: points and payloads that were refused: spool or disk full, or beyond a limit.
        gaps: damaged stretches that the shipper of this process skipped.
    """

    _lock: threading.RLock
    _view: memoryview
    _base: int
    _at: int
    _room: int
    _size: int
    _next_size: int
    _held: int | None
    _open: tuple[memoryview, int, int] | None
    _stated: set[int]
    _retry_at: float

    def __init__(self, root: str | None, meta: WriterMeta, cap_bytes: int) -> None:
        self.root, self.meta, self.cap_bytes = root, meta, cap_bytes
        self.dropped = self.gaps = 0
        self._shapes: list[Shape | None] = [None]
        self._series: dict[SeriesOf, int] = {}
        self._ids: dict[tuple[object, ...], int] = {}
        self._closed = False
        self._begin()

    @classmethod
    def create(cls, root: str, meta: WriterMeta, *, cap_bytes: int = CAP_BYTES) -> "Journal":
        """A journal of this process; its folder appears with its first record."""
        journal = cls(roots.resolve(root), _of_this_process(meta), cap_bytes)
        _journals.add(journal)
        return journal

    @property
    def run(self) -> str | None:
        """Run that the records belong to; None while it is not known."""
        return self.meta.run

    @property
    def end(self) -> int:
        """Position behind the last record."""
        return self._base + self._at

    @property
    def folder(self) -> str:
        """The writer's folder."""
        return f"{self.root}/{self.meta.run or PENDING}/{self.meta.writer}"

    def assign(self, run: str, source: Source | None = None) -> None:
        """Run (or rank) became known: the folder moves, later frames carry it."""
        with self._lock:
            before = self.folder
            there = self._held is not None or os.path.isdir(before)
            meta = msgspec.structs.replace(self.meta, run=run, source=source or self.meta.source)
            self.meta = _of_this_process(meta)
            try:
                if there:
                    writers.write_meta(before, self.meta)
                    writers.move(before, self.folder)
            except OSError as error:
                roots.warn(f"the spool folder {before} cannot be moved to {self.folder}: {error.strerror}")
                self.meta = msgspec.structs.replace(self.meta, run=None) if before != self.folder else self.meta

    def define(self, series: Sequence[SeriesOf]) -> int:
        """Keyset id of some series; 0, which no row can use, for names that no frame may carry.

        Args:
            series: none of them twice.
        """
        key = ("rows", *series)
        with self._lock:
            known = self._ids.get(key)
            if known is not None:
                return known
            if not series or len(set(series)) != len(series) or not all(_sound(m, u) for m, u, *_ in series):
                return 0
            numbers = [self._series.setdefault(one, len(self._series) + 1) for one in series]
            id = len(self._shapes)
            definitions = [SeriesDef(number, *one) for number, one in zip(numbers, series, strict=True)]
            return self._add(key, Shape(id, len(series), records.keyset(id, definitions), len(series)))

    def row(self, keyset: int, step: int, time_us: int, values: Sequence[float], rounded: Sequence[int] = ()) -> bool:
        """Keep one value a series of ``keyset``; False when they were counted as dropped.

        Args:
            keyset: id that ``define`` gave.
            step: any integer, clamped to int64.
            time_us: µs since the epoch, clamped likewise.
            values: as many floats as the keyset has series.
            rounded: indexes of integers that a float does not hold exactly.
        """
        try:
            shape = self._shapes[keyset]
            if shape is None:
                self.dropped += len(values)
                return False
            if rounded:
                head = (_ROW, keyset, records.clamp(int(step)), records.clamp(int(time_us)))
                return self._rounded_row(shape, (*head, *values), rounded)
            return self._write(shape, (_ROW, keyset, step, time_us, *values))
        except Exception:
            # Numbers beyond int64 come here, once in a blue moon; the check before would be paid at every call.
            return self._row_again(keyset, step, time_us, values)

    def step_row(
        self,
        step: int,
        start_us: int,
        duration_s: float,
        phases: Sequence[tuple[str, Clock]],
        seconds: Sequence[float],
    ) -> bool:
        """Keep one row of the steps table; ``seconds`` has one entry a phase, NaN where it was not measured."""
        try:
            id = self._ids.get(("steps", *phases)) or self._define_phases(phases)
            shape = self._shapes[id]
            if shape is not None:
                head = (records.STEP, id, records.clamp(int(step)), records.clamp(int(start_us)))
                return self._write(shape, (*head, duration_s, *seconds))
        except Exception:
            pass
        self.dropped += 1
        return False

    def emit(self, kind: str, payload: Payload) -> bool:
        """Keep a payload of any kind but points and steps. Logs of any size are cut; others are refused beyond 1 MiB."""
        try:
            if isinstance(payload, Logs):
                kept = [self._emit(kind, Logs(chunks)) for chunks in split(payload.chunks)]
                return all(kept)
            if isinstance(payload, Status):
                # The heartbeat looks, for who logs little would not learn of it until the segment is full.
                self._look_for_folder()
            return self._emit(kind, payload)
        except Exception:
            self.dropped += 1
            return False

    def close(self) -> None:
        """Write no more, and give back what is left of the last segment."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._room = self._size = self._at
            if self._held is None:
                return
            try:
                os.truncate(f"{self.folder}/{self._base:020d}.seg", self._at)
                self.meta = msgspec.structs.replace(self.meta, closed=True)
                writers.write_meta(self.folder, self.meta)
            except OSError:
                pass
            os.close(self._held)
            self._held = None

    def _begin(self) -> None:
        """No segment yet: at the start, and in a forked child."""
        self._lock = threading.RLock()
        self._view = memoryview(bytearray())
        self._held = None
        self._base = self._at = self._room = self._size = 0
        self._next_size = _FIRST_SEGMENT_BYTES
        self._open = None
        self._stated = set()
        self._retry_at = 0.0
        self._said_full = False

    def forked(self) -> None:
        """In a forked child: be another writer. The parent's map and files are left as they are."""
        if self._held is not None:
            os.close(self._held)
        self._begin()
        self.dropped = self.gaps = 0
        self.meta = _of_this_process(
            msgspec.structs.replace(self.meta, writer=ulid(), created_at=time.time_ns() // 1000)
        )

    def _write(self, shape: Shape, fields: tuple[float, ...]) -> bool:
        """The hot path: pack the record in place. ``fields`` are the type and all that follows."""
        size = shape.size
        with self._lock:
            while True:
                # Signal handlers run at calls: there is none between here and the reservation.
                view, at = self._view, self._at
                end = at + size
                if end <= self._room and self._open is None and shape.id in self._stated:
                    break
                if not self._ready(size, shape):
                    self.dropped += shape.points
                    return False
            self._open, self._at = (view, at, end), end
            try:
                shape.pack_into(view, at + 4, *fields)
                _put_u32(view, end - 4, crc32(view[at + 4 : end - 4]))
                _put_u32(view, at, shape.length)
            except BaseException:
                segments.close_record(view, at, end)
                raise
            finally:
                self._open = None
        return True

    def _append(self, record: bytes, points: int, shape: Shape | None = None) -> bool:
        """Write a sealed record: the steps of ``_write``, off the hot path."""
        size = len(record)
        with self._lock:
            while not self._put(record, size, shape):
                if not self._ready(size, shape):
                    self.dropped += points
                    return False
        return True

    def _put(self, record: bytes, size: int, shape: Shape | None = None) -> bool:
        """Write a sealed record; False where something has to be made ready before."""
        # No call from here to the reservation, as in ``_write``.
        view, at = self._view, self._at
        end = at + size
        if end > self._room or self._open is not None or (shape is not None and shape.id not in self._stated):
            return False
        self._open, self._at = (view, at, end), end
        try:
            view[at + 4 : end] = record[4:]
            view[at : at + 4] = record[:4]
        except BaseException:
            segments.close_record(view, at, end)
            raise
        finally:
            self._open = None
        return True

    def _ready(self, size: int, shape: Shape | None) -> bool:
        """One step towards a record of ``size`` bytes: interrupted row closed, room made, definition written."""
        if self._open is not None:
            segments.close_record(*self._open)
            self._open = None
        stated = self._stated
        definition = b"" if shape is None or shape.id in stated else shape.definition
        if self._at + size + len(definition) > self._room:
            return self._roll(size + (len(shape.definition) if shape is not None else 0))
        if shape is not None and definition and self._put(definition, len(definition)):
            stated.add(shape.id)
        return True

    def _roll(self, need: int) -> bool:
        """Go on in a new segment with room for ``need`` bytes."""
        now, view, start = time.monotonic(), self._view, self._base + self._size
        if self._closed or self.root is None or now < self._retry_at:
            return False
        size = max(self._next_size, -(-(need + _LAST_WORDS_BYTES) // _PAGE) * _PAGE)
        path = f"{self.folder}/{start:020d}.seg"
        hidden = f"{self.folder}/.{start:020d}.seg"
        try:
            self._open_folder(self.root)
            if spool_bytes(self.root) + size > self.cap_bytes:
                raise OSError("the spool is at its cap")
            fresh, stated = segments.allocate(hidden, size), set[int]()
            # A signal handler may roll during any call here; its segment has this name and holds its record.
            if self._view is view:
                os.rename(hidden, path)
            else:
                os.unlink(hidden)
        except (OSError, ValueError) as error:
            if self._view is view:
                return self._has_less_room(now, error)
        else:
            if self._view is view:
                # The old map is not closed but let go: who was interrupted inside it still writes there.
                self._view, self._base, self._at, self._size, self._stated = fresh, start, 0, size, stated
                self._room = size - _LAST_WORDS_BYTES
                self._next_size = min(4 * size, SEGMENT_BYTES)
        return True

    def _has_less_room(self, now: float, error: Exception) -> bool:
        """No room for a segment: whether a smaller one is worth a try at once."""
        if self._next_size > _LEAST_SEGMENT_BYTES:
            self._next_size = max(_LEAST_SEGMENT_BYTES, self._next_size // 4)
            return True
        self._retry_at = now + _RETRY_S
        if not self._said_full:
            self._said_full = True
            roots.warn(f"{self.root} takes no more ({error}): what is logged until it does is counted as dropped")
        return False

    def _look_for_folder(self) -> None:
        """Where somebody has removed the folder, go on in a new one: what goes into the old one reaches nobody."""
        if self._held is None or os.path.isdir(self.folder):
            return
        with self._lock:
            if self._held is None or os.path.isdir(self.folder):
                return
            roots.warn(f"{self.folder} was removed: what was not sent yet is lost; a new one is begun")
            os.close(self._held)
            self._held = None
            self._room = self._at

    def _open_folder(self, root: str) -> None:
        """Make the writer's folder, again where somebody removed it; it appears locked and described."""
        folder = self.folder
        if os.path.isdir(folder):
            return
        parent, name = os.path.split(folder)
        hidden = f"{parent}/.{name}"
        try:
            writers.make_folders(root, parent, hidden)
        except FileNotFoundError:
            # Whoever ships has just removed the run's empty folder.
            writers.make_folders(root, parent, hidden)
        writers.write_meta(hidden, self.meta)
        if self._held is not None:
            os.close(self._held)
        self._held = writers.hold(hidden)
        os.rename(hidden, folder)

    def _add(self, key: tuple[object, ...], shape: Shape) -> int:
        self._shapes.append(shape)
        self._ids[key] = shape.id
        return shape.id

    def _define_phases(self, phases: Sequence[tuple[str, Clock]]) -> int:
        with self._lock:
            names = [name for name, _ in phases]
            if len(set(names)) != len(names) or not all(_sound(name) for name in names):
                return 0
            columns = [PhaseColumn(name, clock) for name, clock in phases]
            id = len(self._shapes)
            return self._add(("steps", *phases), Shape(id, 1 + len(columns), records.phases(id, columns), 1))

    def _row_again(self, keyset: int, step: int, time_us: int, values: Sequence[float]) -> bool:
        """The row with step and time clamped; whatever else is wrong with it drops it."""
        try:
            shape = self._shapes[keyset]
            if shape is not None and len(values) == shape.columns:
                head = (_ROW, keyset, records.clamp(int(step)), records.clamp(int(time_us)))
                return self._write(shape, (*head, *map(float, values)))
        except Exception:
            pass
        self.dropped += len(values)
        return False

    def _rounded_row(self, shape: Shape, fields: tuple[float, ...], rounded: Sequence[int]) -> bool:
        row = bytearray(shape.length + 1)
        shape.pack_into(row, 0, *fields)
        record = records.seal(records.ROUNDED_ROW, records.rounded_row(bytes(row[1:]), rounded))
        return self._append(record, shape.points, shape)

    def _emit(self, kind: str, payload: Payload) -> bool:
        content = records.payload(kind, bytes(part(kind, payload).payload))
        if len(content) > MAX_PAYLOAD_BYTES:
            self.dropped += 1
            return False
        kept = self._append(records.seal(records.PAYLOAD, content), 1)
        return kept or (isinstance(payload, Exit) and self._last_words(payload))

    def _last_words(self, exit: Exit) -> bool:
        """Keep an exit where there is no room for anything else, without its texts if need be, and what was dropped."""
        bare = msgspec.structs.replace(exit, traceback=None, tail=[])
        with self._lock:
            self._room = self._size
            for words in (exit, bare):
                content = records.payload("exit", bytes(part("exit", words).payload))
                if self._put(records.seal(records.PAYLOAD, content), len(content) + records.OVERHEAD):
                    self.dropped -= 1
                    break
            else:
                return False
            told = Status(at=time.time_ns() // 1000, dropped=self.dropped, gaps=self.gaps)
            content = records.payload("status", bytes(part("status", told).payload))
            self._put(records.seal(records.PAYLOAD, content), len(content) + records.OVERHEAD)
            self._room = self._at
        return True


def _of_this_process(meta: WriterMeta) -> WriterMeta:
    pid, boot = os.getpid(), writers.boot_id()
    source = msgspec.structs.replace(meta.source, pid=pid, boot=boot)
    return msgspec.structs.replace(meta, source=source, started=writers.started(pid))


def _sound(*names: str) -> bool:
    """Whether a frame may carry these names (a unit may be empty, a metric or phase not)."""
    try:
        return bool(names[0]) and all(len(name) <= MAX_NAME and name.encode() is not None for name in names)
    except UnicodeEncodeError:
        return False


def _forked() -> None:
    for journal in list(_journals):
        journal.forked()


os.register_at_fork(after_in_child=_forked)
