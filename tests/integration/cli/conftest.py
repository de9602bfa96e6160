"""A real server and real runs in a spool, and the command line as a process of its own."""

import contextlib
import fcntl
import io
import json
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
import time
from typing import NamedTuple

import msgspec
import pytest

from stepward.cli.app import outcome
from stepward.model.frames import Config, LogChunk, Logs, Source
from stepward.model.identity import derived_run_id, ulid
from stepward.model.states import Exit, Witness
from stepward.model.words import SourceKind
from stepward.settings import ServerFile
from stepward.spool.journal import Journal, WriterMeta


@contextlib.contextmanager
def _environment(env):
    """This environment alone, for a while."""
    before = dict(os.environ)
    os.environ.clear()
    os.environ.update(env)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


class Done(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)


class Home:
    """Folders of a user, and a server of theirs."""

    def __init__(self, root):
        self.root = root
        self.data, self.spool = f"{root}/data", f"{root}/spool"
        # COLUMNS and LINES would speak over the size of the terminal that a test gives.
        inherited = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
        self.env = {name: value for name, value in inherited.items() if not name.startswith("STEPWARD_")}
        self.env |= {"XDG_STATE_HOME": f"{root}/state", "XDG_CONFIG_HOME": f"{root}/config", "STEPWARD_DIR": self.spool}
        self.env |= {"XDG_DATA_HOME": f"{root}/share", "PYTHONUNBUFFERED": "1"}
        self.server = None

    def start(self, *arguments):
        """Start the server and wait until it has said where it is."""
        command = [sys.executable, "-m", "stepward", "up", "--data", self.data, "--port", "0", *arguments]
        self.server = subprocess.Popen(command, env=self.env, stdout=subprocess.PIPE, text=True)
        self.link = next(line for line in self.server.stdout if "Sign in" in line).split()[-1]
        folder = f"{self.root}/state/stepward/servers"
        with open(f"{folder}/{os.listdir(folder)[0]}", "rb") as file:
            self.url = msgspec.json.decode(file.read(), type=ServerFile).url
        deadline = time.monotonic() + 120
        while self("doctor", "--exit-code").code and time.monotonic() < deadline:
            time.sleep(0.2)

    def stop(self):
        """End the server as a service manager would."""
        if self.server is not None:
            self.server.send_signal(signal.SIGTERM)
            assert self.server.wait(120) == 0
            self.server.stdout.close()
            self.server = None
            assert os.listdir(f"{self.root}/state/stepward/servers") == []

    def popen(self, *arguments, **env):
        """Start a command."""
        return subprocess.Popen(
            [sys.executable, "-m", "stepward", *arguments],
            env={**self.env, **env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __call__(self, *arguments, **env):
        """Run a command to its end, in this process: a hundred interpreters would take minutes to start."""
        out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
        with _environment({**self.env, **env}), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                code = outcome(arguments)
            finally:
                texts = [stream.buffer.getvalue().decode() for stream in (out, err)]
        assert "Traceback" not in texts[1]
        return Done(code, *texts)

    def terminal(self, *arguments, columns=80, **env):
        """Run a command on a terminal of so many columns; what it wrote there."""
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        process = subprocess.Popen(
            [sys.executable, "-m", "stepward", *arguments],
            env={**self.env, "TERM": "xterm-256color", **env},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
        )
        os.close(theirs)
        written = b""
        # Linux says EIO when the last process has let go of the terminal.
        with contextlib.suppress(OSError):
            while data := os.read(ours, 1 << 16):
                written += data
        os.close(ours)
        return process.wait(120), written.decode()

    def journal(self, key, *, project="llm", **config):
        """A journal of rank 0 of a run; delivered by ``stepward sync`` once it is closed."""
        run, now = derived_run_id(project, key), time.time_ns() // 1000
        source = Source(kind=SourceKind.RANK, attempt="a1", rank=0, node="n1", pid=os.getpid())
        meta = WriterMeta(project=project, run=run, writer=ulid(), source=source, created_at=now, key=key)
        journal = Journal.create(self.spool, meta)
        assert journal.emit("config", Config(key=key, started_at=now, ranks=1, **config))
        return journal

    def write(self, key, values=(), output=(), *, end=True, **config):
        """A whole run: points of ``loss``, lines of output, exit 0."""
        journal, now = self.journal(key, **config), time.time_ns() // 1000
        keyset = journal.define([("loss", "", None)])
        for step, value in enumerate(values):
            assert journal.row(keyset, step, now + step, [value])
        data = b"".join(line + b"\n" for line in output)
        if data:
            assert journal.emit("logs", Logs([LogChunk("stdout", 0, data, [(0, now)], rank=0)]))
        if end:
            assert journal.emit("exit", Exit(at=now, by=Witness.REAPER, exit_code=0, rank=0))
        journal.close()


@pytest.fixture(scope="session")
def home(tmp_path_factory):
    """A user with a server and three runs in it: two of one name, one whose name bites."""
    home = Home(str(tmp_path_factory.mktemp("home")))
    try:
        home.start()
        home.write(
            "one", [0.5, float("nan"), 0.25], [b"start", b"\x1b[31mred\x1b[0m", b"end"], name="twin", user={"lr": 1}
        )
        home.write("two", [0.75], name="twin", user={"lr": 2}, tags=["ablation"])
        home.write("bad", [1e308], name="evil\x1b[2J\u202e模型🚀")
        done = home("sync")
        assert (done.code, done.err) == (0, "")
        yield home
    finally:
        home.stop()


@pytest.fixture
def empty_home(tmp_path):
    """A user without a server."""
    home = Home(str(tmp_path))
    yield home
    home.stop()
