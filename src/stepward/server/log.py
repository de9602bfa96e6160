"""The server's log on stderr, written by a thread of its own: a pipe that nobody reads, or a journal that hangs, must not
hold up the event loop, and least of all the end of the server.
"""

import contextlib
import logging
import os
import queue
import sys
import threading
from typing import Any, TextIO

WAITING = 10_000
"""Lines that wait for a reader; what comes beyond is lost, and counted in the next line that is taken."""
CLOSE_S = 0.5
"""How long the end waits for what is not written yet."""


class Log(logging.Handler):
    """Writes records to a file descriptor, and never blocks who logs."""

    def __init__(self, descriptor: int, waiting: int = WAITING) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._lines: queue.Queue[bytes | None] = queue.Queue(waiting)
        self._lost = 0
        self._writer = threading.Thread(target=self._write, name="log", daemon=True)
        self._writer.start()

    def emit(self, record: logging.LogRecord) -> None:
        """Queue a line."""
        lost = f"({self._lost} lines before this one were lost: nobody read them)\n" if self._lost else ""
        try:
            self._lines.put_nowait(f"{lost}{self.format(record)}\n".encode(errors="replace"))
            self._lost = 0
        except queue.Full:
            self._lost += 1

    def close(self) -> None:
        """Write what waits, within ``CLOSE_S``."""
        with contextlib.suppress(queue.Full):
            self._lines.put_nowait(None)
            self._writer.join(CLOSE_S)
        super().close()

    def _write(self) -> None:
        while (line := self._lines.get()) is not None:
            # Not through sys.stderr: its lock, held by a write that hangs, would keep the interpreter from ending.
            with contextlib.suppress(OSError):
                while line:
                    line = line[os.write(self._descriptor, line) :]


class OneLine(logging.Formatter):
    """A line a message: what others wrote (a name, a command's last words) begins none of its own and steers no terminal."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        """The line, whatever cannot be seen written as an escape."""
        return _visible(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:
        """A traceback, each of its lines so."""
        return "\n".join(map(_visible, super().formatException(ei).split("\n")))


def _visible(text: str) -> str:
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in text)


def _descriptor(stderr: TextIO | None) -> int:
    """Its number. Closed before we began (None), it may be another file's; what replaced it may have none."""
    if stderr is not None:
        with contextlib.suppress(OSError):
            return stderr.fileno()
    return os.open(os.devnull, os.O_WRONLY)


def log_to_stderr() -> Log:
    """Warnings of everything, and the audit."""
    log = Log(_descriptor(sys.stderr))
    log.setFormatter(OneLine("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[log])
    logging.getLogger("stepward.audit").setLevel(logging.INFO)
    return log
