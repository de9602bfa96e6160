"""Runs scripts with the SDK in real processes and reads back what they left in the spool."""

import dataclasses
import os
import signal
import struct
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import msgspec
import pytest

from stepward.model import frames
from stepward.spool import records
from stepward.spool.reader import Gap, Reader
from stepward.spool.writers import WriterMeta, folders, read_meta


@dataclasses.dataclass
class Written:
    """What one writer left: rows as (step, {metric: value}), steps as (step, duration, {phase: seconds}), payloads."""

    meta: WriterMeta
    rows: list = dataclasses.field(default_factory=list)
    steps: list = dataclasses.field(default_factory=list)
    payloads: list = dataclasses.field(default_factory=list)

    def of(self, kind):
        return [payload for name, payload in self.payloads if name == kind]

    def events(self, type=None):
        return [e for batch in self.of("events") for e in batch.events if type in (None, e.type)]

    def tree(self, name):
        merged = {}
        for config in self.of("config"):
            merged.update(getattr(config, name) or {})
        return merged

    def value(self, metric):
        return [(step, row[metric]) for step, row in self.rows if metric in row]

    @property
    def exit(self):
        told = self.of("exit")
        assert len(told) <= 1, told
        return told[0] if told else None

    @property
    def lines(self):
        return b"".join(chunk.data for logs in self.of("logs") for chunk in logs.chunks).decode()


def read_writer(folder: Path) -> Written:
    reader = Reader(str(folder))
    written = Written(read_meta(str(folder)))
    for item in reader.read(0, finished=True):
        assert not isinstance(item.what, Gap), item
        type, content = item.what
        if type == records.ROUNDED_ROW:
            content = records.read_rounded(content)[1]
        if type in (records.ROW, records.ROUNDED_ROW):
            keyset, step, _ = struct.unpack_from("<Iqq", content)
            series = reader.series[keyset]
            values = struct.unpack_from(f"<{len(series)}d", content, records.ROW_HEAD)
            written.rows.append((step, {s.metric: v for s, v in zip(series, values, strict=True)}))
        elif type == records.STEP:
            phases, step, _, duration = struct.unpack_from("<Iqqd", content)
            columns = reader.phases[phases]
            seconds = struct.unpack_from(f"<{len(columns)}d", content, records.STEP_HEAD)
            written.steps.append((step, duration, {c.name: s for c, s in zip(columns, seconds, strict=True)}))
        elif type == records.PAYLOAD:
            kind, data = records.read_payload(content)
            written.payloads.append((kind, msgspec.msgpack.decode(data, type=frames.KINDS[kind])))
    return written


def read_spool(spool: str) -> dict[str, list[Written]]:
    """run folder -> what its writers left, by rank, then in order of their start."""
    found = {}
    for run in folders(spool):
        all_writers = [read_writer(Path(spool, run, name)) for name in folders(f"{spool}/{run}")]
        if all_writers:
            found[run] = sorted(all_writers, key=lambda w: (w.meta.source.rank, w.meta.writer))
    return found


class Script:
    """A training script in a process of its own, and the spool that it writes to."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.spool = os.environ["STEPWARD_DIR"]
        self.processes: list[subprocess.Popen] = []

    def start(self, source: str, *command: str, python: str = sys.executable, env: dict | None = None, **more):
        path = self.folder / f"train{len(self.processes)}.py"
        path.write_text("import os, sys, time, signal\nimport stepward as sw\n" + textwrap.dedent(source))
        # An own cgroup-less, launcher-less world: what runs the tests must not name the run.
        outer = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM_", "PMIX_", "RANK", "TORCHELASTIC"))}
        process = subprocess.Popen(
            [python, *command, str(path)],
            env={**outer, "PYTHONPATH": str(Path(__file__).parents[3] / "src"), **(env or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **more,
        )
        self.processes.append(process)
        return process

    def run(self, source: str, *command: str, code: int | None = None, **more):
        """Run to the end; the process's output."""
        process = self.start(source, *command, **more)
        out, err = process.communicate(timeout=120)
        assert code is None or process.returncode == code, (process.returncode, out, err)
        return process, out, err

    def written(self) -> list[Written]:
        """Writers of the only run."""
        spool = read_spool(self.spool)
        assert len(spool) == 1, list(spool)
        return next(iter(spool.values()))

    def runs(self) -> dict[str, list[Written]]:
        return read_spool(self.spool)

    def close(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
                process.communicate()


@pytest.fixture
def script(tmp_path):
    made = Script(tmp_path)
    yield made
    made.close()


@pytest.fixture
def wait_for_line():
    """Read a process's stdout up to a line; time only bounds a failure."""

    def wait(process, line):
        deadline = time.monotonic() + 120
        for got in iter(process.stdout.readline, ""):
            if got.strip() == line:
                return
            assert time.monotonic() < deadline
        raise AssertionError(f"ended before {line!r}: {process.communicate()}")

    return wait


@pytest.fixture(scope="session")
def frameworks_python() -> str:
    """The interpreter with torch, transformers and lightning (tests/integration/frameworks-requirements.txt)."""
    own = Path(__file__).parents[3] / ".venv-frameworks/bin/python"
    python = os.environ.get("STEPWARD_FRAMEWORKS_PYTHON") or str(own)
    if not os.access(python, os.X_OK):
        pytest.skip(f"no torch: {python} is missing; see tests/integration/frameworks-requirements.txt")
    return python
