"""HTTP as the node side needs it: one kept connection, a deadline for the whole answer, and one error.

Used by the spool's shipper and by the API client. It follows no redirects, uses no proxies and interprets no statuses.
A server may be slow, silent or no server of ours at all: an answer that is late, too long or no HTTP is ``Unavailable``.
"""

import contextlib
import http.client
import io
import select
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec

from stepward.errors import Unavailable

CONNECT_S = 3.0
"""A connection that takes longer is not there; a LAN answers in milliseconds, a continent in under one second."""
ANSWER_S = 15.0
"""Default deadline of an answer, from the first byte sent to the last byte read."""
MAX_ANSWER_BYTES = 256 << 20
"""Longest answer that is read: a raw log or an export; beyond it the peer is not ours."""


class Response(msgspec.Struct, frozen=True):
    """An answer, read to its end. ``headers`` have lower-case names."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Transport:
    """One connection to one server, kept between requests; for one thread.

    Args:
        server: base URL; its path is put before every path (a server behind a proxy).
        token: bearer token, if any.
    """

    def __init__(self, server: str, token: str | None = None) -> None:
        parts = urlsplit(server)
        self.server = server
        self._root = parts.path.rstrip("/")
        self._host = parts.hostname or ""
        self._tls = parts.scheme == "https"
        self._port = parts.port or (443 if self._tls else 80)
        self._token = token
        self._connection: http.client.HTTPConnection | None = None
        self._deadline = 0.0

    def request(
        self,
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = ANSWER_S,
        most_bytes: int = MAX_ANSWER_BYTES,
    ) -> Response:
        """Send one request and read its answer, whatever its status; one of more than ``most_bytes`` is none.

        Raises:
            Unavailable: ``server_unreachable`` (no connection, or lost), ``server_silent`` (deadline), ``not_http``.
        """
        with self._told(timeout_s):
            answer = self._ask(method, path, body, headers, timeout_s)
            data = answer.read(most_bytes + 1)
            if len(data) > most_bytes:
                raise http.client.HTTPException(f"an answer of more than {most_bytes} bytes")
            if answer.will_close:
                self.close()
            return Response(answer.status, _names(answer), data)

    def _ask(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str] | None, timeout_s: float
    ) -> http.client.HTTPResponse:
        connection = self._connected(timeout_s)
        self._deadline = time.monotonic() + timeout_s
        connection.request(method, self._root + path, body=body, headers=self._headers(headers))
        return connection.getresponse()

    @contextlib.contextmanager
    def _told(self, timeout_s: float) -> Iterator[None]:
        """Whatever goes wrong inside is told as ``Unavailable``, and costs the connection."""
        try:
            yield
        except TimeoutError:
            raise self._unavailable("server_silent", f"did not answer within {timeout_s:g} s") from None
        except OSError as error:
            raise self._unavailable("server_unreachable", f"is out of reach: {error}") from None
        except (http.client.HTTPException, ValueError) as error:
            raise self._unavailable("not_http", f"does not speak HTTP: {_words(error)}") from None
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the connection; the next request opens another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _connected(self, timeout_s: float) -> http.client.HTTPConnection:
        if self._connection is not None and _stale(self._connection.sock):
            self.close()
        if self._connection is None:
            limit = min(CONNECT_S, timeout_s)
            raw = socket.create_connection((self._host, self._port), timeout=limit)
            try:
                raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if self._tls:
                    raw = ssl.create_default_context().wrap_socket(raw, server_hostname=self._host)
            except BaseException:
                raw.close()
                raise
            self._connection = http.client.HTTPConnection(self._host, self._port)
            self._connection.sock = _Dated(raw, self)
        return self._connection

    def _headers(self, more: Mapping[str, str] | None) -> dict[str, str]:
        headers = {"Accept-Encoding": "identity"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        return {**headers, **(more or {})}

    def _unavailable(self, code: str, what: str) -> Unavailable:
        self.close()
        return Unavailable(f"{self.server} {what}", code=code, hint="is the server up? `stepward doctor` looks")

    def left(self) -> float:
        """Seconds until the deadline.

        Raises:
            TimeoutError: it has passed.
        """
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left


class _Dated:
    """A socket whose every operation counts against the transport's deadline.

    A time-out of a plain socket counts from the last byte: a peer that drips bytes would hold the caller for ever.
    """

    def __init__(self, raw: socket.socket, transport: Transport) -> None:
        self._raw, self._transport = raw, transport
        self._readers, self._closing = 0, False

    def sendall(self, data: Any) -> None:
        self._raw.settimeout(self._transport.left())
        self._raw.sendall(data)

    def makefile(self, mode: str) -> io.BufferedReader:
        self._readers += 1
        return io.BufferedReader(_Reader(self._raw, self._transport, self._read_out), 1 << 16)

    def fileno(self) -> int:
        return self._raw.fileno()

    def close(self) -> None:
        """Close, once nobody reads: an answer after which the peer closes is read when the connection is given up already."""
        self._closing = True
        if not self._readers:
            self._raw.close()

    def _read_out(self) -> None:
        self._readers -= 1
        if self._closing and not self._readers:
            self._raw.close()


class _Reader(io.RawIOBase):
    def __init__(self, raw: socket.socket, transport: Transport, read_out: Callable[[], None]) -> None:
        self._raw, self._transport, self._read_out = raw, transport, read_out

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._read_out()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._raw.settimeout(self._transport.left())
        return self._raw.recv_into(buffer)


def _names(answer: http.client.HTTPResponse) -> dict[str, str]:
    return {name.lower(): value for name, value in answer.getheaders()}


def _stale(sock: Any) -> bool:
    """Whether an idle connection has something to read: the peer has closed it, or speaks out of turn."""
    if sock is None:
        return True
    poll = select.poll()
    poll.register(sock.fileno(), select.POLLIN | select.POLLHUP | select.POLLERR)
    return bool(poll.poll(0))


def _words(error: Exception) -> str:
    """What is wrong with an answer; of its own bytes nothing long or unprintable, for this goes to logs and terminals."""
    if isinstance(error, http.client.BadStatusLine):
        return "its first line is no status"
    text = str(error)
    return text if text and text.isprintable() and len(text) <= 200 else type(error).__name__
