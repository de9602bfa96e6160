"""Streams of peers that lie, break off or are no server of ours: errors of ours, never a cut answer taken for a whole."""

import contextlib
import socket
import threading

import pytest

from stepward.client import stream
from stepward.client.stream import open_lines
from stepward.errors import NotFound, StepwardError, Unauthenticated, Unavailable

pytestmark = pytest.mark.integration

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@contextlib.contextmanager
def answering(*parts, hold=False):
    """A peer that answers one request with these bytes; with ``hold`` it then says nothing more."""
    release = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve():
            connection, _ = listening.accept()
            with connection:
                connection.recv(1 << 16)
                for part in parts:
                    connection.sendall(part)
                if hold:
                    release.wait(120)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            release.set()
            thread.join()


def read(url):
    with open_lines(url, "token", "/x") as lines:
        return list(lines)


def test_lines_are_whole_however_they_arrive():
    with answering(CHUNKED, b"3\r\na\nb\r\n", b"4\r\nb\n\nc\r\n", b"0\r\n\r\n") as url:
        assert read(url) == [b"a", b"bb", b"", b"c"]
    with answering(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\na\nb\n") as url:
        assert read(url) == [b"a", b"b"]


@pytest.mark.parametrize(
    "parts",
    [
        (CHUNKED, b"3\r\na\nb\r\n"),
        (CHUNKED, b"9\r\na\nb"),
        (CHUNKED, b"zz\r\n"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\na\nb",),
        (b"SSH-2.0-OpenSSH\r\n",),
        (b"",),
    ],
)
def test_an_answer_that_is_cut_off_is_an_error(parts):
    with answering(*parts) as url, pytest.raises(Unavailable):
        read(url)


def test_silence_has_an_end(monkeypatch):
    monkeypatch.setattr(stream, "SILENCE_S", 0.2)
    with answering(CHUNKED, b"2\r\na\n\r\n", hold=True) as url, open_lines(url, None, "/x") as lines:
        assert next(lines) == b"a"
        with pytest.raises(Unavailable) as raised:
            next(lines)
    assert raised.value.code == "server_silent"


def test_a_line_without_an_end_is_no_server_of_ours(monkeypatch):
    monkeypatch.setattr(stream, "MAX_LINE_BYTES", 10)
    with answering(b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 1000) as url, pytest.raises(Unavailable) as raised:
        read(url)
    assert raised.value.code == "not_http"


@pytest.mark.parametrize(("status", "kind"), [(401, Unauthenticated), (404, NotFound), (500, StepwardError)])
def test_a_refusal_is_the_error_that_the_server_raised(status, kind):
    body = b'{"code": "some_code", "detail": "what"}'
    head = f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    with answering(head, body) as url, pytest.raises(kind) as raised:
        read(url)
    assert (type(raised.value), raised.value.code) == (kind, "some_code")


def test_nobody_there():
    with socket.create_server(("127.0.0.1", 0)) as probe:
        url = f"http://127.0.0.1:{probe.getsockname()[1]}"
    with pytest.raises(Unavailable) as raised:
        read(url)
    assert raised.value.code == "server_unreachable"
