"""Diagnoses that a real server makes by itself while simulated runs go wrong: what they say, and how soon."""

import contextlib
import http.client
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from stepward.client.api import Client
from stepward.client.transport import Transport
from stepward.errors import NotFound, Unavailable
from stepward.model.identity import derived_run_id
from stepward.testing.simulator import simulate
from stepward.testing.simulator.live import drive

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

FULL = os.environ.get("STEPWARD_TEST_SCALE", "sampled") == "full"
FAULTS = [("gpu_oom", 4), ("node_loss", 5), ("deadlock", 5), ("slow_node", 5)] if FULL else [("node_loss", 5)]
WAIT_S = 120.0


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    folder = tmp_path_factory.mktemp("diagnosing")
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    env = {name: value for name, value in os.environ.items() if not name.startswith("STEPWARD_")}
    env |= {"XDG_STATE_HOME": f"{folder}/state", "XDG_CONFIG_HOME": f"{folder}/config"}
    command = [sys.executable, "-m", "stepward", "up", "--data", f"{folder}/data", "--port", str(port)]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        said = process.stdout.readline()
        assert "serves" in said, said
        yield Client(f"http://127.0.0.1:{port}", (folder / "data" / "token").read_text().strip())
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=120)


class Watching:
    """Notes when events and diagnoses of a run were first there to be read, seconds of this process's clock."""

    def __init__(self, client, run):
        self._client, self._run = Client(client.server, client._token), run
        self.events, self.diagnoses = {}, {}
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self._thread.start()

    def _look(self):
        while not self._done.wait(0.2):
            try:
                seen = [event.id for event in self._client.events(self._run, certainty="confirmed")]
                made = [one.event for one in self._client.diagnoses(self._run)]
            except (NotFound, Unavailable):
                continue
            now = time.monotonic()
            for event in seen:
                self.events.setdefault(event, now)
            for event in made:
                self.diagnoses.setdefault(event, now)

    def end(self):
        self._done.set()
        self._thread.join()


@pytest.mark.scaled
@pytest.mark.parametrize(("kind", "seed"), FAULTS)
def test_what_befell_a_run_is_diagnosed_while_it_happens(client, kind, seed):
    simulation = simulate(seed, kind=kind, ranks=8, steps=300)
    run = derived_run_id("default", kind)
    watching = Watching(client, run)
    try:
        driven = drive(simulation, lambda: Transport(client.server, client._token), speed=60, key=kind)
        (fault,) = driven.faults
        found = _found(client, run, fault.label)
    finally:
        watching.end()
    (cause, *_) = found.document.causes
    assert (cause.label, cause.layer) == (fault.label, fault.layer)
    if fault.nodes:
        assert set(cause.suspects.nodes) <= set(fault.nodes), cause.suspects
    delays = [at - watching.events[event] for event, at in watching.diagnoses.items() if event in watching.events]
    print(f"{kind}: from an event to its diagnosis {', '.join(f'{delay:.1f} s' for delay in delays)}")
    # A line that proves something is the line of its stream.
    lines = [one for one in cause.evidence if one.stream is not None]
    for one in lines:
        (line,) = client.log_page(run, one.stream, from_n=one.line, limit=1).lines
        assert one.text.split()[-1] in line.text


def test_pages_for_people_hold_nothing_that_a_log_can_do(client):
    drive(simulate(4, kind="gpu_oom", ranks=2, steps=60), lambda: Transport(client.server, client._token), speed=120,
          key="pages")  # fmt: skip
    run = derived_run_id("default", "pages")
    _found(client, run, "gpu_oom")
    for form, type_ in (("markdown", "text/markdown"), ("html", "text/html")):
        host = client.server.removeprefix("http://")
        connection = http.client.HTTPConnection(host, timeout=60)
        headers = {"Authorization": f"Bearer {client._token}"}
        connection.request("GET", f"/api/v1/runs/{run}/diagnosis?format={form}", headers=headers)
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        assert (answer.status, answer.headers["content-type"].split(";")[0]) == (200, type_)
        assert "gpu" in text and "script" not in text


def test_a_run_without_a_diagnosis_gets_one_on_demand(client):
    simulation = simulate(3, kind="clean", ranks=2, steps=40, oddities=False)
    drive(simulation, lambda: Transport(client.server, client._token), speed=120, key="clean")
    run = derived_run_id("default", "clean")
    with pytest.raises(NotFound) as refused:
        client.diagnosis(run)
    assert refused.value.code == "no_diagnosis"
    made = client.make_diagnosis(run)
    assert (made.attempt, made.document.outcome, made.document.causes) == (1, "healthy", [])


def _found(client, run, label):
    """The diagnosis of the run that names the label; else the newest, when the time is over."""
    until, found = time.monotonic() + WAIT_S, []
    while True:
        with contextlib.suppress(Unavailable):
            found = client.diagnoses(run)
        right = [one for one in found if one.document.causes and one.document.causes[0].label == label]
        if right:
            return right[0]
        if time.monotonic() > until:
            raise AssertionError([(one.event, one.document.outcome, one.document.causes) for one in found])
        time.sleep(0.5)
