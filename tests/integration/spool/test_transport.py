"""HTTP with a deadline: a kept connection, and one error for whatever is no answer."""

import socket
import threading

import pytest

from stepward.client.stream import open_lines
from stepward.client.transport import Transport
from stepward.errors import Unavailable

pytestmark = pytest.mark.integration


class Scripted:
    """A server that answers each connection's requests with given bytes."""

    def __init__(self, *answers, keep=True):
        self.answers, self.keep = list(answers), keep
        self.requests, self.connections = [], 0
        self.socket = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._serve, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.socket.getsockname()[1]}"

    def _serve(self):
        while self.answers:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            self.connections += 1
            with connection:
                while self.answers and (request := connection.recv(1 << 16)):
                    if b"Content-Length: 4\r\n" in request and not request.endswith(b"data"):
                        request += connection.recv(4)
                    self.requests.append(request)
                    connection.sendall(self.answers.pop(0))
                    if not self.keep:
                        break


def ok(body=b"ok"):
    return b"HTTP/1.1 200 OK\r\nX-Name: v\r\nContent-Length: %d\r\n\r\n" % len(body) + body


def test_a_connection_is_kept_and_the_root_path_put_before():
    server = Scripted(ok(), ok(b"again"))
    transport = Transport(f"{server.url}/behind/a/proxy", "secret")
    first = transport.request("POST", "/x?y=1", body=b"data", headers={"Content-Type": "a/b"})
    second = transport.request("GET", "/z")
    assert (first.status, first.headers["x-name"], first.body) == (200, "v", b"ok")
    assert second.body == b"again"
    assert server.connections == 1
    assert server.requests[0].startswith(b"POST /behind/a/proxy/x?y=1 HTTP/1.1\r\n")
    assert b"Authorization: Bearer secret\r\n" in server.requests[0]
    assert server.requests[0].endswith(b"\r\n\r\ndata")
    transport.close()


def test_a_connection_that_the_server_closed_is_opened_again():
    server = Scripted(ok(), ok(), keep=False)
    transport = Transport(server.url)
    assert transport.request("GET", "/").status == 200
    for _ in range(100):
        if server.connections == 1 and not server.requests[1:]:
            threading.Event().wait(0.005)
    assert transport.request("GET", "/").status == 200
    assert server.connections == 2
    transport.close()


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (b"", "server_silent"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nx", "server_silent"),
        (b"\x00" * 70000, "not_http"),
    ],
)
def test_what_is_no_answer_is_unavailable(answer, code):
    transport = Transport(Scripted(answer, b"x").url)
    with pytest.raises(Unavailable) as caught:
        transport.request("GET", "/", timeout_s=0.3)
    assert caught.value.code == code


def test_nobody_there_is_unavailable():
    with pytest.raises(Unavailable) as caught:
        Transport("http://127.0.0.1:9").request("GET", "/")
    assert caught.value.code == "server_unreachable"
    with pytest.raises(Unavailable):
        Transport("http://no-such-host.invalid").request("GET", "/", timeout_s=5)


def test_plain_http_where_tls_was_expected_is_unavailable():
    server = Scripted(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    with pytest.raises(Unavailable):
        Transport(server.url.replace("http", "https")).request("GET", "/", timeout_s=2)


def test_a_stream_is_read_line_by_line():
    server = Scripted(ok(b"one\ntwo\nend"))
    with open_lines(server.url, None, "/lines") as lines:
        assert list(lines) == [b"one", b"two", b"end"]


def test_a_stream_that_falls_silent_is_unavailable(monkeypatch):
    monkeypatch.setattr("stepward.client.stream.SILENCE_S", 0.2)
    server = Scripted(b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\none\n", b"never")
    with pytest.raises(Unavailable), open_lines(server.url, None, "/lines") as lines:
        assert next(lines) == b"one"
        next(lines)
