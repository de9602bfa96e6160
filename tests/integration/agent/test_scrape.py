"""Exporters over real sockets: what is read, and what no exporter can do to the agent."""

import http.server
import socket
import threading
import time

import pytest

from stepward.agent.scrape import MOST_BYTES, MOST_SERIES, Target
from stepward.client.transport import Transport

pytestmark = pytest.mark.integration


@pytest.fixture
def exporter():
    """Makes an exporter that answers with a status and pieces of a body; HTTP/1.0 closes behind each answer."""
    servers = []

    def make(*pieces, status=200, version="HTTP/1.1"):
        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = version

            def do_GET(self):
                self.send_response(status)
                self.send_header("Content-Length", str(sum(map(len, pieces))))
                self.end_headers()
                for piece in pieces:
                    self.wfile.flush()
                    time.sleep(0.05)
                    self.wfile.write(piece)

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_address[1]}"

    yield make
    for server in servers:
        server.shutdown()
        server.server_close()


def scraped(url):
    target = Target(f"{url}/metrics")
    rows = target.scrape()
    target._transport.close()
    found = {(one.metric.removeprefix("system/scrape/"), one.device): one.value for row in rows for one in row}
    return (
        target,
        rows,
        {(name.replace(target.instance, "HERE"), device): value for (name, device), value in found.items()},
    )


def test_samples_become_readings_a_row_a_name(exporter):
    body = b'temp{gpu="0",uuid="a"} 41\ntemp{gpu="1",uuid="b"} 42\nload{instance="own"} 2\nbroken{\n'
    _, rows, found = scraped(exporter(body))
    assert found['temp{instance="HERE",uuid="b"}', 1] == 42
    assert found['load{instance="own"}', None] == 2
    assert found['up{instance="HERE"}', None] == 1
    assert found['malformed{instance="HERE"}', None] == 1
    assert [len(row) for row in rows] == [3, 2, 1]


def test_an_exporter_that_closes_behind_an_answer_in_pieces_is_read_every_time(exporter):
    url = exporter(b"a 1\n", b"b 2\n", version="HTTP/1.0")
    for _ in range(2):
        _, _, found = scraped(url)
        assert (found['a{instance="HERE"}', None], found['b{instance="HERE"}', None]) == (1, 2)


@pytest.mark.parametrize(
    ("pieces", "status", "words"),
    [([b"no\n"], 500, "answered 500"), ([b"x" * (MOST_BYTES + 1)], 200, "more than")],
)
def test_a_bad_answer_is_no_reading_but_that_it_is_down(exporter, pieces, status, words):
    target, _, found = scraped(exporter(*pieces, status=status))
    assert found == {('up{instance="HERE"}', None): 0.0}
    assert words in target.problem


def test_series_beyond_the_limit_are_counted(exporter):
    _, _, found = scraped(exporter(b"".join(b'm{n="%d"} 1\n' % n for n in range(MOST_SERIES + 7))))
    assert found['left_out{instance="HERE"}', None] == 7
    assert len(found) == MOST_SERIES + 3


def test_two_samples_that_would_be_one_series_count_once(exporter):
    _, _, found = scraped(exporter(b'm{gpu="1"} 1\nm{gpu="01"} 2\n'))
    assert found['m{instance="HERE"}', 1] == 1


def test_an_exporter_does_not_say_itself_whether_it_is_up(exporter):
    _, _, found = scraped(exporter(b"up 7\nmalformed 9\nleft_out 9\nother 1\n"))
    own = {name: found[f'{name}{{instance="HERE"}}', None] for name in ("up", "malformed", "left_out", "other")}
    assert own == {"up": 1, "malformed": 0, "left_out": 0, "other": 1}


def test_what_speaks_no_http_is_told_in_a_line_that_can_be_read():
    with socket.create_server(("127.0.0.1", 0)) as raw:

        def answer():
            taken, _ = raw.accept()
            with taken:
                taken.recv(4096)
                taken.sendall(b"\x1b[31m\x00\xff" * 5000)

        threading.Thread(target=answer, daemon=True).start()
        target = Target(f"http://127.0.0.1:{raw.getsockname()[1]}/metrics")
        target.scrape()
    assert "does not speak HTTP" in target.problem
    assert target.problem.isprintable() and len(target.problem) < 400


def test_the_client_reads_an_answer_that_the_server_closes_behind(exporter):
    transport = Transport(exporter(b"one", b"two", version="HTTP/1.0"))
    assert [transport.request("GET", "/").body for _ in range(2)] == [b"onetwo", b"onetwo"]
    transport.close()
