"""Times steps, phases and waits for data: the context managers of the hot loop.

Each thread has its own open step and stack of phases. A nested phase counts for itself alone (self time). A wait for
data between two steps belongs to the step that follows, whose start moves back by it: a step is one turn of the loop.
Phases outside of any step become events. All times here are of the host's clock; a device's comes from ``probes``.
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from time import perf_counter, time_ns
from types import TracebackType
from typing import Any, Protocol

from stepward.model.words import Clock, Phase

SHORTEST_EVENT_S = 0.01
"""Phases outside of a step that are shorter than this are not kept: as events they would be hundreds a second."""

Columns = tuple[tuple[str, Clock], ...]


class Sink(Protocol):
    """What a timer needs of its run. Nothing of it raises."""

    def step_begins(self, number: int) -> None:
        """Progress."""

    def step_row(self, number: int, start_us: int, duration_s: float, columns: Columns, seconds: list[float]) -> None:
        """A step is complete."""

    def phase_is(self, name: str | None) -> None:
        """The innermost phase of this process, for the heartbeat."""

    def phase_event(self, name: str, start_us: int, end_us: int) -> None:
        """A phase outside of any step has ended."""


class DeviceClock(Protocol):
    """Measures phases where the device does the work (``probes``)."""

    def begin(self, name: str) -> object:
        """A phase begins on the device's stream."""

    def end(self, mark: object) -> None:
        """It ends; its time belongs to the open step."""

    def complete(self, write: Callable[[Columns, list[float]], None]) -> None:
        """The step ends: ``write`` is called with the device's columns when the device is through with them."""


class _Thread(threading.local):
    """What is open in this thread, and the seconds that it waited for data since its last step."""

    step: "Step | None" = None
    phase: "PhaseScope | None" = None
    waited: float = 0.0


class Timer:
    """Times one run.

    Attributes:
        device: clock of the accelerator; None where no probe can.
    """

    def __init__(self, sink: Sink) -> None:
        self.sink = sink
        self.device: DeviceClock | None = None
        self.open = _Thread()
        self._columns: dict[tuple[str, ...], Columns] = {}

    def columns(self, names: tuple[str, ...]) -> Columns:
        """The names as columns measured by the host's clock, remembered."""
        found = self._columns.get(names)
        if found is None:
            found = self._columns[names] = tuple((name, Clock.HOST) for name in names)
        return found

    def passed(self, name: str, seconds: float) -> None:
        """A stretch that somebody else has timed just ended: part of the open phase and step, else an event.

        A wait for data between two steps is kept for the step that follows.
        """
        thread = self.open
        step, phase = thread.step, thread.phase
        if phase is not None:
            phase.nested += seconds
        if step is not None:
            step.add(name, seconds)
        elif name == Phase.DATA_WAIT.value and phase is None:
            thread.waited += seconds
        elif seconds >= SHORTEST_EVENT_S:
            now = time_ns() // 1000
            self.sink.phase_event(name, now - int(seconds * 1e6), now)


class Step:
    """``with run.step(i):`` — complete when the block ends without an exception."""

    __slots__ = ("_outer", "_seconds", "_start", "_start_us", "_timer", "number")

    def __init__(self, timer: Timer, number: int) -> None:
        self._timer = timer
        self.number = number
        self._seconds: dict[str, float] = {}

    def add(self, name: str, seconds: float) -> None:
        """Add to the seconds of a phase of this step."""
        self._seconds[name] = self._seconds.get(name, 0.0) + seconds

    def __enter__(self) -> "Step":
        timer = self._timer
        thread = timer.open
        self._outer, thread.step = thread.step, self
        timer.sink.step_begins(self.number)
        waited = thread.waited
        if waited:
            thread.waited = 0.0
            self._seconds[Phase.DATA_WAIT.value] = waited
        self._start_us = (time_ns() - int(waited * 1e9)) // 1000
        self._start = perf_counter() - waited
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        end = perf_counter()
        timer = self._timer
        timer.open.step = self._outer
        if kind is not None:
            return
        seconds, duration = self._seconds, end - self._start
        columns, values = timer.columns(tuple(seconds)), list(seconds.values())
        device = timer.device
        if device is None:
            timer.sink.step_row(self.number, self._start_us, duration, columns, values)
        else:
            number, start, row = self.number, self._start_us, timer.sink.step_row
            device.complete(lambda more, measured: row(number, start, duration, columns + more, values + measured))


class PhaseScope:
    """``with run.phase(name):`` — inside a step, part of its row; outside, an event."""

    __slots__ = ("_mark", "_outer", "_start", "_step", "_timer", "name", "nested")

    def __init__(self, timer: Timer, name: str) -> None:
        self._timer = timer
        self.name = name
        self.nested = 0.0
        """Seconds of phases inside of this one."""

    def __enter__(self) -> "PhaseScope":
        timer = self._timer
        thread = timer.open
        self._outer, thread.phase = thread.phase, self
        self._step = thread.step
        timer.sink.phase_is(self.name)
        device = timer.device
        self._mark = device.begin(self.name) if device is not None and self._step is not None else None
        self._start = perf_counter()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        seconds = perf_counter() - self._start
        timer, outer, step = self._timer, self._outer, self._step
        timer.open.phase = outer
        timer.sink.phase_is(outer.name if outer is not None else None)
        if self._mark is not None and timer.device is not None:
            timer.device.end(self._mark)
        if outer is not None:
            outer.nested += seconds
        if step is not None:
            step.add(self.name, max(seconds - self.nested, 0.0))
        elif seconds >= SHORTEST_EVENT_S:
            end = time_ns() // 1000
            timer.sink.phase_event(self.name, end - int(seconds * 1e6), end)


class Waited:
    """``run.data(loader)``: the loader, with each wait for its next item timed as ``data_wait``."""

    def __init__(self, timer: Timer, source: Iterable[Any]) -> None:
        self._timer = timer
        self._source = source
        self._iterator: Iterator[Any] | None = None

    def __iter__(self) -> Iterator[Any]:
        begin = perf_counter()
        iterator = iter(self._source)
        self._timer.passed(Phase.DATA_WAIT.value, perf_counter() - begin)
        return _Waits(self._timer, iterator)

    def __next__(self) -> Any:
        if self._iterator is None:
            self._iterator = iter(self)
        return next(self._iterator)

    def __len__(self) -> int:
        return len(self._source)  # type: ignore[arg-type]

    def __length_hint__(self) -> int:
        # Imported on use: most loaders are never asked.
        from operator import length_hint

        return length_hint(self._source)

    def __getattr__(self, name: str) -> Any:
        if name == "_source":  # a copy that is not filled yet
            raise AttributeError(name)
        return getattr(self._source, name)


class _Waits:
    """An iterator whose every ``next`` is timed."""

    __slots__ = ("_source", "_timer")

    def __init__(self, timer: Timer, source: Iterator[Any]) -> None:
        self._timer = timer
        self._source = source

    def __iter__(self) -> "_Waits":
        return self

    def __next__(self) -> Any:
        timer = self._timer
        timer.sink.phase_is(Phase.DATA_WAIT.value)
        begin = perf_counter()
        try:
            item = next(self._source)
        finally:
            phase = timer.open.phase
            timer.sink.phase_is(phase.name if phase is not None else None)
        timer.passed(Phase.DATA_WAIT.value, perf_counter() - begin)
        return item
