"""A spool, writers that get killed, and a server that lies, all in processes of their own."""

import os
import signal
import struct
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from stepward.model.frames import Source
from stepward.model.identity import ulid
from stepward.model.words import SourceKind
from stepward.settings import Settings
from stepward.spool.journal import Journal, WriterMeta

HERE = Path(__file__).parent
RUN = "run_" + "b" * 26


class LiarServer:
    """Handle of the lying server's process."""

    def __init__(self, folder: Path):
        self.folder = folder
        folder.mkdir(exist_ok=True)
        self.say("good")
        self.process: subprocess.Popen | None = None
        self.port = 0

    def start(self):
        (self.folder / "port").unlink(missing_ok=True)
        arguments = [sys.executable, str(HERE / "liar.py"), str(self.folder), str(self.port)]
        self.process = subprocess.Popen(arguments)
        wait_for((self.folder / "port").exists, "the server's port")
        self.port = int((self.folder / "port").read_text())
        return self

    def stop(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def say(self, mode):
        (self.folder / "mode.new").write_text(mode)
        os.rename(self.folder / "mode.new", self.folder / "mode")

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def lines(self, name):
        path = self.folder / name
        return path.read_text().splitlines() if path.exists() else []

    def rows(self):
        """(writer, step) -> how often it was committed."""
        return Counter((line.split()[0], int(line.split()[1])) for line in self.lines("rows"))

    def forget(self):
        """Forget the rows that were committed until now; positions stay."""
        (self.folder / "rows").unlink(missing_ok=True)

    def asked(self, mode):
        return sum(line.startswith(mode + " ") for line in self.lines("asked"))


class WriterProcess:
    """A process that logs; ``accepted`` counts what its calls returned from."""

    def __init__(self, spool: Path, counter: Path, mode: str, env=None):
        counter.write_bytes(bytes(16))
        self.counter = counter
        arguments = [sys.executable, str(HERE / "writer.py"), str(spool), RUN, str(counter), mode]
        self.process = subprocess.Popen(
            arguments, stdout=subprocess.PIPE, env={**os.environ, **(env or {})}, start_new_session=True
        )
        assert self.process.stdout.readline() == b"ready\n"

    def accepted(self, which=0):
        return struct.unpack_from("<q", self.counter.read_bytes(), 8 * which)[0]

    def kill(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()


def wait_for(condition, what, timeout_s=120.0):
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, f"waited {timeout_s} s for {what}"
        time.sleep(0.01)


@pytest.fixture(name="wait_for")
def _wait_for():
    return wait_for


@pytest.fixture
def liar(tmp_path):
    server = LiarServer(tmp_path / "liar").start()
    yield server
    server.stop()


@pytest.fixture
def spool(tmp_path):
    return tmp_path / "spool"


@pytest.fixture
def settings_of(spool):
    def make(server):
        return Settings(server=server.url, token="t", spool=str(spool))

    return make


@pytest.fixture
def start_writer(tmp_path, spool):
    started = []

    def start(mode, env=None):
        started.append(WriterProcess(spool, tmp_path / f"counter{len(started)}", mode, env))
        return started[-1]

    yield start
    for writer in started:
        if writer.process.poll() is None:
            writer.kill()


@pytest.fixture
def create(spool):
    made = []

    def make(run=RUN):
        source = Source(kind=SourceKind.RANK, attempt="a", rank=0)
        made.append(
            Journal.create(str(spool), WriterMeta(project="p", run=run, writer=ulid(), source=source, created_at=1))
        )
        return made[-1]

    yield make
    for journal in made:
        journal.close()
