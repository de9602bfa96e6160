"""Telling: one attempt to hand a message to a webhook or a command. It says why it failed and never says a secret."""

import contextlib
import http.client
import os
import signal
import socket
import ssl
import subprocess
import threading
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec

from stepward.model.notices import NoticeRoute

SAID_BYTES = 300


class Failure(NamedTuple):
    """Why a message did not arrive; ``after_s`` is what the receiver asks to wait, ``final`` that it will never take it."""

    why: str
    after_s: float | None = None
    final: bool = False


def post(route: NoticeRoute, id: str, body: Mapping[str, Any]) -> Failure | None:
    """Post a message; redirects are not followed, so that it goes nowhere that nobody named."""
    url = urlsplit(route.url)
    path = (url.path or "/") + (f"?{url.query}" if url.query else "")
    host, port = url.hostname or "", url.port
    connection: http.client.HTTPConnection
    if url.scheme == "https":
        connection = http.client.HTTPSConnection(
            host, port, timeout=route.timeout_s, context=ssl.create_default_context()
        )
    else:
        connection = http.client.HTTPConnection(host, port, timeout=route.timeout_s)
    # A receiver that has the message already knows it by its id.
    headers = {"Content-Type": "application/json", "User-Agent": "stepward", "Idempotency-Key": id}
    late = threading.Event()
    try:
        with contextlib.closing(connection):
            cut = threading.Timer(route.timeout_s, _cut, [connection, late])
            cut.daemon = True
            cut.start()
            try:
                connection.request("POST", path, body=msgspec.json.encode(body), headers=headers)
                answer = connection.getresponse()
            finally:
                cut.cancel()
    except (OSError, http.client.HTTPException) as error:
        return Failure(f"{host}: {'no answer in time' if late.is_set() else _named(error)}")
    if 200 <= answer.status < 300:
        return None
    after = answer.getheader("Retry-After") or ""
    wait = float(after) if after.isdigit() and len(after) < 7 else None
    # What it calls wrong now, it will call wrong again; a route that is not there (yet) or not allowed may be mended.
    return Failure(f"{host} answers {answer.status}", wait, answer.status in (400, 413, 415, 422))


def run(route: NoticeRoute, content: Mapping[str, Any]) -> Failure | None:
    """Run a command with the message on its input; what it started ends with its time."""
    try:
        process = subprocess.Popen(
            route.argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
            cwd="/",
        )
    except OSError as error:
        return Failure(f"{route.argv[0]}: {error.strerror or error}")
    try:
        _, said = process.communicate(msgspec.json.encode(content), timeout=route.timeout_s)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return Failure(f"{route.argv[0]} took more than {route.timeout_s:g} s")
    if process.returncode == 0:
        return None
    words = said[-SAID_BYTES:].decode("utf-8", "replace").strip()
    return Failure(f"{route.argv[0]} ended with {process.returncode}" + (f": {words}" if words else ""))


def _cut(connection: http.client.HTTPConnection, late: threading.Event) -> None:
    """End an exchange that goes on, byte by byte, beyond its time."""
    late.set()
    with contextlib.suppress(OSError, AttributeError):
        connection.sock.shutdown(socket.SHUT_RDWR)


def _named(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
