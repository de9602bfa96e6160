"""A real server, and real agents that report to it."""

import contextlib
import os
import signal
import subprocess
import sys
import time

import msgspec
import pytest

from stepward.client.api import Client
from stepward.clusters.fleet import Fleet
from stepward.clusters.providers.local.needs import is_usable
from stepward.model.resources import NewToken
from stepward.model.words import TokenKind
from stepward.settings import ServerFile

WAIT_S = 120.0


def until(look, seconds=WAIT_S):
    """Wait for something true."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = look()
        if found:
            return found
        time.sleep(0.1)
    raise AssertionError(f"did not come true in {seconds} s")


class Server:
    """``stepward up`` on a folder of its own; ends with the test."""

    def __init__(self, folder, port=0):
        self.folder, self.data = str(folder), f"{folder}/data"
        kept = {name: value for name, value in os.environ.items() if not name.startswith("STEPWARD_")}
        self.environ = kept | {"XDG_STATE_HOME": f"{folder}/state", "XDG_CONFIG_HOME": f"{folder}/config"}
        self.start(port)

    def start(self, port):
        command = [sys.executable, "-m", "stepward", "up", "--data", self.data, "--port", str(port)]
        with open(f"{self.folder}/up.log", "ab") as log:
            self.process = subprocess.Popen(command, env=self.environ, stdout=log, stderr=log)
        states = f"{self.folder}/state/stepward/servers"
        name = until(lambda: os.path.isdir(states) and [one for one in os.listdir(states) if one.endswith(".json")])[0]
        with open(f"{states}/{name}", "rb") as file:
            self.url = msgspec.json.decode(file.read(), type=ServerFile).url
        with open(f"{self.data}/token") as file:
            self.token = file.read().strip()
        self.client = self.of(self.token)
        until(self._answers)

    def of(self, token):
        return Client(self.url, token)

    def _answers(self):
        with contextlib.suppress(Exception):
            return self.client.health()

    def new_token(self, kind, *projects):
        asked = NewToken(name="test", kind=TokenKind(kind), projects=list(projects))
        return self.client.create_token(asked).secret

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(WAIT_S)

    def log(self):
        with open(f"{self.folder}/up.log") as file:
            return file.read()


@contextlib.contextmanager
def _served(tmp_path_factory):
    # A short path: sockets of Slurm's daemons lie below it.
    started = Server(tmp_path_factory.mktemp("up"))
    try:
        yield started
    finally:
        if started.process.poll() is None:
            started.stop()


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """One server for the tests that do not stop it."""
    with _served(tmp_path_factory) as started:
        yield started


@pytest.fixture
def own_server(tmp_path_factory):
    """A server of the test's own."""
    with _served(tmp_path_factory) as started:
        yield started


@pytest.fixture
def agent(tmp_path, monkeypatch):
    """Starts ``stepward agent`` with a spool and settings of its own; what is left at the end is killed by its pid."""
    monkeypatch.setenv("SLURM_CONF", str(tmp_path / "no-slurm.conf"))
    started = []

    def start(*arguments, server=None, token=None, spool=None, **environ):
        spool = spool or tmp_path / "spool"
        given = {"STEPWARD_DIR": str(spool), "XDG_STATE_HOME": str(tmp_path / "nobody"), **environ}
        if server is not None:
            given |= {"STEPWARD_SERVER": server.url, "STEPWARD_TOKEN": token or server.token}
        command = [sys.executable, "-m", "stepward", "agent", *arguments]
        process = subprocess.Popen(command, env=os.environ | given, stderr=subprocess.PIPE, text=True)
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.wait(WAIT_S)
        process.stderr.close()


@pytest.fixture(name="until")
def _until():
    return until


@pytest.fixture(scope="session")
def managed_cluster(server):
    """Makes a cluster that the server manages, with an agent a node; gives what asks and kills it. It ends with the tests."""
    why = is_usable()
    if why is not None:
        pytest.skip(f"no real Slurm: {why}")
    made = []

    def done(operation):
        ended = until(lambda: (one := server.client.operation(operation.id)).state != "running" and one, 120)
        assert ended.state == "done", ended.error

    def make(name, **spec):
        pool = {"id": "n", "min_nodes": 4, "max_nodes": 4, "shape": {"cpus": 2, "memory_mb": 1000}}
        wanted = {
            "display_name": name,
            "node_pools": [pool],
            "partitions": [{"id": "main", "node_pools": ["n"], "default": True}],
            "controller": {"accounting": False, "rest": False},
            **spec,
        }
        done(server.client.create_cluster(name, wanted))
        made.append(name)
        return Fleet(server.data, lambda: time.time_ns() // 1000)

    yield make
    for name in made:
        done(server.client.delete_cluster(name))


class SlurmCommands:
    """What the tests ask one cluster."""

    def __init__(self, conf):
        from stepward.orchestrators.slurm.commands import Slurm

        self.conf, self.slurm = conf, Slurm(conf)

    def submit(self, script, *, nodes, output="/dev/null", **environ):
        given = {"PATH": "/usr/bin:/bin:/usr/sbin", "SLURM_CONF": self.conf, **environ}
        argv = ["sbatch", "--parsable", f"-N{nodes}", "--requeue", "-o", str(output), "--wrap", script]
        return subprocess.run(argv, env=given, check=True, capture_output=True, text=True).stdout.strip()

    def nodes_of(self, job):
        found = self.slurm.job(job)
        return list(found.nodes) if found.slurm_state == "RUNNING" else []

    def drain(self, node, reason):
        self.slurm.update_node(node, state="drain", reason=reason)

    def reason(self, node):
        return self.slurm.node(node).reason

    def state(self, node):
        return self.slurm.node(node).state


@pytest.fixture
def slurm_commands():
    return SlurmCommands
