"""kill -9 at any moment, and a disk that fills: nothing acknowledged is lost, nothing is there twice."""

import contextlib
import json
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from stepward.ingest.committer import catch_up
from stepward.store.logs import LogStore
from stepward.store.points.duckdb import DuckDBPoints

pytestmark = pytest.mark.integration
PROGRAM = Path(__file__).with_name("committing.py")
LIMIT_S = 600.0
"""Eighty acknowledgements take seconds; beside thirty other processes that want the same processors, minutes."""


class Serving:
    """The program, what it acknowledged, and its end."""

    def __init__(self, data: Path, seed: int, *words: str) -> None:
        self.acknowledged: dict[str, int] = {}
        self.refused: set[str] = set()
        self.count = 0
        self._ended = False
        self._changed = threading.Condition()
        self._process = subprocess.Popen(
            [sys.executable, str(PROGRAM), str(data), str(seed), *words], stdout=subprocess.PIPE, text=True
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def wait_for(self, count: int, refusal: str | None = None) -> None:
        """Until so many acknowledgements came, or a refusal of that code."""
        with self._changed:
            self._changed.wait_for(lambda: self._ended or self._is_there(count, refusal), timeout=LIMIT_S)
            done = self._is_there(count, refusal)
        assert done, f"{self.count} acknowledgements, refusals: {self.refused}, exit code {self._process.poll()}"

    def _is_there(self, count: int, refusal: str | None) -> bool:
        return self.count >= count if refusal is None else refusal in self.refused

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        self._reader.join()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for text in self._process.stdout:
            if not text.endswith("\n") or text == "ready\n":
                continue
            who, what = text.split()
            with self._changed:
                if who == "later":
                    self.refused.add(what)
                else:
                    self.acknowledged[who] = int(what)
                    self.count += 1
                self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()


def check(data: Path, acknowledged: dict[str, int]) -> None:
    """Everything that was acknowledged is in both stores, once, and nothing that was not sent."""
    points, logs = DuckDBPoints(str(data)), LogStore(str(data))
    catch_up("p", points, [logs])
    positions = points.positions("p")
    for writer, end in acknowledged.items():
        assert positions[writer].end >= end
    for run in ("run_0", "run_1"):
        steps: dict[int, list[int]] = {}
        for piece in points.export("p", run, attempts={}):
            for row in map(json.loads, piece.splitlines()):
                assert row["value"] == row["step"]
                steps.setdefault(row["rank"], []).append(row["step"])
        streams = {stream.rank: stream for stream in logs.streams("p", run, attempts={})}
        for rank, found in steps.items():
            end = positions[f"w{rank}"].end
            assert sorted(found) == list(range(end))
            text = b"".join(logs.raw("p", run, streams[rank].id))
            assert text == b"".join(b"%09d\n" % number for number in range(end))
            assert (streams[rank].lines, streams[rank].lost_bytes) == (end, 0)
    points.close()
    logs.close()


@pytest.mark.timeout(3600)
def test_kill_9_at_random_moments_loses_nothing_and_doubles_nothing(tmp_path: Path, full_scale: bool) -> None:
    chance = random.Random(7)
    acknowledged: dict[str, int] = {}
    for turn in range(50 if full_scale else 4):
        serving = Serving(tmp_path, turn)
        serving.wait_for(chance.randrange(8, 80))
        serving.kill()
        for writer, end in serving.acknowledged.items():
            acknowledged[writer] = max(end, acknowledged.get(writer, 0))
        check(tmp_path, acknowledged)


@pytest.mark.timeout(3600)
def test_kill_9_during_a_rewrite_loses_nothing_and_doubles_nothing(tmp_path: Path, full_scale: bool) -> None:
    chance = random.Random(11)
    acknowledged: dict[str, int] = {}
    rewritten, turns = 0, 50 if full_scale else 6
    for turn in range(turns):
        serving = Serving(tmp_path, turn, "rewriting")
        serving.wait_for(chance.randrange(8, 120))
        if turn == turns - 1 and not rewritten:
            serving.wait_for(0, refusal="rewritten")
        serving.kill()
        rewritten += "rewritten" in serving.refused
        for writer, end in serving.acknowledged.items():
            acknowledged[writer] = max(end, acknowledged.get(writer, 0))
        check(tmp_path, acknowledged)
    assert rewritten, "a rewrite went through to its end in one of the turns"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=40m", "tmpfs", str(folder)], capture_output=True)
    if mounted.returncode:
        pytest.skip(f"no file system of its own can be mounted here: {mounted.stderr.decode().strip()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk_refuses_keeps_what_it_had_and_goes_on_when_there_is_space(small_disk: Path) -> None:
    serving = Serving(small_disk, 1)
    try:
        serving.wait_for(40)
        ballast = small_disk / "ballast"
        with open(ballast, "wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:  # to the last byte, while the server writes too
                file.write(bytes(64 << 10))
        serving.wait_for(0, refusal="disk_full")
        before = serving.count
        ballast.unlink()
        serving.wait_for(before + 40)
    finally:
        serving.kill()
    check(small_disk, serving.acknowledged)
