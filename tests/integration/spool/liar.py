"""A tiny ingest server in a process of its own, which lies as the mode file tells it to.

``python liar.py FOLDER [PORT]``: writes ``port``, reads ``mode`` at each request, appends each committed row to ``rows`` as
``writer step`` and each event type to ``events``. In mode ``good`` it keeps the rule of docs/wire.md.
"""

import json
import os
import random
import socket
import struct
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from stepward.model import frames

FOLDER = Path(sys.argv[1])
POSITIONS: dict[str, int] = {}


def commit(data: bytes, allow_gap: bool) -> tuple[int, dict]:
    frame = frames.decode(data)
    expected = POSITIONS.get(frame.writer, 0)
    if frame.end <= expected:
        return 200, {"end": expected, "server_time": 0}
    if frame.seq != expected and not (allow_gap and frame.seq > expected):
        return 409, {"code": "sequence_gap", "expected_seq": expected}
    with open(FOLDER / "rows", "a") as rows, open(FOLDER / "events", "a") as events:
        for part in frame.parts:
            content = frames.payload(part)
            if isinstance(content, frames.Points):
                for block in content.blocks:
                    for step in struct.unpack(f"<{len(block.steps) // 8}q", block.steps):
                        rows.write(f"{frame.writer} {step}\n")
            elif isinstance(content, frames.Events):
                events.writelines(f"{event.type}\n" for event in content.events)
    POSITIONS[frame.writer] = frame.end
    return 200, {"end": frame.end, "server_time": 0}


class Liar(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        data = self.rfile.read(int(self.headers["Content-Length"]))
        mode = (FOLDER / "mode").read_text().strip()
        with open(FOLDER / "asked", "a") as asked:
            asked.write(f"{mode} {self.headers.get('Authorization')}\n")
        getattr(self, mode)(data)

    def good(self, data):
        self.answer(*commit(data, "Stepward-Accept-Gap" in self.headers))

    def deaf(self, data):
        """Commits, and hangs up without an answer."""
        commit(data, False)
        self.hang_up()

    def hang_up(self, data=b""):
        self.connection.shutdown(socket.SHUT_RDWR)
        self.close_connection = True

    def noise(self, data):
        self.wfile.write(random.randbytes(4096))
        self.hang_up()

    def html(self, data):
        self.send(200, b"<html>Jupyter</html>")

    def too_far(self, data):
        self.answer(200, {"end": 1 << 50})

    def too_short(self, data):
        self.answer(200, {"end": 1})

    def gap_nowhere(self, data):
        self.answer(409, {"code": "sequence_gap", "expected_seq": 13})

    def broken(self, data):
        self.answer(500, {"code": "internal"})

    def busy(self, data):
        self.send(503, b"{}", {"Retry-After": "0.1"})

    def denied(self, data):
        self.answer(401, {"code": "bad_token"})

    def drip(self, data):
        """An answer that never ends, a byte at a time."""
        self.wfile.write(b"HTTP/1.1 200 OK\r\n")
        for _ in range(600):
            self.wfile.write(b"X")
            self.wfile.flush()
            time.sleep(0.05)
        self.hang_up()

    def half(self, data):
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{")
        self.hang_up()

    def answer(self, status, content):
        self.send(status, json.dumps(content).encode())

    def send(self, status, body, headers=()):
        self.send_response(status)
        for name, value in dict(headers).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2]) if len(sys.argv) > 2 else 0), Liar)
    (FOLDER / "port.new").write_text(str(server.server_port))
    os.rename(FOLDER / "port.new", FOLDER / "port")
    server.serve_forever()
