"""Starts the wrapper as a user would, and reads what it has left in its journals."""

import contextlib
import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from stepward.model.frames import KINDS, Config, Exit, LogChunk, Payload, Status
from stepward.spool import records, writers

WAIT_S = 120.0


class Written:
    """The journal of one writer."""

    def __init__(self, folder: str) -> None:
        meta = writers.read_meta(folder)
        assert meta is not None, folder
        self.meta = meta
        self.payloads: list[Payload] = []
        self.points: dict[str, list[float]] = {}
        self._keysets: dict[int, list[Any]] = {}
        for segment in writers.segments(folder):
            with open(segment.path, "rb") as file:
                self._read(file.read())

    def _read(self, data: bytes) -> None:
        at = 0
        while at + records.OVERHEAD <= len(data):
            (length,) = struct.unpack_from("<I", data, at)
            if not length:
                break
            content = memoryview(data)[at + 5 : at + 5 + length]
            self._take(data[at + 4], content)
            at += length + records.OVERHEAD

    def _take(self, type: int, content: memoryview) -> None:
        if type == records.KEYSET:
            number, series = records.read_keyset(content)
            self._keysets[number] = series
        elif type == records.ROW:
            number, _step, _time = struct.unpack_from("<Iqq", content)
            values = memoryview(bytes(content[records.ROW_HEAD :])).cast("d")
            for one, value in zip(self._keysets[number], values, strict=True):
                self.points.setdefault(one.metric, []).append(value)
        elif type == records.PAYLOAD:
            kind, packed = records.read_payload(content)
            self.payloads.append(msgspec.msgpack.decode(packed, type=KINDS[kind]))

    def of(self, kind: type[Any]) -> list[Any]:
        return [payload for payload in self.payloads if isinstance(payload, kind)]


class Journals:
    """All that was written below the spool, oldest writer first."""

    def __init__(self, root: str) -> None:
        runs = [f"{root}/{name}" for name in writers.folders(root)]
        folders = [f"{run}/{name}" for run in runs for name in writers.folders(run)]
        self.writers = sorted((Written(folder) for folder in folders), key=lambda writer: writer.meta.writer)

    @property
    def exits(self) -> list[Exit]:
        return [exit for writer in self.writers for exit in writer.of(Exit)]

    @property
    def statuses(self) -> list[Status]:
        return [status for writer in self.writers for status in writer.of(Status)]

    @property
    def configs(self) -> list[Config]:
        return [config for writer in self.writers for config in writer.of(Config)]

    @property
    def chunks(self) -> list[LogChunk]:
        return [chunk for writer in self.writers for logs in writer.payloads for chunk in getattr(logs, "chunks", [])]

    def end(self) -> Exit:
        """The reaper's word on the whole, of the last attempt."""
        return [exit for exit in self.exits if exit.rank is None and exit.by == "reaper"][-1]

    def output(self, stream: str, rank: int | None = None) -> bytes:
        """A stream, put together by offset; holes are an error unless they are counted."""
        data = bytearray()
        for chunk in sorted((c for c in self.chunks if c.stream == stream and c.rank == rank), key=lambda c: c.offset):
            assert len(data) + chunk.lost == chunk.offset, (len(data), chunk.lost, chunk.offset)
            data += chunk.data
        return bytes(data)


@pytest.fixture
def journals() -> Callable[[], Journals]:
    return lambda: Journals(os.environ["STEPWARD_DIR"])


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Starts ``stepward run`` with the given options and command; whatever is left at the end is killed by its pid."""
    started: list[subprocess.Popen[bytes]] = []

    def start(*arguments: str, **settings: Any) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "stepward", "run", *arguments]
        settings = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | settings
        process = subprocess.Popen(command, **settings)
        started.append(process)
        return process

    yield start
    for process in started:
        for pid in (*_children(process.pid), process.pid):
            if process.poll() is None or pid != process.pid:
                _kill(pid)
        process.wait(WAIT_S)
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


@pytest.fixture
def run(start: Callable[..., subprocess.Popen[bytes]]) -> Callable[..., subprocess.CompletedProcess[bytes]]:
    """Runs ``stepward run`` to its end."""

    def run(*arguments: str, **settings: Any) -> subprocess.CompletedProcess[bytes]:
        process = start(*arguments, **settings)
        out, err = process.communicate(timeout=120)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    return run


def until(look: Callable[[], Any]) -> Any:
    """Wait for something true; fails after ``WAIT_S``."""
    end = time.monotonic() + WAIT_S
    while time.monotonic() < end:
        found = look()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"did not come true in {WAIT_S} s: {look}")


@pytest.fixture(name="until")
def _until() -> Callable[..., Any]:
    return until


def _children(pid: int) -> list[int]:
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            return [int(child) for child in file.read().split()]
    except OSError:
        return []


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
