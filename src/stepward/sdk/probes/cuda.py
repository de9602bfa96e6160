"""Device time of phases by CUDA events of PyTorch, without a synchronisation in the loop.

An event is recorded on the current stream where a phase begins and where it ends; the step's row is written when the
device has passed the last of them, at the end of a later step or at the heartbeat. It measures the stream's time between
the two marks: work on other streams, and self time of nested phases, are not told apart.
"""

import sys
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from stepward.model.words import Clock
from stepward.sdk.steps import Columns

MAX_WAITING = 64
"""Steps whose marks the device has not passed; beyond, the oldest row is written without device time."""

Write = Callable[[Columns, list[float]], None]


class _Mark(NamedTuple):
    name: str
    begin: Any
    end: Any


class _Open(threading.local):
    def __init__(self) -> None:
        self.marks: list[_Mark] = []


class CudaClock:
    """The device clock of this process; ``torch`` is the loaded module."""

    def __init__(self, torch: Any) -> None:
        self._event = torch.cuda.Event
        self._open = _Open()
        self._waiting: deque[tuple[list[_Mark], Write]] = deque()
        self._lock = threading.Lock()

    def begin(self, name: str) -> _Mark | None:
        """A phase begins."""
        try:
            mark = _Mark(name, self._event(enable_timing=True), self._event(enable_timing=True))
            mark.begin.record()
        except Exception:  # a capture into a CUDA graph, a context that has failed
            return None
        return mark

    def end(self, mark: object) -> None:
        """It ends."""
        if isinstance(mark, _Mark):
            try:
                mark.end.record()
            except Exception:
                return
            self._open.marks.append(mark)

    def complete(self, write: Write) -> None:
        """The step ends."""
        marks, self._open.marks = self._open.marks, []
        self._waiting.append((marks, write))
        self.settle()

    def settle(self, *, last: bool = False) -> None:
        """Write the rows whose marks the device has passed, oldest first; all of them with ``last``."""
        if not self._lock.acquire(blocking=False):
            return
        try:
            while self._waiting:
                marks, write = self._waiting[0]
                passed = _passed(marks)
                if not passed and not last and len(self._waiting) <= MAX_WAITING:
                    return
                self._waiting.popleft()
                seconds = _seconds(marks) if passed else {}
                write(tuple((name, Clock.DEVICE) for name in seconds), list(seconds.values()))
        finally:
            self._lock.release()


def find() -> CudaClock | None:
    """A clock where this process has a CUDA context in PyTorch already; None elsewhere."""
    torch = sys.modules.get("torch")
    try:
        ready = torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized()
    except Exception:
        return None
    return CudaClock(torch) if ready else None


def _passed(marks: list[_Mark]) -> bool:
    try:
        return all(mark.end.query() for mark in marks)
    except Exception:
        return False


def _seconds(marks: list[_Mark]) -> dict[str, float]:
    seconds: dict[str, float] = {}
    for mark in marks:
        seconds[mark.name] = seconds.get(mark.name, 0.0) + mark.begin.elapsed_time(mark.end) / 1000.0
    return seconds
