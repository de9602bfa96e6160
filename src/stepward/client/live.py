"""Live updates: the server's event stream, read in a thread and opened again whenever it breaks.

The stream says *that* something changed; what was missed while it was down it does not say again. ``Opened`` therefore
means: fetch anew whatever you show. ``Away`` means that what you show is getting old. Only errors that waiting cannot
mend (token, run unknown) end the stream.
"""

import contextlib
import itertools
import queue
import random
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import NamedTuple

import msgspec

from stepward.errors import StepwardError, Unavailable
from stepward.model.updates import LiveUpdate

FIRST_WAIT_S, LONGEST_WAIT_S = 1.0, 15.0
_decoder = msgspec.json.Decoder(LiveUpdate)


class Opened(NamedTuple):
    """The stream was opened, for the first time or again, or the server had to drop what we were too slow to read."""


class Away(NamedTuple):
    """The stream broke; it is tried again after ``retry_in_s``."""

    error: StepwardError
    retry_in_s: float


Lines = AbstractContextManager[Iterable[bytes]]
Update = LiveUpdate | Opened | Away


class Live:
    """A subscription to the event stream.

    Args:
        open_stream: opens the stream; raises ``Unavailable`` where trying again may help.
    """

    def __init__(self, open_stream: Callable[[], Lines]) -> None:
        self._open = open_stream
        self._updates: queue.SimpleQueue[Update | StepwardError] = queue.SimpleQueue()
        self._stopped = threading.Event()
        # A daemon: a read that waits for the server must not hold up the end of the process.
        threading.Thread(target=self._follow, name="stepward-live", daemon=True).start()

    def next(self, timeout_s: float) -> Update | None:
        """The next update, or None when none came in time.

        Raises:
            StepwardError: the stream has ended for good.
        """
        try:
            update = self._updates.get(timeout=timeout_s)
        except queue.Empty:
            return None
        if isinstance(update, StepwardError):
            raise update
        return update

    def stop(self) -> None:
        """Open the stream no more."""
        self._stopped.set()

    def _follow(self) -> None:
        wait = FIRST_WAIT_S
        while not self._stopped.is_set():
            try:
                with self._open() as lines:
                    for update in updates(lines):
                        wait = FIRST_WAIT_S
                        self._updates.put(update)
                error: StepwardError = Unavailable("the server closed the live stream", code="stream_closed")
            except StepwardError as broken:
                error = broken
            if not isinstance(error, Unavailable):
                self._updates.put(error)
                return
            # Spread, so that all clients of a restarted server do not come at once.
            pause = max(wait * random.uniform(0.75, 1.25), error.retry_after_s if error.retry_after_s > 1 else 0)
            self._updates.put(Away(error, pause))
            self._stopped.wait(pause)
            wait = min(wait * 2, LONGEST_WAIT_S)


def updates(lines: Iterable[bytes]) -> Iterator[LiveUpdate | Opened]:
    """The updates of a stream; events that this version does not know are passed over.

    The server sends its first line once it listens for changes: whatever is fetched after that misses none.
    """
    stream = iter(lines)
    first = next(stream, None)
    if first is None:
        return
    yield Opened()
    for event in events(itertools.chain((first,), stream)):
        if event.name == "resync":
            yield Opened()
        else:
            with contextlib.suppress(msgspec.MsgspecError):
                yield _decoder.decode(event.data)


class Event(NamedTuple):
    """An event of a ``text/event-stream``."""

    name: str
    data: bytes


def events(lines: Iterable[bytes]) -> Iterator[Event]:
    """The events of a stream: their ``data`` lines joined; later comments and other fields fall away.

    An event is complete with the empty line behind it; a cut-off one is not an event.
    """
    name, data = "message", list[bytes]()
    for line in lines:
        field = line.rstrip(b"\r\n")
        if not field:
            if data:
                yield Event(name, b"\n".join(data))
            name, data = "message", []
            continue
        key, _, value = field.partition(b":")
        if key == b"data":
            data.append(value.removeprefix(b" "))
        elif key == b"event":
            name = value.strip().decode(errors="replace")
