"""Captured output: a pipe or pseudo-terminal a stream, and what was read from it on its way into the record.

Bytes are kept as they came, with the time of each read. A pseudo-terminal is used only where the wrapper's own stream
is a terminal, set to pass bytes unchanged. What the record refuses (spool full) is counted in the next chunk's ``lost``.
"""

import contextlib
import fcntl
import mmap
import os
import struct
import sys
import termios
from collections.abc import Callable

from stepward.model.frames import LogChunk

CHUNK_BYTES = 256 << 10
"""Largest chunk of a record: a quarter of what a logs payload may hold."""
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
    """Puts one stream's bytes into the record as they are read.

    Args:
        keep: takes a chunk; False when it was not kept.

    Attributes:
        offset: position in the stream of the next byte.
        lost: bytes before ``offset`` that were not kept and that no chunk has told yet.
    """

    def __init__(self, stream: str, rank: int | None, keep: Keep, *, offset: int = 0, lost: int = 0) -> None:
        self._stream, self._rank, self._keep = stream, rank, keep
        self.offset, self.lost = offset, lost

    def feed(self, data: bytes, at_us: int) -> None:
        """Keep what was read at ``at_us``, at most a chunk of it."""
        self.feed_marked(data, [(0, at_us)])

    def feed_marked(self, data: bytes, marks: list[tuple[int, int]]) -> None:
        """Keep bytes whose parts have times of their own: (position in ``data``, µs since the epoch)."""
        chunk = LogChunk(self._stream, self.offset, data, marks, self._rank, self.lost)
        self.lost = 0 if self._keep(chunk) else self.lost + len(data)
        self.offset += len(data)


_POSITION = struct.Struct("<QQ")


class Positions:
    """Where each stream stands, in memory that the heir shares: offset and loss, one row a channel.

    Args:
        descriptor: of a memory file of ``BYTES``.
    """

    BYTES = 64 << 10

    def __init__(self, descriptor: int) -> None:
        self._map = mmap.mmap(descriptor, self.BYTES)

    def write(self, row: int, log: StreamLog) -> None:
        """Note where a stream stands."""
        if (row + 1) * _POSITION.size <= self.BYTES:
            _POSITION.pack_into(self._map, row * _POSITION.size, log.offset, log.lost)

    def read(self, row: int) -> tuple[int, int]:
        """Offset and loss."""
        offset, lost = _POSITION.unpack_from(self._map, row * _POSITION.size)
        return offset, lost
