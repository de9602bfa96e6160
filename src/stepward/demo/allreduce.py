"""Averages one vector over the ranks of one host, by TCP through rank 0.

As in a real collective, a rank whose peer is stopped, slow or dead *waits*, and only its time-out ends the wait: so the
rank that fails first is the one that is at fault. Meant for two to eight ranks and vectors of a few MB, not for speed.
"""

import contextlib
import socket
import struct
import time

import numpy as np

from stepward.demo.models import Vector

_RANK = struct.Struct("<I")


class AllReduce:
    """The connections of one rank.

    Args:
        rank, world: this rank, of how many.
        address: where rank 0 listens.
        timeout_s: how long a rank waits for the others, at the start and in each ``mean``.

    Raises:
        TimeoutError: the ranks did not meet.
    """

    def __init__(self, rank: int, world: int, address: tuple[str, int], *, timeout_s: float = 90.0) -> None:
        self._rank, self._world, self._timeout_s = rank, world, timeout_s
        deadline = time.monotonic() + timeout_s
        if world == 1:
            self._peers: dict[int, socket.socket] = {}
        elif rank == 0:
            self._peers = _accept(address, world, deadline)
        else:
            self._peers = {0: _connect(address, rank, deadline)}

    def mean(self, vector: Vector) -> Vector:
        """The mean of the ranks' vectors, which have the same length.

        Raises:
            TimeoutError: a rank did not answer within the time-out.
        """
        deadline = time.monotonic() + self._timeout_s
        try:
            return self._through_rank_0(vector, deadline)
        except OSError as error:
            # A lost connection is no answer yet: real collectives learn of a dead peer by their time-out alone.
            time.sleep(max(0.0, deadline - time.monotonic()))
            raise TimeoutError(f"all-reduce: rank {self._rank} had no answer within {self._timeout_s:.0f} s") from error

    def _through_rank_0(self, vector: Vector, deadline: float) -> Vector:
        if self._rank:
            _send(self._peers[0], vector, deadline)
            return _receive(self._peers[0], vector, deadline)
        total = vector.copy()
        for peer in self._peers.values():
            total += _receive(peer, vector, deadline)
        total /= self._world
        for peer in self._peers.values():
            _send(peer, total, deadline)
        return total

    def close(self) -> None:
        """Close the connections."""
        for connection in self._peers.values():
            connection.close()


def _accept(address: tuple[str, int], world: int, deadline: float) -> dict[int, socket.socket]:
    peers: dict[int, socket.socket] = {}
    with socket.create_server(address) as listener:
        while len(peers) < world - 1:
            listener.settimeout(_left(deadline))
            try:
                connection, _ = listener.accept()
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connection.settimeout(_left(deadline))
                peers[_RANK.unpack(connection.recv(_RANK.size, socket.MSG_WAITALL))[0]] = connection
            except TimeoutError:
                raise TimeoutError(f"only {len(peers) + 1} of {world} ranks came to {address}") from None
    return peers


def _connect(address: tuple[str, int], rank: int, deadline: float) -> socket.socket:
    while True:
        with contextlib.suppress(ConnectionRefusedError):
            connection = socket.create_connection(address, timeout=_left(deadline))
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.sendall(_RANK.pack(rank))
            return connection
        if time.monotonic() > deadline:
            raise TimeoutError(f"rank {rank}: nobody listens on {address}")
        time.sleep(0.05)


def _send(connection: socket.socket, vector: Vector, deadline: float) -> None:
    connection.settimeout(_left(deadline))
    connection.sendall(vector.data.cast("B"))


def _receive(connection: socket.socket, like: Vector, deadline: float) -> Vector:
    vector = np.empty_like(like)
    rest = vector.data.cast("B")
    while rest:
        connection.settimeout(_left(deadline))
        count = connection.recv_into(rest)
        if not count:
            raise ConnectionResetError("the peer closed the connection")
        rest = rest[count:]
    return vector


def _left(deadline: float) -> float:
    return max(0.01, deadline - time.monotonic())
