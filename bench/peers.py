"""What a point costs from the caller until it is durable, and what it takes to draw it: stepward beside its peers, in one run.

    python bench/peers.py [--rows 10000] [--peers FOLDER] [--only NAME ...]

Every system gets the same rows of 50 scalars in the way that its users log them, in a process of its own; peers live in
virtual environments made by pip under ``--peers`` and kept. ``write`` is CPU of all processes of a system (client, server,
children) from the first row until all are on disk; Bytes are those of the data folder, of
stepward once its server has ended and folded its log. ``read`` draws one metric of 10,000 points (of as many as
were written, where writing is so slow that there are fewer): CPU and wall until a client has the numbers. MLflow is its
server with one worker on SQLite, fed by ``log_batch`` of a row. A peer that can't be installed or fails is said, with its
reason.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

METRICS = 50
COMMON = f"""
import json, os, random, subprocess, sys, tempfile, time
ROWS, METRICS = int(sys.argv[1]), {METRICS}
NAMES = [f"metric/{{n}}" for n in range(METRICS)]
folder = tempfile.mkdtemp()
os.chdir(folder)
rows = [dict(zip(NAMES, (random.gauss(0, 1) for _ in NAMES))) for _ in range(ROWS)]
def cpu(pids=()):
    spent = sum(os.times()[:4])
    for pid in pids:
        with open(f"/proc/{{pid}}/stat") as file:
            spent += sum(map(int, file.read().rsplit(")", 1)[1].split()[11:15])) / os.sysconf("SC_CLK_TCK")
    return spent
def size(path):
    return sum(os.path.getsize(os.path.join(at, name)) for at, _, names in os.walk(path) for name in names)
def below(pid):
    found = [pid]
    for one in found:
        try:
            for task in os.listdir(f"/proc/{{one}}/task"):
                with open(f"/proc/{{one}}/task/{{task}}/children") as file:
                    found += map(int, file.read().split())
        except OSError:
            pass
    return found
def report(begun, cpu_begun, pids=(), path=folder, stop=lambda: None, **more):
    spent, wall = cpu(pids) - cpu_begun, time.perf_counter() - begun
    stop()
    print(json.dumps({{"write_cpu_us_a_point": spent / ROWS / METRICS * 1e6, "points_a_s": ROWS * METRICS / wall,
                      "bytes_a_point": size(path) / ROWS / METRICS, **more}}), flush=True)
def timed(read, pids=()):
    read()
    begun, cpu_begun = time.perf_counter(), cpu(pids)
    points = read()
    return {{"read_ms": (time.perf_counter() - begun) * 1e3, "read_cpu_ms": (cpu(pids) - cpu_begun) * 1e3, "read_points": points}}
"""

SERVED = """
import socket, urllib.request
def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]
def until_up(url, seconds=240):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            return urllib.request.urlopen(url, timeout=5).read()
        except OSError:
            time.sleep(0.2)
    raise SystemExit(f"{url} did not come up")
"""

SCRIPTS = {
    "stepward": SERVED
    + """
port = free_port()
os.environ |= {"XDG_STATE_HOME": folder + "/state", "STEPWARD_DIR": folder + "/spool"}
server = subprocess.Popen([sys.executable, "-m", "stepward", "up", "--data", folder + "/data", "--port", str(port)],
                          stdout=subprocess.DEVNULL)
try:
    until_up(f"http://127.0.0.1:{port}/healthz")
    import stepward
    pids = below(server.pid)
    begun, spent = time.perf_counter(), cpu(pids)
    run = stepward.init(project="bench", name="peer")
    for step, row in enumerate(rows):
        run.log(row, step=step)
    run.finish()
    with open(folder + "/data/token") as file:
        headers = {"Authorization": "Bearer " + file.read().strip()}
    def get(path):
        asked = urllib.request.Request(f"http://127.0.0.1:{port}/api/v1/{path}", headers=headers)
        return json.load(urllib.request.urlopen(asked))
    def there():
        try:
            return sum(series["count"] for series in get(f"runs/{run.id}/series") if series["metric"] in NAMES)
        except urllib.request.HTTPError as error:
            if error.code != 404:  # on a busy machine the run may not have begun there yet
                raise
            return 0
    while there() < ROWS * METRICS:
        time.sleep(0.02)
    wall, spent_all = time.perf_counter(), cpu(pids)
    more = timed(lambda: sum(sum(line["count"]) for line in get(f"runs/{run.id}/points?metric=metric/7")["lines"]), pids)
    begun, spent = begun + time.perf_counter() - wall, spent + cpu(pids) - spent_all
    def stop():
        server.terminate()
        server.wait()
    report(begun, spent, pids, folder + "/data", stop, **more)
finally:
    server.terminate()
    server.wait()
""",
    "mlflow": SERVED
    + """
port = free_port()
server = subprocess.Popen([sys.executable, "-m", "mlflow", "server", "--backend-store-uri", f"sqlite:///{folder}/m.db",
    "--port", str(port), "--workers", "1"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
try:
    until_up(f"http://127.0.0.1:{port}/health")
    from mlflow.entities import Metric
    from mlflow.tracking import MlflowClient
    client = MlflowClient(f"http://127.0.0.1:{port}")
    run = client.create_run(client.create_experiment("e")).info.run_id
    pids = below(server.pid)
    begun, spent = time.perf_counter(), cpu(pids)
    for step, row in enumerate(rows):
        client.log_batch(run, [Metric(name, value, int(time.time() * 1e3), step) for name, value in row.items()])
    wall, spent_all = time.perf_counter(), cpu(pids)
    more = timed(lambda: len(client.get_metric_history(run, "metric/7")), pids)
    begun, spent = begun + time.perf_counter() - wall, spent + cpu(pids) - spent_all
    report(begun, spent, pids, folder, **more)
finally:
    import signal
    os.killpg(server.pid, signal.SIGTERM)
    server.wait()
""",
    "trackio": """
os.environ["TRACKIO_DIR"] = folder
import trackio
begun, spent = time.perf_counter(), cpu()
try:
    run = trackio.init(project="bench", name="peer", space_id=None, embed=False)
except TypeError:
    run = trackio.init(project="bench", name="peer")
for step, row in enumerate(rows):
    trackio.log(row, step=step)
trackio.finish()
report(begun, spent)
""",
    "wandb": """
os.environ |= {"WANDB_MODE": "offline", "WANDB_SILENT": "true", "WANDB_DIR": folder}
import wandb
begun, spent = time.perf_counter(), cpu()
run = wandb.init(project="bench", dir=folder)
pids = [pid for pid in below(os.getpid()) if pid != os.getpid()]
before = cpu(pids) - cpu()
for step, row in enumerate(rows):
    run.log(row, step=step)
run.finish()
report(begun, spent)
""",
    "tensorboard": """
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter
begun, spent = time.perf_counter(), cpu()
writer = EventFileWriter(folder)
for step, row in enumerate(rows):
    for name, value in row.items():
        writer.add_event(Event(wall_time=time.time(), step=step,
                               summary=Summary(value=[Summary.Value(tag=name, simple_value=value)])))
writer.close()
wall, spent_all = time.perf_counter(), cpu()
def read():
    reader = EventAccumulator(folder, size_guidance={"scalars": 0})
    reader.Reload()
    return len(reader.Scalars("metric/7"))
more = timed(read)
begun, spent = begun + time.perf_counter() - wall, spent + cpu() - spent_all
report(begun, spent, **more)
""",
}
SHARES = {"mlflow": 0.05}
"""Share of the rows that a slow peer gets: a row of MLflow takes seconds of CPU."""


def interpreter(name: str, folder: str) -> str:
    """The Python of a peer's environment, made where there is none."""
    if name == "stepward":
        return sys.executable
    python = f"{folder}/{name}/bin/python"
    if not os.path.exists(f"{folder}/{name}/ready"):
        subprocess.run([sys.executable, "-m", "venv", f"{folder}/{name}"], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", name], check=True, capture_output=True)
        with open(f"{folder}/{name}/ready", "w"):
            pass
    return python


def measure_peer(name: str, rows: int, folder: str, python: str | None = None) -> dict[str, Any]:
    """Figures of one system, or why there are none."""
    rows = max(20, int(rows * SHARES.get(name, 1.0)))
    try:
        command = [python or interpreter(name, folder), "-c", COMMON + SCRIPTS[name], str(rows)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=1200, check=True)
        return {"rows": rows, **json.loads(done.stdout.strip().splitlines()[-1])}
    except (subprocess.SubprocessError, OSError, ValueError, IndexError) as error:
        said = getattr(error, "stderr", None) or str(error)
        said = said.decode(errors="replace") if isinstance(said, bytes) else said
        return {"rows": rows, "failed": said.strip().splitlines()[-1][:300] if said.strip() else repr(error)}


def measure_all(rows: int, folder: str, names: Sequence[str], python: str | None = None) -> dict[str, Any]:
    """Every system, and how many times our CPU a point it takes."""
    results = {name: measure_peer(name, rows, folder, None if name == "stepward" else python) for name in names}
    ours = results.get("stepward", {}).get("write_cpu_us_a_point")
    for result in results.values():
        if ours and "write_cpu_us_a_point" in result:
            result["times_ours"] = round(result["write_cpu_us_a_point"] / ours, 1)
    return results


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--peers", default=os.path.join(tempfile.gettempdir(), "stepward-bench-peers"))
    parser.add_argument("--python", help="one interpreter that has all peers, instead of an environment each")
    parser.add_argument("--only", nargs="*", default=list(SCRIPTS))
    args = parser.parse_args(argv)
    result = measure_all(args.rows, args.peers, args.only, args.python)
    print(json.dumps({"load_average": os.getloadavg()[0], "metrics": METRICS, "peers": result}, indent=2))


if __name__ == "__main__":
    main()
