"""One thread that moves output: from the ranks' pipes to the terminal, the last lines and the record.

It reads as fast as it can, so that a child waits for nobody but the terminal. Positions are noted where the heir sees
them, after each read and each flush.
"""

import os
import selectors
import threading
import time
from collections.abc import Callable

from stepward.launch.notes import guarded
from stepward.launch.output import Channel, Positions, StreamLog
from stepward.launch.record import now_us
from stepward.launch.tail import Tail
from stepward.launch.terminal import Terminal

DRAIN_S = 2.0
"""Longest time for what an ended process has left in its pipes."""


class Line:
    """A channel with all that its bytes go to; ``row`` is its row of the shared positions."""

    def __init__(self, channel: Channel, log: StreamLog, tail: Tail, number: int, row: int) -> None:
        self.channel, self.log, self.tail, self.number, self.row = channel, log, tail, number, row


class Pump:
    """Moves the output of one attempt."""

    def __init__(self, lines: list[Line], terminal: Terminal, positions: Positions | None) -> None:
        self._lines, self._terminal, self._positions = lines, terminal, positions
        self._selector = selectors.DefaultSelector()
        self._wake, self._woken = os.pipe()
        self._selector.register(self._wake, selectors.EVENT_READ)
        for line in lines:
            self._selector.register(line.channel.ours, selectors.EVENT_READ, line)
        self._thread = threading.Thread(target=self._run, name="stepward-output", daemon=True)
        self._ending = False
        self._settled = threading.Event()

    def start(self) -> None:
        """Begin to move."""
        self._thread.start()

    def settle(self, timeout_s: float) -> None:
        """Wait until what was written before this call has been read, so that the last lines are known."""
        self._settled.clear()
        os.write(self._woken, b"\0")
        self._settled.wait(timeout_s)

    def finish(self) -> None:
        """Move what is still there, flush it, and close the channels."""
        self._ending = True
        os.write(self._woken, b"\0")
        self._thread.join()
        self._selector.close()
        for descriptor in (self._wake, self._woken):
            os.close(descriptor)
        for line in self._lines:
            line.channel.close()

    def _run(self) -> None:
        while not self._ending:
            guarded("moving output", lambda: self._turn(self._timeout()), False)
        guarded("moving output", self._drain, None)
        self._flush(lambda line: True)
        self._terminal.drain()

    def _timeout(self) -> float | None:
        now = time.monotonic()
        return min((due for line in self._lines if (due := line.log.due_in(now)) is not None), default=None)

    def _turn(self, timeout: float | None) -> bool:
        """Move what can be read now; False when that was nothing."""
        moved = asked = False
        for key, _ in self._selector.select(timeout):
            if key.data is not None:
                moved |= self._move(key.data)
            else:
                os.read(self._wake, 64)
                asked = True
        self._flush(lambda line: line.log.due_in(time.monotonic()) == 0.0)
        if asked and not self._ending:
            self._drain()
            self._settled.set()
        return moved

    def _drain(self) -> None:
        """Move all that is there, for a limited time: leftover processes may write for ever."""
        until = time.monotonic() + DRAIN_S
        while self._turn(0.0) and time.monotonic() < until:
            pass

    def _move(self, line: Line) -> bool:
        data = line.channel.read()
        if data == b"":
            self._selector.unregister(line.channel.ours)
        if not data:
            return False
        line.log.feed(data, now_us())
        self._note(line)
        # A terminal may be paused; the record does not wait for it.
        self._flush(lambda line: line.log.due_in(time.monotonic()) == 0.0)
        line.tail.feed(line.channel.stream, data)
        self._terminal.write(line.channel.stream, line.number, data)
        return True

    def _flush(self, wanted: Callable[[Line], bool]) -> None:
        for line in self._lines:
            if wanted(line):
                line.log.flush()
                self._note(line)

    def _note(self, line: Line) -> None:
        if self._positions is not None:
            self._positions.write(line.row, line.log)
