"""Captured output: a pipe or pseudo-terminal a stream, and what was read from it on its way into the record.

Bytes are kept as they came, with the time of each read. A pseudo-terminal is used only where the wrapper's own stream
is a terminal, set to pass bytes unchanged. What the record refuses (spool full) is counted in the next chunk's ``lost``.
"""

import contextlib
import fcntl
import os
import struct
import sys
import termios
import time
from collections.abc import Callable

from stepward.model.frames import LogChunk

CHUNK_BYTES = 256 << 10
"""Largest chunk of a record: a quarter of what a logs payload may hold."""
FLUSH_S = 0.1
"""Small writes are gathered this long, so that a chatty program costs ten records a second, not one a line."""
PIPE_BYTES = 1 << 20
"""Room for a child to write on while the wrapper is busy; the largest that Linux gives to any user."""

STREAMS = ("stdout", "stderr")
Keep = Callable[[LogChunk], bool]


class Channel:
    """One stream of one process, from its end in the child to ours.

    Attributes:
        child: descriptor for the child; closed here once the child has it.
        ours: descriptor to read from; does not block.
    """

    def __init__(self, stream: str) -> None:
        self.stream = stream
        self.terminal = os.isatty(STREAMS.index(stream) + 1)
        self.ours, self.child = _open_pty(STREAMS.index(stream) + 1) if self.terminal else os.pipe()
        os.set_blocking(self.ours, False)
        if not self.terminal and sys.platform == "linux":
            with contextlib.suppress(OSError):
                fcntl.fcntl(self.ours, fcntl.F_SETPIPE_SZ, PIPE_BYTES)

    def read(self) -> bytes | None:
        """What is there, at most a chunk; b"" for the end of the stream; None for nothing now."""
        return read_now(self.ours)

    def resize(self) -> None:
        """Give the child's terminal the size of ours."""
        if self.terminal:
            copy_size(STREAMS.index(self.stream) + 1, self.ours)

    def started(self) -> None:
        """The child has its end."""
        os.close(self.child)

    def close(self) -> None:
        """Read no more."""
        os.close(self.ours)


def read_now(descriptor: int) -> bytes | None:
    """What a pipe or pseudo-terminal holds, at most a chunk; b"" at its end; None for nothing now."""
    try:
        return os.read(descriptor, CHUNK_BYTES)
    except BlockingIOError:
        return None
    except OSError:
        # EIO is how a pseudo-terminal says that nobody has its other end open.
        return b""


def _open_pty(like: int) -> tuple[int, int]:
    ours, child = os.openpty()
    settings = termios.tcgetattr(child)
    settings[1] &= ~termios.OPOST
    termios.tcsetattr(child, termios.TCSANOW, settings)
    copy_size(like, ours)
    return ours, child


def copy_size(source: int, target: int) -> None:
    """Set the window size of one terminal to that of another."""
    with contextlib.suppress(OSError):
        size = fcntl.ioctl(source, termios.TIOCGWINSZ, bytes(8))
        fcntl.ioctl(target, termios.TIOCSWINSZ, size)


class StreamLog:
    """Gathers one stream's bytes into chunks.

    Args:
        keep: takes a chunk; False when it was not kept.
        offset: position in the stream of the next byte.
        lost: bytes before ``offset`` that were not kept.
    """

    def __init__(self, stream: str, rank: int | None, keep: Keep, *, offset: int = 0, lost: int = 0) -> None:
        self._stream, self._rank, self._keep = stream, rank, keep
        self._offset, self._lost = offset, lost
        self._data = bytearray()
        self._marks: list[tuple[int, int]] = []
        self._due = 0.0

    @property
    def kept(self) -> int:
        """Position up to which the stream was kept or counted as lost."""
        return self._offset

    @property
    def read(self) -> int:
        """Position up to which the stream was read."""
        return self._offset + len(self._data)

    @property
    def lost(self) -> int:
        """Bytes lost before ``kept`` that no chunk has told yet."""
        return self._lost

    def feed(self, data: bytes, at_us: int) -> None:
        """Add what was read at ``at_us``; a full chunk is kept at once."""
        if not self._data:
            self._due = max(self._due, time.monotonic())
        while data:
            if len(self._data) >= CHUNK_BYTES:
                self.flush()
            room = CHUNK_BYTES - len(self._data)
            self._marks.append((len(self._data), at_us))
            self._data += data[:room]
            data = data[room:]

    def due_in(self, now: float) -> float | None:
        """Seconds until the gathered bytes are to be flushed; None when there are none."""
        return max(0.0, self._due - now) if self._data else None

    def flush(self) -> None:
        """Keep what was gathered."""
        if not self._data:
            return
        chunk = LogChunk(self._stream, self._offset, bytes(self._data), self._marks, self._rank, self._lost)
        size, kept = len(self._data), self._keep(chunk)
        self._lost = 0 if kept else self._lost + size
        self._offset += size
        self._data.clear()
        self._marks = []
        self._due = time.monotonic() + FLUSH_S


_POSITIONS = struct.Struct("<QQQ")


class Positions:
    """Where each stream stands, in memory that the heir shares: kept, read and lost, one row a channel.

    Args:
        descriptor: of a memory file of ``BYTES``.
    """

    BYTES = 64 << 10
    ROWS = BYTES // _POSITIONS.size

    def __init__(self, descriptor: int) -> None:
        # Imported on use: only a wrapper maps memory here.
        import mmap

        self._map = mmap.mmap(descriptor, self.BYTES)

    def write(self, row: int, log: StreamLog) -> None:
        """Note where a stream stands."""
        if row < self.ROWS:
            _POSITIONS.pack_into(self._map, row * _POSITIONS.size, log.kept, log.read, log.lost)

    def read(self, row: int) -> tuple[int, int, int]:
        """Kept, read and lost."""
        kept, read, lost = _POSITIONS.unpack_from(self._map, row * _POSITIONS.size)
        return kept, read, lost
