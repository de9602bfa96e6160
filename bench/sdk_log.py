"""What one ``log`` of 50 scalars costs: stepward beside Trackio, W&B (offline) and TensorBoard's writer (tensorboardX).

    python bench/sdk_log.py [--peers FOLDER] [--only NAME ...] [--seconds S] [--out FILE]

Each tracker runs in a process of its own, peers in virtual environments that are made by pip under ``--peers`` and kept for
the next time. Three loads: 100 calls a second (the training loop's view, with everything in the background alive), a tight
loop, and calls with the caches emptied before each (64 MiB are read), as a training step does it. stepward ships meanwhile
to a live ``stepward up``; ``stepward-alone`` knows no server. CPU is that of the process and of the children that it has
waited for, from before ``init`` until after ``finish``. A call of stepward returns when the points are in a mapped file that
survives the process; the others' return when they are in a queue or buffer of the process.

``empty`` does nothing and ``dict-copy`` copies the dict: what the machine takes for so small a thing at the same pace, when
caches are cold after a pause and others use the cores. ``pack-only`` looks the keys up, checks the types, packs the values
into a map and adds the checksum, in one function: what no recorder in Python that keeps this promise can be below.

Goals: p50 <= 10 µs and p99 <= 100 µs at 100 calls a second; tight loop >= 10 times the best peer.
"""

import argparse
import json
import mmap
import os
import platform
import resource
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
import zlib
from collections.abc import Callable
from datetime import UTC, datetime

SCALARS = 50
CALLS_A_SECOND = 100
PEERS = {"trackio": "trackio", "wandb-offline": "wandb", "tensorboardX": "tensorboardX"}
VALUES = {f"metric/{n}": n * 0.37 + 0.1 for n in range(SCALARS)}
MAX_CALLS = 200_000
BALLAST = b"1" * (64 << 20)
"""More than the caches hold; read outside of the interpreter lock, as a training step would."""
LOADS = ("paced", "tight", "evicted")
ALONE = "stepward-alone"


class Tracker:
    """One tracker, as its users call it."""

    def __init__(self, log: Callable[[int], object], finish: Callable[[], object]) -> None:
        self.log, self.finish = log, finish


def stepward() -> Tracker:
    import stepward as sw

    run = sw.init(project="bench", name="sdk_log")
    return Tracker(lambda step: run.log(VALUES, step=step), run.finish)


def trackio() -> Tracker:
    import trackio

    run = trackio.init(project="bench", embed=False)
    return Tracker(lambda step: run.log(VALUES, step=step), trackio.finish)


def wandb() -> Tracker:
    import wandb

    run = wandb.init(project="bench", mode="offline", settings=wandb.Settings(silent=True))
    return Tracker(lambda step: run.log(VALUES, step=step), run.finish)


def tensorboard() -> Tracker:
    from tensorboardX import SummaryWriter

    writer = SummaryWriter(os.path.join(os.environ["BENCH_FOLDER"], "events"))

    def log(step: int) -> None:
        for name, value in VALUES.items():
            writer.add_scalar(name, value, step)

    return Tracker(log, writer.close)


def pack_only() -> Tracker:
    pack_into, put = struct.Struct(f"<qq{SCALARS}d").pack_into, struct.Struct("<I").pack_into
    view, layouts, lock = memoryview(mmap.mmap(-1, 1 << 20)), {tuple(VALUES): 16 + 8 * SCALARS}, threading.RLock()

    def log(step: int) -> None:
        now, size, numbers = time.time_ns() // 1000, layouts[tuple(VALUES)], tuple(VALUES.values())
        if {float}.issuperset(map(type, numbers)):
            with lock:
                at = step % 2000 * (size + 4)
                pack_into(view, at, step, now, *numbers)
                put(view, at + size, zlib.crc32(view[at : at + size]))

    return Tracker(log, lambda: None)


def empty() -> Tracker:
    return Tracker(lambda step: None, lambda: None)


def dict_copy() -> Tracker:
    return Tracker(lambda step: dict(VALUES), lambda: None)


TRACKERS = {
    "empty": empty,
    "dict-copy": dict_copy,
    "pack-only": pack_only,
    "stepward": stepward,
    ALONE: stepward,
    "trackio": trackio,
    "wandb-offline": wandb,
    "tensorboardX": tensorboard,
}


def measure(name: str, load: str, seconds: float) -> dict[str, float]:
    """Run one tracker under one load in this process."""
    before = _cpu_s()
    tracker = TRACKERS[name]()
    for step in range(20):
        tracker.log(step)
    time.sleep(1.0)
    taken: list[int] = []
    begun = time.perf_counter_ns()
    end = begun + int(seconds * 1e9)
    pause = 1e9 / CALLS_A_SECOND if load == "paced" else 0.0
    step = 20
    while (now := time.perf_counter_ns()) < end and len(taken) < MAX_CALLS:
        if load == "evicted":
            zlib.adler32(BALLAST)
            now = time.perf_counter_ns()
        tracker.log(step)
        taken.append(time.perf_counter_ns() - now)
        step += 1
        if pause:
            time.sleep(max(0.0, (begun + (step - 20) * pause - time.perf_counter_ns()) / 1e9))
    loop_s = (time.perf_counter_ns() - begun) / 1e9
    finishing = time.perf_counter()
    tracker.finish()
    taken.sort()
    return {
        "calls": len(taken),
        "p50_us": taken[len(taken) // 2] / 1e3,
        "p99_us": taken[int(len(taken) * 0.99)] / 1e3,
        "max_us": taken[-1] / 1e3,
        "points_per_s": len(taken) * SCALARS / loop_s,
        "finish_s": time.perf_counter() - finishing,
        "cpu_s": _cpu_s() - before,
    }


def _cpu_s() -> float:
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def python_of(name: str, peers: str) -> str:
    """The interpreter of a peer's environment, which is made where it is missing."""
    if name not in PEERS:
        return sys.executable
    folder = os.path.join(peers, PEERS[name])
    if not os.path.exists(f"{folder}/bin/python"):
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([f"{folder}/bin/pip", "install", "-q", PEERS[name]], check=True)
    return f"{folder}/bin/python"


class Server:
    """A live ``stepward up`` in a process of its own."""

    def __init__(self, folder: str) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        command = [sys.executable, "-m", "stepward", "up", "--data", f"{folder}/data", "--port", str(port)]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        for _ in range(300):
            try:
                urllib.request.urlopen(f"{self.url}/readyz").read()
                return
            except OSError:
                time.sleep(0.1)
        raise SystemExit("the server did not come up")

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait()


def run(name: str, load: str, seconds: float, peers: str, server: str) -> dict[str, float] | str:
    """Measure in a fresh process; the last line of its errors where it fails."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            **os.environ,
            "BENCH_FOLDER": folder,
            "STEPWARD_DIR": f"{folder}/spool",
            **({"XDG_STATE_HOME": folder} if name == ALONE else {"STEPWARD_SERVER": server}),
            "TRACKIO_DIR": f"{folder}/trackio",
            "WANDB_DIR": folder,
        }
        command = [python_of(name, peers), os.path.abspath(__file__), "--measure", name, load, str(seconds)]
        done = subprocess.run(
            command, check=False, env=environment, cwd=folder, capture_output=True, text=True, timeout=600
        )
    if done.returncode:
        return (done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[-1]
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


def main() -> None:
    """Measure all, print a table, write the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", default=os.path.join(tempfile.gettempdir(), "stepward-bench-peers"))
    parser.add_argument("--only", nargs="*", default=list(TRACKERS))
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--out", default=f"bench/reports/{datetime.now(UTC):%Y-%m-%d}-sdk_log.json")
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        name, load, seconds = options.measure
        print(json.dumps(measure(name, load, float(seconds))))
        return
    report = {
        "bench": "sdk_log",
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {"python": platform.python_version(), "cpus": os.cpu_count(), "load": os.getloadavg()},
        "scalars": SCALARS,
        "results": {},
    }
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_STATE_HOME"] = f"{folder}/state"
        server = Server(folder)
        try:
            for name in options.only:
                loads = {load: run(name, load, options.seconds, options.peers, server.url) for load in LOADS}
                report["results"][name] = loads
                show(name, loads)
        finally:
            server.stop()
    os.makedirs(os.path.dirname(options.out) or ".", exist_ok=True)
    with open(options.out, "w") as file:
        json.dump(report, file, indent=1)
    print(f"report: {options.out}")


def show(name: str, loads: dict[str, dict[str, float] | str]) -> None:
    """One line a load."""
    for load, result in loads.items():
        if isinstance(result, str):
            print(f"{name:14} {load:7} failed: {result}")
        else:
            print(
                f"{name:14} {load:7} p50 {result['p50_us']:9.1f} µs  p99 {result['p99_us']:9.1f} µs  "
                f"{result['points_per_s']:12,.0f} points/s  CPU {result['cpu_s']:6.2f} s  finish {result['finish_s']:6.2f} s",
                flush=True,
            )


if __name__ == "__main__":
    main()
