"""The last lines of a rank's output, for the record of its end."""

from collections import deque

LINES = 50
LINE_BYTES = 4096


class Tail:
    """Keeps the last lines of several streams in the order in which they were completed."""

    def __init__(self) -> None:
        self._lines: deque[bytes] = deque(maxlen=LINES)
        self._open: dict[str, bytes] = {}

    def feed(self, stream: str, data: bytes) -> None:
        """Add output; only what the last lines need is looked at."""
        *complete, rest = (self._open.get(stream, b"") + data).rsplit(b"\n", LINES + 1)
        self._lines.extend(complete[-LINES:])
        self._open[stream] = rest[-LINE_BYTES:]

    def lines(self) -> list[str]:
        """The lines, oldest first, an unfinished one last. A progress bar counts as it stood last."""
        found = [*self._lines, *(line for line in self._open.values() if line)][-LINES:]
        return [_shown(line) for line in found]


def _shown(line: bytes) -> str:
    last = line.rstrip(b"\r").rpartition(b"\r")[2]
    return last[-LINE_BYTES:].decode("utf-8", "replace")
