"""A real server in a process of its own, asked over real sockets, fed with real frames."""

import contextlib
import http.client
import itertools
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time

import pytest

from stepward.model.frames import Block, Config, Frame, Points, SeriesDef, Source, Status, encode, part
from stepward.model.identity import derived_run_id, ulid
from stepward.model.words import SourceKind

_SERVE = """
import json, sys
import msgspec
from stepward.server.app import ServerSettings
from stepward.server.serving import serve
from stepward.errors import StepwardError
try:
    serve(msgspec.json.decode(sys.argv[1], type=ServerSettings))
except StepwardError as error:
    print(json.dumps({"code": error.code, "message": str(error), "context": error.context}), file=sys.stderr)
    sys.exit(9)
"""


def now():
    return time.time_ns() // 1000


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def code(self):
        return self.json["code"]


class ServerProcess:
    """A server on a data folder; ``with`` ends it by SIGTERM."""

    def __init__(self, data, **settings):
        self.data = str(data)
        self.settings = {"data": self.data, "port": free_port(), **settings}
        self.port = self.settings["port"]
        self.process = None
        self.below, self.stderr = [], subprocess.PIPE

    def launch(self):
        command = [*self.below, sys.executable, "-c", _SERVE, json.dumps(self.settings)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.stderr, text=True)
        return self

    def start(self):
        self.launch()
        until = time.monotonic() + 120
        while time.monotonic() < until:
            if self.process.poll() is not None:
                raise AssertionError(f"server ended: {self.process.stderr.read()}")
            with contextlib.suppress(OSError):
                if self.ask("GET", "/healthz", token=None).status == 200:
                    break
            time.sleep(0.05)
        else:
            raise AssertionError("server did not come up")
        with open(f"{self.data}/token") as file:
            self.token = file.read().strip()
        return self

    def refused(self):
        """Launch where that must fail: the error that it ends with."""
        self.launch()
        _, said = self.process.communicate(timeout=120)
        assert self.process.returncode == 9, said
        return json.loads(said.strip().splitlines()[-1])

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(120)
        self._close()

    def stop(self):
        """SIGTERM; how many seconds the end took."""
        began = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(120) == 0
        self._close()
        return time.monotonic() - began

    def _close(self):
        self.process.stdout.close()
        self.process.stderr.close()

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.stop()
        else:
            self._close()

    def ask(self, method, path, body=None, *, token="", headers=None, timeout=30):
        """One request; ``token`` empty stands for the local one, None for no credential."""
        secret = self.token if token == "" else token
        sent = {} if secret is None else {"Authorization": f"Bearer {secret}"}
        if isinstance(body, dict):
            body, sent["Content-Type"] = json.dumps(body).encode(), "application/json"
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            connection.request(method, path, body, sent | (headers or {}))
            answer = connection.getresponse()
            return Answer(answer.status, answer.headers, answer.read())
        finally:
            connection.close()

    def get(self, path, **more):
        return self.ask("GET", path, **more)

    def events(self, query, *, token=""):
        """An open stream of live updates, as a file of lines."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request(
            "GET", f"/api/v1/live?{query}", headers={"Authorization": f"Bearer {self.token if token == '' else token}"}
        )
        return Events(connection, connection.getresponse())

    def new_token(self, kind, projects=None):
        body = {"name": f"{kind} of {projects}", "kind": kind, "projects": projects}
        answer = self.ask("POST", "/api/v1/tokens", body)
        assert answer.status == 201, answer.body
        return answer.json["secret"]

    def writer(self, key="r", project="p", **more):
        return Writer(self, key, project, **more)


class Events:
    def __init__(self, connection, answer):
        self.connection, self.answer = connection, answer
        assert answer.status == 200

    def until(self, kind):
        """The data of the next event of a kind."""
        name = None
        while True:
            line = self.answer.readline().decode().rstrip("\n")
            if line.startswith("event: "):
                name = line[7:]
            elif line.startswith("data: ") and name == kind:
                return json.loads(line[6:])

    def rest(self):
        return self.answer.read()

    def close(self):
        self.connection.close()


class Writer:
    """One writing process: cuts frames of 100 journal bytes and sends them."""

    def __init__(self, server, key, project, *, rank=0, attempt="a1", kind=SourceKind.RANK, token="", node="n1"):
        self.server, self.project, self.token = server, project, token
        self.run = derived_run_id(project, key)
        self.source = Source(
            kind=kind, attempt=attempt, rank=rank if kind is SourceKind.RANK else None, node=node, pid=os.getpid()
        )
        self.id, self.seq, self.series = ulid(), 0, itertools.count()

    def frame(self, *parts, sent_at=None):
        return encode(
            Frame(
                project=self.project,
                run=self.run,
                writer=self.id,
                seq=self.seq,
                end=self.seq + 100,
                sent_at=now() if sent_at is None else sent_at,
                source=self.source,
                parts=[part(kind, payload) for kind, payload in parts],
            )
        )

    def post(self, data, **headers):
        return self.server.ask("POST", "/api/v1/ingest", data, token=self.token, headers=headers)

    def send(self, *parts, sent_at=None):
        answer = self.post(self.frame(*parts, sent_at=sent_at))
        assert answer.status == 200, answer.body
        self.seq = answer.json["end"]

    def begin(self, **config):
        self.send(("config", Config(started_at=now(), **config)), ("status", Status(at=now(), step=0)))
        return self


def points(steps, **columns):
    """A points part: columns by metric name."""
    names = list(columns)
    rows = list(zip(*columns.values(), strict=True))
    block = Block(
        series=list(range(len(names))),
        steps=struct.pack(f"<{len(steps)}q", *steps),
        times=struct.pack(f"<{len(steps)}q", *[now()] * len(steps)),
        values=struct.pack(f"<{len(rows) * len(names)}d", *[value for row in rows for value in row]),
    )
    return ("points", Points([SeriesDef(id, name) for id, name in enumerate(names)], [block]))


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """One server for the tests of a module that do not stop it."""
    folder = tmp_path_factory.mktemp("server")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(folder / "state"))
        with ServerProcess(folder / "data") as started:
            yield started
