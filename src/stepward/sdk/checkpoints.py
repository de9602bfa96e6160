"""``run.checkpoint``: how long a save holds the loop up, and when it is durable."""

import time
from collections.abc import Callable
from types import TracebackType

from stepward.model.words import Phase
from stepward.sdk.steps import PhaseScope, Timer

Mark = Callable[..., None]


class Checkpoint:
    """``with run.checkpoint(step, path):`` — complete when the block ends without an exception."""

    __slots__ = ("_durable", "_mark", "_path", "_phase", "_start", "step")

    def __init__(self, timer: Timer, mark: Mark, step: int, path: str | None, durable: bool) -> None:
        self._phase = PhaseScope(timer, Phase.CHECKPOINT_SAVE.value)
        self._mark, self._path, self._durable = mark, path, durable
        self.step = step

    def __enter__(self) -> "Checkpoint":
        self._start = time.time_ns() // 1000
        self._phase.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._phase.__exit__(kind, error, trace)
        if kind is None:
            self._mark(self.step, self._path, self._start, time.time_ns() // 1000, self._durable)
