"""One thread that moves output: from the ranks' pipes to the terminal, the last lines and the record.

A child waits for nobody but the terminal. Small writes are gathered in the pipe and not in memory: there the heir finds
them when the wrapper is killed. What was read is recorded at once, and its position noted where the heir sees it.
"""

import os
import selectors
import threading
import time

from stepward.launch.notes import guarded
from stepward.launch.output import Channel, Positions, StreamLog
from stepward.launch.record import now_us
from stepward.launch.tail import Tail
from stepward.launch.terminal import Terminal

PAUSE_S = 0.02
"""Pause after small reads, so that a chatty program costs 50 records a second and stream, not one a line."""
SMALL_BYTES = 4000
"""A read of more is followed by the next at once: a pseudo-terminal holds no more than 4095 bytes."""
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
        self._asked, self._settled = threading.Event(), threading.Event()

    def start(self) -> None:
        """Begin to move."""
        self._thread.start()

    def settle(self, timeout_s: float) -> None:
        """Wait until what was written before this call has been read, so that the last lines are known."""
        self._settled.clear()
        self._ask()
        self._settled.wait(timeout_s)

    def _ask(self) -> None:
        self._asked.set()
        os.write(self._woken, b"\0")

    def finish(self) -> bool:
        """Move what is still there and close the channels; whether all of them had come to their end."""
        self._ending = True
        self._ask()
        self._thread.join()
        ended = len(self._selector.get_map()) == 1
        self._selector.close()
        for descriptor in (self._wake, self._woken):
            os.close(descriptor)
        for line in self._lines:
            line.channel.close()
        return ended

    def _run(self) -> None:
        while not self._ending:
            most = guarded("moving output", lambda: self._turn(None), 0)
            if 0 < most <= SMALL_BYTES:
                self._asked.wait(PAUSE_S)
        guarded("moving output", self._drain, None)
        self._terminal.drain()

    def _turn(self, timeout: float | None) -> int:
        """Move what can be read now; the largest read of a channel."""
        most = 0
        for key, _ in self._selector.select(timeout):
            if key.data is not None:
                most = max(most, self._move(key.data))
        if self._asked.is_set() and not self._ending:
            self._asked.clear()
            os.read(self._wake, 64)
            self._drain()
            self._settled.set()
        return most

    def _drain(self) -> None:
        """Move all that is there, for a limited time: leftover processes may write for ever."""
        until = time.monotonic() + DRAIN_S
        while self._turn(0.0) and time.monotonic() < until:
            pass

    def _move(self, line: Line) -> int:
        data = line.channel.read()
        if data == b"":
            self._selector.unregister(line.channel.ours)
        if not data:
            return 0
        line.log.feed(data, now_us())
        if self._positions is not None:
            self._positions.write(line.row, line.log)
        line.tail.feed(line.channel.stream, data)
        self._terminal.write(line.channel.stream, line.number, data)
        return len(data)
