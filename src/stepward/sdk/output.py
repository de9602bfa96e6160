"""``capture_output=True``: what Python prints is kept as log streams, beside going where it always went.

It stands before ``sys.stdout`` and ``sys.stderr``: output of C libraries and of child processes passes by it, for those
use ``stepward run``. The text goes to the original first; keeping it never fails a ``print``.
"""

import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from stepward.model.frames import LogChunk, Logs

FULL_BYTES = 64 << 10
"""Text that waits for the next tick; more is written at once."""
TAIL_LINES = 20

Emit = Callable[[str, Logs], bool]


class Output:
    """The captured streams of one run."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        # A process without a terminal may have no stream at all; print() then does nothing, and so it stays.
        found = [(name, getattr(sys, name)) for name in ("stdout", "stderr")]
        self._streams = [Captured(name, stream, self) for name, stream in found if stream is not None]
        self._lines: deque[str] = deque(maxlen=TAIL_LINES)
        for stream in self._streams:
            setattr(sys, stream.stream, stream)

    def restore(self) -> None:
        """Put the originals back where nobody else has replaced ours, and keep what is left."""
        for stream in self._streams:
            if getattr(sys, stream.stream) is stream:
                setattr(sys, stream.stream, stream.original)
        self.flush()

    def flush(self) -> None:
        """Write what has come since the last time."""
        for stream in self._streams:
            chunk = stream.take()
            if chunk is not None:
                self._lines.extend(chunk.data.decode("utf-8", "replace").splitlines()[-TAIL_LINES:])
                self._emit("logs", Logs([chunk]))

    def tail(self) -> list[str]:
        """The last lines."""
        return list(self._lines)


class Captured:
    """A text stream that passes everything on to the original and keeps a copy."""

    def __init__(self, stream: str, original: Any, output: Output) -> None:
        self.stream = stream
        self.original = original
        self._output = output
        self._lock = threading.RLock()
        self._data = bytearray()
        self._marks: list[tuple[int, int]] = []
        self._offset = 0

    def write(self, text: str) -> Any:
        """As of the original."""
        written = self.original.write(text)
        try:
            full = self._keep(text.encode("utf-8", "replace"))
            if full:
                self._output.flush()
        except Exception:
            return written
        return written

    def writelines(self, lines: Any) -> None:
        """As of the original."""
        for line in lines:
            self.write(line)

    def take(self) -> LogChunk | None:
        """What has come, as a chunk; None for nothing."""
        with self._lock:
            if not self._data:
                return None
            chunk = LogChunk(self.stream, self._offset, bytes(self._data), self._marks)
            self._offset += len(self._data)
            self._data, self._marks = bytearray(), []
        return chunk

    def _keep(self, data: bytes) -> bool:
        with self._lock:
            if data:
                self._marks.append((len(self._data), time.time_ns() // 1000))
                self._data += data
            return len(self._data) >= FULL_BYTES

    def __getattr__(self, name: str) -> Any:
        return getattr(self.original, name)

    def __iter__(self) -> Any:
        return iter(self.original)
