"""A real server and a real watcher over a real Slurm, each a process of its own, as a user would start them."""

import contextlib
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any
from urllib.parse import quote

import pytest

from stepward.clusters.providers.local import daemons

WAIT_S = 120.0
"""No measurement: as long as something that surely comes may take on a loaded machine."""


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


class Rig:
    """A server, a watcher and their cluster; ``folder`` is theirs alone."""

    def __init__(self, lab: Any, folder: str) -> None:
        self.lab, self.folder, self.port = lab, folder, free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.token = ""
        self.server: subprocess.Popen[bytes] | None = None
        self.watcher: subprocess.Popen[bytes] | None = None
        self.log = open(f"{folder}/log", "wb")  # noqa: SIM115

        self.front = f"{folder}/front"
        """Commands of this folder come first for the watcher."""
        os.mkdir(self.front)

    # ── processes ──

    def _environ(self, **more: str) -> dict[str, str]:
        own = {
            "HOME": self.folder,
            "XDG_CONFIG_HOME": f"{self.folder}/config",
            "XDG_STATE_HOME": f"{self.folder}/state",
        }
        return {"PATH": os.environ["PATH"], "PYTHONPATH": os.environ.get("PYTHONPATH", ""), **own, **more}

    def inside(self) -> dict[str, str]:
        """What a job needs to reach the server."""
        spool = {"STEPWARD_SERVER": self.url, "STEPWARD_TOKEN": self.token, "STEPWARD_DIR": f"{self.folder}/spool"}
        return self._environ(**spool)

    def start_server(self) -> None:
        argv = [sys.executable, "-m", "stepward", "up", "--data", f"{self.folder}/data", "--port", str(self.port)]
        self.server = subprocess.Popen(argv, env=self._environ(), stdout=self.log, stderr=self.log)
        self.until(self._answers, "the server")
        with open(f"{self.folder}/data/token") as file:
            self.token = file.read().strip()

    def _answers(self) -> bool:
        try:
            return urllib.request.urlopen(f"{self.url}/healthz", timeout=5).status == 200
        except OSError:
            return False

    def start_watcher(self) -> None:
        argv = [sys.executable, "-m", "stepward", "agent", "--watch", "--cluster", self.lab.slurm_name]
        environ = self.inside() | {"SLURM_CONF": self.lab.conf, "STEPWARD_DIR": f"{self.folder}/watching"}
        environ["PATH"] = f"{self.front}:{environ['PATH']}:/usr/sbin:/sbin"
        self.watcher = subprocess.Popen(argv, env=environ, stdout=self.log, stderr=self.log)

    def kill_watcher(self) -> None:
        assert self.watcher is not None
        self.watcher.send_signal(signal.SIGKILL)
        self.watcher.wait(120)

    def stop_server(self) -> None:
        assert self.server is not None
        self.server.send_signal(signal.SIGTERM)
        self.server.wait(120)

    def kill_controller(self) -> None:
        provider = self.lab.provider
        for process in daemons.running(provider.record, provider.layout, "slurmctld"):
            os.kill(process.pid, signal.SIGKILL)
        self.until(lambda: not daemons.running(provider.record, provider.layout, "slurmctld"), "the controller's end")

    def start_controller(self) -> None:
        self.lab.provider.supervise()
        self.until(lambda: "UP" in self.lab.run("scontrol", "ping", check=False), "the controller")

    def stop(self) -> None:
        for process in (self.watcher, self.server):
            if process is not None and process.poll() is None:
                process.send_signal(signal.SIGTERM)
                process.wait(120)
        self.log.close()

    # ── questions ──

    def get(self, path: str) -> Any:
        request = urllib.request.Request(f"{self.url}/api/v1/{path}", headers={"Authorization": f"Bearer {self.token}"})
        return json.load(urllib.request.urlopen(request, timeout=60))

    def delete(self, path: str) -> None:
        head = {"Authorization": f"Bearer {self.token}"}
        request = urllib.request.Request(f"{self.url}/api/v1/{path}", headers=head, method="DELETE")
        urllib.request.urlopen(request, timeout=60).close()

    def said(self) -> str:
        """What server and watcher have printed."""
        with open(f"{self.folder}/log", errors="replace") as file:
            return file.read()

    def runs(self, *jobs: str) -> dict[str, Any]:
        """Job -> its run, of the given jobs or of all."""
        prefix, found, cursor = f"slurm:{self.lab.slurm_name}:", {}, ""
        while True:
            page = self.get(f"runs?limit=500{cursor}")
            found |= {run["key"][len(prefix) :]: run for run in page["items"] if (run["key"] or "").startswith(prefix)}
            if not page.get("next_cursor"):
                break
            cursor = f"&cursor={quote(page['next_cursor'])}"
        return {job: run for job, run in found.items() if not jobs or job in jobs}

    def run(self, job: str) -> Any:
        return self.runs(job).get(job)

    def events(self, job: str, type: str) -> list[Any]:
        found = self.get(f"runs/{self.run(job)['id']}/events")
        items = found["items"] if isinstance(found, dict) else found
        return [event for event in items if event["type"] == type]

    def until(self, true: Callable[[], Any], what: str, seconds: float = WAIT_S) -> Any:
        """Wait until something is so; what it gives."""
        end = time.monotonic() + seconds
        while True:
            found = true()
            if found:
                return found
            if time.monotonic() > end:
                queue = self.lab.run("squeue", check=False)
                raise AssertionError(f"{what} did not come\n{self.said()[-4000:]}\n{queue}")
            time.sleep(0.2)

    def ended(self, job: str, state: str) -> Any:
        """The run of a job once its newest attempt is in that state."""

        def reached() -> Any:
            run = self.run(job)
            return run if run is not None and run["attempts"][-1]["state"] == state else None

        return self.until(reached, f"{state} of job {job} (is {self.run(job)})")

    def ended_for_the_watcher(self) -> set[str]:
        """The jobs that have ended and are told of, to their last line, as the watcher remembers: sent or not."""
        path = f"{self.folder}/watching/watcher/{self.lab.slurm_name}.db"
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as memory:
            return {name for (name,) in memory.execute("SELECT name FROM jobs WHERE ended = 1")}

    def accounted(self, job: str) -> list[dict[str, str]]:
        """Slurm's own record of a job's launches, instants in seconds since the epoch."""
        fields = ("JobName", "State", "Submit", "Start", "End", "NodeList")
        argv = ["sacct", "-D", "-X", "-n", "-P", "-j", job, "-o", ",".join(fields)]
        shown = subprocess.run(
            argv, env=self.lab.env | {"SLURM_TIME_FORMAT": "%s"}, capture_output=True, text=True, check=True
        ).stdout
        return [dict(zip(fields, line.split("|"), strict=True)) for line in shown.splitlines()]


TOLERANCE_S = 2.0
"""Of the contract: times of runs and Slurm's record."""


def seconds(instant: str) -> float:
    return datetime.fromisoformat(instant).timestamp()


def running(rig: Rig, job: str) -> Any:
    """The run of a job once it runs."""
    return rig.until(lambda: (rig.run(job) or {}).get("state") == "running" and rig.run(job), f"job {job}")


def check_times(rig: Rig, job: str) -> None:
    """The attempts of a job began and ended when Slurm says."""
    record = rig.until(
        lambda: all(one["End"] != "Unknown" for one in rig.accounted(job)) and rig.accounted(job), "its record"
    )
    attempts = rig.run(job)["attempts"]
    assert len(attempts) == len(record)
    for attempt, launch in zip(attempts, record, strict=True):
        assert abs(seconds(attempt["started_at"]) - int(launch["Start"])) <= TOLERANCE_S
        assert abs(seconds(attempt["ended_at"]) - int(launch["End"])) <= TOLERANCE_S


@pytest.fixture(scope="module")
def rig(_shared_slurm_cluster: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """Of all tests of a module: each asks for its own jobs alone."""
    _shared_slurm_cluster.tidy()
    made = Rig(_shared_slurm_cluster, str(tmp_path_factory.mktemp("rig")))
    try:
        made.start_server()
        made.start_watcher()
        yield made
    finally:
        made.stop()
        _shared_slurm_cluster.tidy()
