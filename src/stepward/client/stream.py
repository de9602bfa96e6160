"""Answers that are read while they come: an event stream that never ends, an export that no memory should hold.

Each has a connection of its own, so that ordinary requests go on beside it. ``stepward.client.transport`` reads answers
whole under one deadline; here only silence has a limit.
"""

import contextlib
import http.client
import ssl
from collections.abc import Iterator
from urllib.parse import urlsplit

from stepward.client.problems import error_of
from stepward.client.transport import CONNECT_S
from stepward.errors import Unavailable

SILENCE_S = 60.0
"""A stream that says nothing for so long is broken: the server sends a sign of life more often."""
MAX_LINE_BYTES = 64 << 20
_CHUNK = 1 << 16
_MAX_PROBLEM_BYTES = 1 << 20


@contextlib.contextmanager
def open_lines(server: str, token: str | None, path: str) -> Iterator[Iterator[bytes]]:
    """The lines of an answer, without their ends, as they arrive.

    Raises:
        Unavailable: ``server_unreachable``, ``server_silent``, ``not_http``; also while the lines are read.
        StepwardError: what the server raised.
    """
    connection = _connection(server)
    try:
        with _errors(server):
            root = urlsplit(server).path.rstrip("/")
            connection.connect()
            connection.sock.settimeout(SILENCE_S)
            connection.request("GET", root + path, headers={"Authorization": f"Bearer {token}"} if token else {})
            answer = connection.getresponse()
        if answer.status != 200:
            with _errors(server):
                body = answer.read(_MAX_PROBLEM_BYTES)
            headers = {name.lower(): value for name, value in answer.getheaders()}
            raise error_of(f"{server}{path}", answer.status, headers, body)
        yield _lines(answer, server)
    finally:
        connection.close()


def _connection(server: str) -> http.client.HTTPConnection:
    parts = urlsplit(server)
    if parts.scheme == "https":
        context = ssl.create_default_context()
        return http.client.HTTPSConnection(parts.hostname or "", parts.port, timeout=CONNECT_S, context=context)
    return http.client.HTTPConnection(parts.hostname or "", parts.port or 80, timeout=CONNECT_S)


def _lines(answer: http.client.HTTPResponse, server: str) -> Iterator[bytes]:
    rest = b""
    while True:
        with _errors(server):
            chunk = answer.read1(_CHUNK)
            if not chunk and answer.length:
                raise http.client.IncompleteRead(rest)
        if not chunk:
            break
        *whole, rest = (rest + chunk).split(b"\n")
        yield from whole
        if len(rest) > MAX_LINE_BYTES:
            raise Unavailable(f"{server} sends a line without an end", code="not_http")
    if rest:
        yield rest


@contextlib.contextmanager
def _errors(server: str) -> Iterator[None]:
    """Errors of sockets and of HTTP as ours."""
    hint = "is the server up? `stepward doctor` looks"
    try:
        yield
    except TimeoutError:
        raise Unavailable(f"{server} does not answer", code="server_silent", hint=hint) from None
    except OSError as error:
        raise Unavailable(f"{server} is out of reach: {error}", code="server_unreachable", hint=hint) from None
    except (http.client.HTTPException, ValueError) as error:
        raise Unavailable(f"{server} broke off: {error!r}", code="not_http", hint=hint) from None
