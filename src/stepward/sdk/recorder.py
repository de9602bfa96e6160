"""The hot path of ``run.log``: from a dict of values to a row of the journal, in a few microseconds.

A dict of plain floats with keys seen before costs two look-ups and one row. So does one with a few device values: a
``_Layout`` remembers which they are. Everything else takes the slow path: nested dicts are flattened with ``/``, vectors
become one series a device index. Device values wait in ``pending`` until they are on the host. Nothing raises and nothing
waits for a device; what is refused is counted and said once a key.
"""

import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import compress
from typing import Any, NamedTuple

from stepward.model.frames import MAX_NAME
from stepward.model.words import Clock
from stepward.sdk.values import EXACT, Copy, Refused, Taken, as_float, take
from stepward.spool.journal import Journal
from stepward.spool.roots import warn

_LOWEST, _HIGHEST = -(1 << 63), (1 << 63) - 1
MAX_SERIES = 100_000
"""Series of one process. Who logs more makes names of numbers; every later name is refused."""
MAX_PENDING = 16_384
"""Device values that may wait: a device that answers none of so many has hung."""
_MAX_DEPTH = 16
_MAX_COLUMNS = 1024
"""Series of one row: keeps definition and row well inside a frame."""
_MAX_KEYSETS = 4096
"""Sets of keys that are remembered; with more (random subsets of keys), each value becomes a row of its own."""
_POLL_S = 0.02
_IDLE_S = 1.0
_FLOATS: set[type] = {float}
_SCALARS: set[type] = {float, int, bool}
"""Types that become float64 by ``float()`` alone; numpy's are added when one comes."""

_Series = tuple[str, str, int | None]
_recorders: "weakref.WeakSet[Recorder]" = weakref.WeakSet()


class _Waiting(NamedTuple):
    """Device values of one ``log`` call."""

    step: int
    time_us: int
    copies: list[tuple[str, Copy]]


class _Layout:
    """What the values under some keys have been.

    Attributes:
        others: index and name of each value that was no plain scalar of the host at least once.
        plain: for each value, whether it is none of those.
        whole: keyset of all values, for when each is a scalar on the host by now; 0 = not known.
        part: keyset of the plain ones; 0 = not known.
    """

    __slots__ = ("others", "part", "plain", "whole")

    def __init__(self, others: list[tuple[int, str]], width: int) -> None:
        self.others = others
        indexes = {index for index, _ in others}
        self.plain = [index not in indexes for index in range(width)]
        self.whole = self.part = 0


class Recorder:
    """Writes metrics and steps of one process to its journal; thread-safe; never raises.

    Attributes:
        journal: where rows go.
        refused: values that were no numbers, or beyond a limit.
    """

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.refused = 0
        self._layouts: dict[tuple[object, ...], _Layout] = {}
        self._series: dict[tuple[_Series, ...], int] = {}
        self._names: set[_Series] = set()
        self._said: set[str] = set()
        self._begin()
        _recorders.add(self)

    @property
    def pending(self) -> int:
        """Device values that were taken and are not journaled yet."""
        return sum(len(waiting.copies) for waiting in list(self._waiting)) + self._reading

    def log(self, values: Mapping[str, object], step: int, time_us: int) -> None:
        """Keep the values of one step: host values before this returns, device values when they are there.

        Args:
            values: metric -> scalar, vector or nested dict.
            step: any order; values of a step beyond int64 are refused.
            time_us: µs since the epoch.
        """
        try:
            if not _LOWEST <= step <= _HIGHEST:
                self._refuse_step(values, step)
                return
            layout = self._layouts.get(tuple(values))
            if layout is not None:
                numbers: tuple[Any, ...] = tuple(values.values())
                if layout.whole and _FLOATS.issuperset(map(type, numbers)):
                    self.journal.row(layout.whole, step, time_us, numbers)
                    return
                if self._log_known(layout, numbers, step, time_us):
                    return
            self._log_any(values, step, time_us)
        except Exception as error:
            self._refuse("log", f"failed ({type(error).__name__}: {error})")

    def step(
        self,
        step: int,
        start_us: int,
        duration_s: float,
        phases: Mapping[str, float],
        clocks: Mapping[str, Clock] | None = None,
    ) -> None:
        """Keep one row of the steps table: seconds a phase; a phase without a clock was measured by the host's."""
        try:
            if not _LOWEST <= step <= _HIGHEST:
                self._refuse_step(["step"], step)
                return
            columns = [(name, clocks.get(name, Clock.HOST) if clocks else Clock.HOST) for name in phases]
            self.journal.step_row(step, start_us, duration_s, columns, list(phases.values()))
        except Exception as error:
            self._refuse("step", f"failed ({type(error).__name__}: {error})")

    def drain(self, timeout_s: float) -> bool:
        """Journal the device values that have arrived, waiting up to ``timeout_s`` for the rest; whether none is left."""
        end = time.monotonic() + timeout_s
        while True:
            self._settle()
            if not self._waiting and not self._reading:
                return True
            left = end - time.monotonic()
            if left <= 0:
                return False
            time.sleep(min(left, _POLL_S / 4))

    def _begin(self) -> None:
        self._waiting: deque[_Waiting] = deque()
        self._reading = 0
        self._settling = threading.RLock()
        self._starting = threading.RLock()
        self._thread: threading.Thread | None = None

    def forked(self) -> None:
        """In a forked child: what waits belongs to the parent, which has the devices and the thread."""
        self._begin()

    def _log_known(self, layout: _Layout, values: Sequence[Any], step: int, time_us: int) -> bool:
        """Keep values under keys seen before; False, with nothing kept, where they are not what such values were."""
        try:
            taken = [take(values[index]) for index, _ in layout.others]
        except Refused:
            return False
        if layout.whole and _SCALARS.issuperset(map(type, taken)):
            keyset, rest, numbers = layout.whole, [], list(values)
            for (index, _), number in zip(layout.others, taken, strict=True):
                numbers[index] = number
        else:
            keyset, numbers = layout.part, list(compress(values, layout.plain))
            rest = [(name, one) for (_, name), one in zip(layout.others, taken, strict=True)]
        doubles = _doubles(numbers)
        if doubles is None or not (keyset or (rest and not numbers)):
            return False
        if numbers:
            self.journal.row(keyset, step, time_us, doubles)
        if rest:
            self._keep(rest, step, time_us)
        return True

    def _log_any(self, values: Mapping[str, object], step: int, time_us: int) -> None:
        taken: list[tuple[str, Taken]] = []
        others: list[tuple[int, str]] = []
        flat = True
        for name, value in self._flat(values, "", 0):
            flat = flat and name in values
            if not _is_scalar(type(value)):
                others.append((len(taken), name))
            try:
                taken.append((name, take(value)))
            except Refused as refused:
                flat = False
                self._refuse(name, str(refused))
        self._keep(taken, step, time_us)
        if flat and len(taken) == len(values):
            self._learn(tuple(values), [name for name, _ in taken], others)

    def _keep(self, taken: Iterable[tuple[str, Taken]], step: int, time_us: int) -> None:
        """Write what is on the host as one row, and let the rest wait."""
        row: dict[_Series, float] = {}
        copies: list[tuple[str, Copy]] = []
        for name, one in taken:
            if isinstance(one, (int, float)):
                row[name, "", None] = one
            elif isinstance(one, list):
                row.update({(name, "", device): number for device, number in enumerate(one)})
            else:
                copies.append((name, one))
        if row:
            self._write(row, step, time_us)
        if copies:
            self._wait_for(_Waiting(step, time_us, copies))

    def _learn(self, keys: tuple[object, ...], names: list[str], others: list[tuple[int, str]]) -> None:
        """Remember what the values under ``keys`` were; who was once of a device may be so again."""
        layout = self._layouts.get(keys)
        if layout is None and len(self._layouts) >= _MAX_KEYSETS:
            return
        if layout is None or not set(others) <= set(layout.others):
            known = layout.others if layout is not None else []
            layout = self._layouts[keys] = _Layout(sorted({*others, *known}), len(names))
        layout.whole = layout.whole or self._keyset_of(names)
        layout.part = layout.part or self._keyset_of(list(compress(names, layout.plain)))

    def _keyset_of(self, names: list[str]) -> int:
        """Keyset of scalars that were all written before; 0 where there is none, or it would be too wide."""
        series = tuple((name, "", None) for name in names)
        sound = 0 < len(series) <= _MAX_COLUMNS and self._names.issuperset(series) and self._knows(series)
        return self._keyset(series) if sound else 0

    def _flat(self, values: Mapping[str, object], prefix: str, depth: int) -> Iterator[tuple[str, object]]:
        for key, value in values.items():
            name = f"{prefix}{key}"
            if isinstance(value, Mapping):
                if depth < _MAX_DEPTH:
                    yield from self._flat(value, f"{name}/", depth + 1)
                else:
                    self._refuse(name, f"a dict inside more than {_MAX_DEPTH} others")
            elif 0 < len(name) <= MAX_NAME:
                yield name if name.isascii() else name.encode(errors="replace").decode(), value
            else:
                self._refuse(name[:80], f"a name of {len(name)} characters; 1 to {MAX_NAME} are allowed")

    def _write(self, row: Mapping[_Series, float], step: int, time_us: int) -> None:
        """Write the row, cut where it is too wide."""
        series: list[_Series] = []
        numbers: list[float] = []
        rounded: list[int] = []
        for one, number in row.items():
            try:
                as_double, inexact = as_float(number)
            except Refused as refused:
                self._refuse(one[0], str(refused))
                continue
            if one not in self._names and not self._admit(one):
                continue
            if inexact:
                rounded.append(len(series))
            series.append(one)
            numbers.append(as_double)
        width = min(_MAX_COLUMNS, len(series)) if self._knows(tuple(series)) else 1
        for start in range(0, len(series), width or 1):
            end = start + width
            marks = [index - start for index in rounded if start <= index < end]
            self.journal.row(self._keyset(tuple(series[start:end])), step, time_us, numbers[start:end], marks)

    def _admit(self, one: _Series) -> bool:
        if len(self._names) >= MAX_SERIES:
            self._refuse(one[0], f"not kept: this process has logged {MAX_SERIES} series already")
            return False
        self._names.add(one)
        return True

    def _knows(self, series: tuple[_Series, ...]) -> bool:
        return len(self._series) < _MAX_KEYSETS or series in self._series

    def _keyset(self, series: tuple[_Series, ...]) -> int:
        keyset = self._series.get(series)
        if keyset is None:
            keyset = self._series[series] = self.journal.define(series)
        return keyset

    def _refuse_step(self, names: Iterable[str], step: int) -> None:
        for name in names:
            self._refuse(name, f"step {step} is beyond 64 bits")

    def _refuse(self, name: str, why: str) -> None:
        self.refused += 1
        if name not in self._said and len(self._said) < 1000:
            self._said.add(name)
            warn(f"{name!r} is not recorded: {why} (said once)")

    def _wait_for(self, waiting: _Waiting) -> None:
        if len(self._waiting) >= MAX_PENDING:
            self._refuse(waiting.copies[0][0], f"{MAX_PENDING} device values wait already, the device does not answer")
            return
        with self._starting:
            self._waiting.append(waiting)
            if self._thread is None:
                self._thread = threading.Thread(target=self._read, name="stepward-values", daemon=True)
                self._thread.start()

    def _read(self) -> None:
        """The background thread: lives while device values come, and a second longer."""
        idle_since = time.monotonic()
        while True:
            time.sleep(_POLL_S)
            self._settle()
            if self._waiting:
                idle_since = time.monotonic()
            with self._starting:
                if not self._waiting and time.monotonic() - idle_since > _IDLE_S:
                    self._thread = None
                    return

    def _settle(self) -> None:
        """Journal what has arrived, oldest first; ``log`` never waits for this."""
        with self._settling:
            while self._waiting and all(_ready(copy) for _, copy in self._waiting[0].copies):
                self._reading = len(self._waiting[0].copies)
                self._settle_one(self._waiting.popleft())
                self._reading = 0

    def _settle_one(self, waiting: _Waiting) -> None:
        row: dict[_Series, float] = {}
        for name, copy in waiting.copies:
            try:
                numbers = copy.read()
            except Exception as error:
                self._refuse(name, str(error))
                continue
            if isinstance(numbers, list):
                row.update({(name, "", device): number for device, number in enumerate(numbers)})
            else:
                row[name, "", None] = numbers
        self._write(row, waiting.step, waiting.time_us)


def _ready(copy: Copy) -> bool:
    """Whether to read; a copy that fails is read at once, to say why."""
    try:
        return copy.ready()
    except Exception:
        return True


def _doubles(numbers: Sequence[Any]) -> Sequence[float] | None:
    """All values where they are plain scalars that float64 holds exactly; None sends them down the slow path."""
    if _FLOATS.issuperset(map(type, numbers)):
        return numbers
    if not _SCALARS.issuperset(map(type, numbers)):
        return None
    try:
        doubles = tuple(map(float, numbers))
    except OverflowError:
        return None
    # Below 2^53 every integer is exact; NaN compares false and goes the long way, which keeps it.
    return doubles if max(map(abs, doubles)) < EXACT else None


def _is_scalar(kind: type) -> bool:
    """Whether ``float()`` makes a float64 of this type; remembers numpy's scalars."""
    if kind.__module__ == "numpy" and kind.__name__.startswith(("float", "int", "uint", "bool")):
        _SCALARS.add(kind)
        if kind.__name__ in ("float64", "float32", "float16"):
            _FLOATS.add(kind)
    return kind in _SCALARS


def _forked() -> None:
    for recorder in list(_recorders):
        recorder.forked()


os.register_at_fork(after_in_child=_forked)
