"""No accepted point is lost or doubled, whatever dies: the training process, the server, its disk, the network.

The child writes down each value after ``log()`` has returned (one ``os.write``, which a kill -9 does not undo); what the
server exports is held against that record. Medians of the child's step are printed (``pytest -rP``), not asserted: they
belong to the benchmarks.
"""

import os
import random
import socket
import statistics
import struct
import subprocess
import threading
import time

import pytest

pytestmark = [pytest.mark.integration, pytest.mark.e2e, pytest.mark.timeout(1800)]

RECORD = struct.Struct("<qd")
CHILD = """
import os, struct, sys, time
import stepward as sw

record, steps, pause = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND), int(sys.argv[2]), float(sys.argv[3])
run = sw.init(config={"steps": steps})
for step in range(steps):
    if os.path.exists(sys.argv[1] + ".stop"):
        break
    began = time.perf_counter()
    with run.step(step):
        run.log({"value": step, "square": float(step) ** 2}, step=step)
    os.write(record, struct.pack("<qd", step, time.perf_counter() - began))
    time.sleep(pause)
run.finish()
os.write(record, struct.pack("<qd", -1, 0.0))
"""


class Child:
    """A process that logs, with its own record of what was accepted."""

    def __init__(self, house, run, *, steps=1_000_000, pause=0.001):
        self.house, self.run, self.path = house, run, house.folder / f"{run}.record"
        script = house.folder / f"{run}.py"
        script.write_text(CHILD)
        self.process = house.python(script, self.path, steps, pause, STEPWARD_RUN=run)

    def record(self):
        data = self.path.read_bytes() if self.path.exists() else b""
        return list(RECORD.iter_unpack(data[: len(data) // RECORD.size * RECORD.size]))

    def accepted(self):
        return [step for step, _ in self.record() if step >= 0]

    def median_us(self):
        return statistics.median(duration for step, duration in self.record() if step >= 0) * 1e6

    def wait_for(self, count, until):
        until(lambda: len(self.accepted()) >= count, f"{count} accepted points")

    def stop(self):
        self.path.with_suffix(".record.stop").touch()

    def wait_end(self, limit_s=120):
        assert self.process.wait(limit_s) == 0, (self.house.folder / f"{self.run}.log").read_text()[-2000:]
        assert self.record()[-1][0] == -1


def stored(house, run):
    """Steps of the stored points, by metric, each with its right value."""
    steps = {"value": [], "square": []}
    for point in house.points(run):
        expected = point["step"] if point["metric"] == "value" else float(point["step"]) ** 2
        assert point["value"] == expected
        steps[point["metric"]].append(point["step"])
    return steps


def assert_all_there(child, *, killed=False):
    """Every accepted point is stored once. A kill may land between ``log()`` and the record: one more is right, too."""
    accepted = child.accepted()
    for metric, steps in stored(child.house, child.run).items():
        assert len(steps) == len(set(steps)), f"{metric}: a point is there twice"
        lost = sorted(set(accepted) - set(steps))
        assert not lost, f"{metric}: {len(lost)} of {len(accepted)} accepted points were lost, the first {lost[:5]}"
        assert len(set(steps) - set(accepted)) <= int(killed), f"{metric}: points that were never logged"


def synced(house):
    """``stepward sync`` until nothing is left: a killed process's locks may outlive it by a moment."""
    house.cli("sync")


@pytest.fixture(scope="module")
def samples(full_scale):
    return 200 if full_scale else 5


def test_a_killed_process_loses_nothing(house, until, samples):
    dice = random.Random(7)
    medians = []
    for number in range(samples):
        child = Child(house, f"killed-{number}", pause=dice.choice([0, 0, 0.001]))
        child.wait_for(1 + dice.randrange(20), until)
        time.sleep(dice.uniform(0, 0.6))
        child.process.kill()
        child.process.wait(120)
        synced(house)
        assert_all_there(child, killed=True)
        medians.append(child.median_us())
    print(f"median step: {statistics.median(medians):.1f} µs")


def test_a_server_killed_under_load_loses_nothing(empty_house, until, full_scale):
    house, dice = empty_house, random.Random(11)
    house.start_server()
    child = Child(house, "loaded", steps=20_000 if full_scale else 4_000)
    child.wait_for(100, until)
    while child.process.poll() is None:
        time.sleep(dice.uniform(0.3, 1.5))
        house.kill_server()
        time.sleep(dice.uniform(0, 0.5))
        house.start_server()
    child.wait_end()
    synced(house)
    assert_all_there(child)
    print(f"median step: {child.median_us():.1f} µs")


def test_a_server_that_is_down_costs_nothing(empty_house, full_scale):
    """The same loop without a server, and with a healthy one: nothing lost in either, both medians in the printout."""
    house = empty_house
    seconds = 60 if full_scale else 4
    alone = Child(house, "alone", steps=seconds * 500, pause=0.0015)
    alone.wait_end(seconds * 4 + 60)
    house.start_server()
    beside = Child(house, "beside", steps=seconds * 500, pause=0.0015)
    beside.wait_end(seconds * 4 + 60)
    synced(house)
    assert_all_there(alone)
    assert_all_there(beside)
    print(f"median step: {alone.median_us():.1f} µs; {beside.median_us():.1f} µs with a healthy server")


def test_a_black_hole_costs_nothing(empty_house, full_scale):
    """Something accepts connections at the server's address and never answers."""
    house = empty_house
    house.env["STEPWARD_TOKEN"] = "a-token-that-nobody-will-ever-read"
    seconds = 60 if full_scale else 4
    with _BlackHole(house.port) as hole:
        child = Child(house, "swallowed", steps=seconds * 500, pause=0.0015)
        child.wait_end(seconds * 4 + 60)
        assert hole.swallowed, "the child never tried"
    house.start_server()
    synced(house)
    assert_all_there(child)
    print(f"median step: {child.median_us():.1f} µs")


class _BlackHole:
    """Accepts, reads, and says nothing."""

    def __init__(self, port):
        self._listener = socket.create_server(("127.0.0.1", port))
        self._connections, self.swallowed = [], 0
        self._thread = threading.Thread(target=self._swallow, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        # Wakes the accept; closing alone would leave the port held by the blocked thread.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join(10)
        self._listener.close()
        for connection in self._connections:
            connection.close()

    def _swallow(self):
        while True:
            try:
                self._connections.append(self._listener.accept()[0])
            except OSError:
                return
            self.swallowed += 1


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 96 MiB for the server's data."""
    folder = tmp_path / "data"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=96m", "stepward-test", folder]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("no right to mount a small disk here: it takes root")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def test_a_full_disk_loses_nothing(small_disk, empty_house, until, full_scale):
    house = empty_house
    house.start_server()
    child = Child(house, "full")
    child.wait_for(200, until)
    ballast = small_disk / "ballast"
    _fill(ballast)
    at_full = len(child.accepted())
    child.wait_for(at_full + 2_000, until)
    assert house.server.poll() is None, "a full disk does not end the server"
    assert house.metric("stepward_frames_refused_total") > 0, "the disk was never full for the server"
    ballast.unlink()
    child.wait_for(len(child.accepted()) + (15_000 if full_scale else 1_000), until)
    child.stop()
    child.wait_end()
    synced(house)
    assert_all_there(child)
    print(f"median step: {child.median_us():.1f} µs")


def _fill(path):
    """Take every free block, in ever smaller pieces."""
    with open(path, "wb", buffering=0) as file:
        for size in (1 << 20, 1 << 16, 1 << 12):
            while True:
                try:
                    file.write(bytes(size))
                except OSError:
                    break
        os.fsync(file.fileno())
