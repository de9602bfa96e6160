"""A house for end-to-end tests: a real server on a port of its own, and the command line as a user types it."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

START_S = 120.0
PATIENCE_S = 120.0


class House:
    """A folder with a server's data, a spool and the processes that a test started."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port = probe.getsockname()[1]
        self.data = folder / "data"
        self.url = f"http://127.0.0.1:{self.port}"
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("STEPWARD_", "XDG_"))}
        self.env = {
            **kept,
            "XDG_STATE_HOME": str(folder / "state"),
            "XDG_CONFIG_HOME": str(folder / "config"),
            "STEPWARD_DIR": str(folder / "spool"),
            "STEPWARD_SERVER": self.url,
            "PYTHONUNBUFFERED": "1",
        }
        self.server: subprocess.Popen | None = None
        self._started: list[subprocess.Popen] = []

    def start_server(self) -> None:
        command = ["up", "--data", str(self.data), "--host", "127.0.0.1", "--port", str(self.port)]
        log = self.folder / "server.log"
        self.server = self.spawn(command, output=log)

        def ready():
            assert self.server.poll() is None, f"the server ended: {log.read_text()[-2000:]}"
            with contextlib.suppress(OSError), urllib.request.urlopen(f"{self.url}/healthz", timeout=2) as answer:
                return answer.status == 200

        wait_until(ready, "the server to be ready", START_S)
        # The token is asked for by hand, since the server's own file is gone after a kill -9 and a new start.
        self.env["STEPWARD_TOKEN"] = (self.data / "token").read_text().strip()

    def kill_server(self) -> None:
        self.server.kill()
        self.server.wait(120)

    def stop_server(self) -> None:
        self.server.terminate()
        self.server.wait(120)

    def spawn(self, arguments, *, output, module="stepward", **changes) -> subprocess.Popen:
        """Start ``python -m stepward ARGUMENTS`` with its output appended to a file; ended at the end of the test."""
        with open(output, "ab") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", module, *map(str, arguments)] if module else list(map(str, arguments)),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                env={**self.env, **changes},
                cwd=self.folder,
                start_new_session=True,
            )
        self._started.append(process)
        return process

    def python(self, script: Path, *arguments, output=None, **changes) -> subprocess.Popen:
        """Start a script without a wrapper."""
        command = [sys.executable, script, *arguments]
        return self.spawn(command, output=output or self.folder / f"{script.stem}.log", module=None, **changes)

    def cli(self, *arguments, check=True, timeout=120) -> str:
        """What a command prints."""
        command = [sys.executable, "-m", "stepward", *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, env=self.env, cwd=self.folder, timeout=timeout)
        assert not check or done.returncode == 0, (
            f"stepward {arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        )
        return done.stdout

    def show(self, run: str) -> dict | None:
        """``stepward show RUN --format json``; None while the server has not heard of the run."""
        command = [sys.executable, "-m", "stepward", "show", run, "--format", "json"]
        done = subprocess.run(command, capture_output=True, text=True, env=self.env, timeout=180)
        return json.loads(done.stdout) if done.returncode == 0 else None

    def metric(self, name: str) -> float:
        """A number that the server tells about itself at ``/metrics``."""
        headers = {"Authorization": f"Bearer {self.env['STEPWARD_TOKEN']}"}
        with urllib.request.urlopen(
            urllib.request.Request(f"{self.url}/metrics", headers=headers), timeout=60
        ) as answer:
            lines = answer.read().decode().splitlines()
        return next(float(line.split()[1]) for line in lines if line.startswith(f"{name} "))

    def points(self, run: str) -> list[dict]:
        """``stepward export RUN``: every stored point that a user logged; not those of the node, nor step times."""
        rows = map(json.loads, self.cli("export", run).splitlines())
        return [row for row in rows if not row["metric"].startswith(("system/", "step/"))]

    def close(self) -> None:
        for process in reversed(self._started):
            if process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait(120)


def wait_until(found, what: str, limit_s: float = PATIENCE_S):
    """The first true answer of ``found``; fails with ``what`` when none comes."""
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        answer = found()
        if answer:
            return answer
        time.sleep(0.2)
    pytest.fail(f"waited {limit_s} s in vain for {what}")


@pytest.fixture(scope="session")
def until():
    return wait_until


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    """A house with a running server, for the tests of one file."""
    house = House(tmp_path_factory.mktemp("house"))
    try:
        house.start_server()
        yield house
    finally:
        house.close()


@pytest.fixture
def empty_house(tmp_path):
    """A house whose server is not started yet."""
    house = House(tmp_path)
    try:
        yield house
    finally:
        house.close()
