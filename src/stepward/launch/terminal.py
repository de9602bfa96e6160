"""Passes the ranks' output on to the wrapper's own stdout and stderr, byte for byte.

With several ranks each line gets the rank's prefix, and only whole lines (or whole redraws of a progress bar) are
written, so that ranks do not mix within one. A reader that has gone ends the passing, not the job.
"""

import os
import select
from collections.abc import Iterable

HELD_BYTES = 64 << 10
"""An unfinished line longer than this is written as it is."""


class Terminal:
    """Own stdout and stderr."""

    def __init__(self, *, prefixed: bool) -> None:
        self._prefixed = prefixed
        self._held: dict[tuple[str, int], bytes] = {}
        self._open = {"stdout": 1, "stderr": 2}

    def write(self, stream: str, rank: int, data: bytes) -> None:
        """Pass on output of a rank."""
        if not self._prefixed:
            self._put(stream, data)
            return
        data = self._held.pop((stream, rank), b"") + data
        end = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        if len(data) - end > HELD_BYTES:
            end = len(data)
        if data[end:]:
            self._held[stream, rank] = data[end:]
        if end:
            self._put(stream, prefixed(data[:end], rank))

    def drain(self) -> None:
        """Write the unfinished lines."""
        for (stream, rank), data in self._held.items():
            self._put(stream, prefixed(data, rank) + b"\n")
        self._held.clear()

    def _put(self, stream: str, data: bytes) -> None:
        descriptor = self._open.get(stream)
        view = memoryview(data)
        while descriptor is not None and view:
            try:
                view = view[os.write(descriptor, view) :]
            except BlockingIOError:
                select.select([], [descriptor], [], 1.0)
            except OSError:
                del self._open[stream]
                return


def prefixed(data: bytes, rank: int) -> bytes:
    """Each line of ``data`` with ``[rank N] `` before it."""
    mark = f"[rank {rank}] ".encode()
    return b"".join(mark + piece for piece in _pieces(data))


def _pieces(data: bytes) -> Iterable[bytes]:
    """Lines with their ends; ``\\r\\n`` is one end, a lone ``\\r`` too."""
    return data.splitlines(keepends=True)
