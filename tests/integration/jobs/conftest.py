"""A real server on the host of a real Slurm, asked by the client and by the command line."""

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import time
from typing import NamedTuple

import pytest

from stepward.cli.app import outcome
from stepward.client.api import Client
from stepward.model.states import State
from stepward.orchestrators.slurm.commands import Slurm

WAIT_S = 120.0
"""No measurement: as long as something that surely comes may take on a loaded machine."""


def until(true, what, seconds=WAIT_S):
    """Wait until something is so; its value."""
    end = time.monotonic() + seconds
    while not (value := true()):
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.2)
    return value


def ended(slurm, job):
    """The job's record once it has ended."""
    return until(lambda: (found := slurm.job(job)).state.terminal and found, f"the end of job {job}")


def begun(slurm, job):
    """The job's record once it runs."""
    return until(lambda: (found := slurm.job(job)).state is State.RUNNING and found, f"the start of job {job}")


class Done(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)


class Served:
    """A server that knows the Slurm of a lab as ``host``."""

    def __init__(self, lab, folder):
        self.lab, self.folder = lab, folder
        self.env = {name: value for name, value in os.environ.items() if not name.startswith("STEPWARD_")}
        self.env |= {"XDG_STATE_HOME": f"{folder}/state", "XDG_CONFIG_HOME": f"{folder}/config"}
        self.env |= {"STEPWARD_DIR": f"{folder}/spool", "SLURM_CONF": lab.conf}
        command = [sys.executable, "-m", "stepward", "up", "--data", f"{folder}/data", "--port", "0"]
        self.process = subprocess.Popen(command, env=self.env, stdout=subprocess.PIPE, text=True)
        next(line for line in self.process.stdout if "Sign in" in line)
        servers = f"{folder}/state/stepward/servers"
        with open(f"{servers}/{os.listdir(servers)[0]}") as file:
            self.url = json.load(file)["url"]
        with open(f"{folder}/data/token") as file:
            self.token = file.read().strip()
        self.client = Client(self.url, self.token)
        until(self._answers, "the server")

    def _answers(self):
        with contextlib.suppress(Exception):
            return self.client.health().status == "ok"

    def cli(self, *arguments, **env):
        """Run a command of the command line in this process."""
        out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
        own = {**self.env, "STEPWARD_SERVER": self.url, "STEPWARD_TOKEN": self.token, **env}
        with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            for name, value in own.items():
                patch.setenv(name, value)
            code = outcome(arguments)
        said = Done(code, out.buffer.getvalue().decode(), err.buffer.getvalue().decode())
        assert "Traceback" not in said.err
        return said

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(120) == 0
        self.process.stdout.close()


@pytest.fixture(scope="module")
def served(_shared_slurm_cluster, tmp_path_factory):
    """One server for the tests of a module."""
    served = Served(_shared_slurm_cluster, str(tmp_path_factory.mktemp("served")))
    yield served
    served.stop()


@pytest.fixture
def slurm(slurm_cluster):
    """The shared cluster, idle at the beginning, through our own eyes."""
    return Slurm(slurm_cluster.conf)
