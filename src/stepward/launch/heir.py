"""A small process that holds the ranks' pipes, so that the end of the wrapper harms nobody.

A rank whose reader has gone dies of SIGPIPE. The heir has the reading ends too and does nothing but wait; when the
wrapper dies (kill -9, out of memory), it goes on where the wrapper was: it keeps output and heartbeat in a journal of its
own until the ranks and all writers of their output have gone. So it does for processes that the ranks have left behind
when the wrapper ends. It is no parent and so cannot tell how the ranks ended.

``python -m stepward.launch.heir``, a socket as descriptor 3. Each message is JSON with descriptors: first the memory of
``Positions``, then one message an attempt with its channels; an empty one says that the attempt is over.
"""

import os
import selectors
import signal
import socket
import sys
import time
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from stepward.collect.process import stat_of
from stepward.launch.notes import guarded
from stepward.launch.output import Positions, StreamLog, read_now
from stepward.launch.pump import PAUSE_S
from stepward.launch.record import Record, now_us
from stepward.launch.shipping import Shipping
from stepward.launch.signals import FORWARDED
from stepward.launch.spawn import spawn
from stepward.launch.watch import Watch
from stepward.model.identity import ulid
from stepward.model.words import HEARTBEAT_S
from stepward.spool.journal import WriterMeta

MAX_DESCRIPTORS = 253
"""Descriptors that one message may carry (SCM_MAX_FD of Linux); what is beyond has no heir."""
_MESSAGE_BYTES = 64 << 10
_SOCKET = 3
_TURN_S = 0.5


class Will(msgspec.Struct, frozen=True):
    """What the wrapper leaves of an attempt: where to write as whom, the streams in order, rank -> pid."""

    root: str
    meta: WriterMeta
    streams: list[tuple[str, int | None]]
    pids: dict[int, int]


class Heir:
    """The wrapper's side: starts the heir and tells it what there is to inherit."""

    def __init__(self, mask: Iterable[signal.Signals | int]) -> None:
        self.positions_file = os.memfd_create("stepward-positions")
        os.ftruncate(self.positions_file, Positions.BYTES)
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        nothing = os.open(os.devnull, os.O_RDWR)
        with theirs:
            command = [sys.executable, "-P", "-m", "stepward.launch.heir"]
            spawn(command, _environ(), stdin=None, stdout=nothing, stderr=nothing, mask=mask, keep=[theirs.fileno()])
        os.close(nothing)
        self._send(b"{}", [self.positions_file])

    def entrust(
        self, root: str, meta: WriterMeta, channels: Sequence[tuple[str, int | None, int]], pids: Mapping[int, int]
    ) -> None:
        """Leave an attempt to the heir.

        Args:
            channels: (stream, rank, descriptor), in the order of their rows in the positions.
            pids: rank -> pid.
        """
        told = channels[:MAX_DESCRIPTORS]
        will = Will(root=root, meta=meta, streams=[(stream, rank) for stream, rank, _ in told], pids=dict(pids))
        self._send(msgspec.json.encode(will), [descriptor for _, _, descriptor in told])

    def release(self) -> None:
        """The attempt is over: there is nothing to inherit."""
        self._send(b"{}", [])

    def dismiss(self) -> None:
        """Let the heir end, or go on with what was not released."""
        self._socket.close()

    def _send(self, message: bytes, descriptors: list[int]) -> None:
        guarded("entrusting the output", lambda: socket.send_fds(self._socket, [message], descriptors), 0)


def _environ() -> dict[str, str]:
    """The environment, with the folder of this very package first on the path."""
    here = os.path.abspath(f"{__file__}/../../..")
    paths = [here, *filter(None, [os.environ.get("PYTHONPATH")])]
    return dict(os.environ, PYTHONPATH=os.pathsep.join(paths))


def main() -> None:
    """Wait for the wrapper's end; where it has left something, go on with it."""
    for number in FORWARDED:
        # The job's signals are for the ranks; the heir ends with them.
        signal.signal(number, signal.SIG_IGN)
    wrapper = socket.socket(fileno=_SOCKET)
    _, shared = _receive(wrapper)
    positions = Positions(shared[0])
    will, inherited = b"", list[int]()
    while True:
        message, descriptors = _receive(wrapper)
        if not message:
            break
        for descriptor in inherited:
            os.close(descriptor)
        will, inherited = message, descriptors
    if inherited:
        _Succession(msgspec.json.decode(will, type=Will), inherited, positions).run()


def _receive(wrapper: socket.socket) -> tuple[bytes, list[int]]:
    """The next message and its descriptors; empty when the wrapper has gone."""
    try:
        message, descriptors, _, _ = socket.recv_fds(wrapper, _MESSAGE_BYTES, MAX_DESCRIPTORS)
    except OSError:
        return b"", []
    return message, list(descriptors)


class _Succession:
    """Keeps output and heartbeat in the wrapper's place."""

    def __init__(self, will: Will, descriptors: list[int], positions: Positions) -> None:
        meta = msgspec.structs.replace(will.meta, writer=ulid(), created_at=now_us(), closed=False)
        self._record = Record(will.root, meta)
        self._shipping = Shipping(None, will.root, meta.run or "")
        self._watches = {rank: Watch(pid) for rank, pid in will.pids.items()}
        self._started = {rank: stat_of(pid) for rank, pid in will.pids.items()}
        self._selector = selectors.DefaultSelector()
        for row, ((stream, rank), descriptor) in enumerate(zip(will.streams, descriptors, strict=True)):
            offset, lost = positions.read(row)
            log = StreamLog(stream, rank, self._record.logs, offset=offset, lost=lost)
            self._selector.register(descriptor, selectors.EVENT_READ, log)

    def run(self) -> None:
        """Until all ranks and all writers of their output have gone; then send what is kept."""
        self._shipping.start()
        beat_at = 0.0
        while self._selector.get_map() or self._alive():
            guarded("moving output", self._turn, None)
            if time.monotonic() >= beat_at:
                beat_at = time.monotonic() + HEARTBEAT_S
                self._beat()
        self._record.close()
        self._shipping.finish()

    def _turn(self) -> None:
        if not self._selector.get_map():
            time.sleep(_TURN_S)
        for key, _ in self._selector.select(_TURN_S):
            data = read_now(key.fd)
            if data:
                key.data.feed(data, now_us())
            elif data == b"":
                self._selector.unregister(key.fd)
        time.sleep(PAUSE_S)

    def _alive(self) -> dict[int, Watch]:
        """Ranks that are the processes they were."""
        return {rank: watch for rank, watch in self._watches.items() if self._is_same(rank, watch.pid)}

    def _is_same(self, rank: int, pid: int) -> bool:
        now, then = stat_of(pid), self._started[rank]
        return now is not None and then is not None and now.started == then.started and now.state not in "ZX"

    def _beat(self) -> None:
        states = {
            number: stopped for rank, watch in self._alive().items() for number, stopped in watch.states(rank).items()
        }
        if states:
            stopped = [rank for rank, is_stopped in states.items() if is_stopped]
            self._record.status([rank for rank in states if rank not in stopped], stopped)


if __name__ == "__main__":
    main()
