"""The SDK without a wrapper against a real server: state, attempts, ranks and configuration as the API tells them."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

PATIENCE_S = 120.0


class Server:
    def __init__(self, folder: Path, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.data = folder / "data"
        self.log = folder / "server.log"
        command = [sys.executable, "-m", "stepward", "up", "--data", str(self.data), "--port", str(port)]
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(command, stdout=output, stderr=output, stdin=subprocess.DEVNULL)

    def get(self, path: str):
        token = (self.data / "token").read_text().strip()
        request = urllib.request.Request(self.url + path, headers={"Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    def wait(self, what):
        """What ``what`` answers, once it is true; the limit only bounds a failure."""
        deadline, last = time.monotonic() + PATIENCE_S, None
        while time.monotonic() < deadline:
            assert self.process.poll() is None, self.log.read_text()[-3000:]
            try:
                last = what()
            except (OSError, ValueError) as error:
                last = None if isinstance(error, urllib.error.URLError) else error
            if last and not isinstance(last, Exception):
                return last
            time.sleep(0.1)
        raise AssertionError((last, self.log.read_text()[-3000:]))

    def run(self, name: str):
        query = urllib.parse.urlencode({"filter": f'name = "{name}"'})
        items = self.get(f"/api/v1/runs?{query}")["items"]
        return items[0] if items else None

    def state(self, name: str, state: str):
        def reached():
            run = self.run(name)
            return run if run is not None and run["state"] == state else None

        return self.wait(reached)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("server")
    kept = {name: os.environ.get(name) for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME")}
    os.environ |= {"XDG_STATE_HOME": str(folder / "state"), "XDG_CONFIG_HOME": str(folder / "config")}
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    started = Server(folder, port)
    try:
        started.wait(lambda: started.get("/readyz"))
        yield started
    finally:
        started.process.terminate()
        started.process.wait(120)
        for name, value in kept.items():
            os.environ.pop(name, None) if value is None else os.environ.update({name: value})


@pytest.fixture
def env(server):
    return {"STEPWARD_SERVER": server.url, "STEPWARD_TOKEN": (server.data / "token").read_text().strip()}


@pytest.mark.parametrize(
    ("end", "code", "state", "told"),
    [
        ("pass", 0, "finished", {"exit_code": 0}),
        ("sys.exit(3)", 3, "failed", {"exit_code": 3}),
        ("raise ValueError('bad batch')", 1, "failed", {"exit_code": 1, "reason": "ValueError: bad batch"}),
        ("os.kill(os.getpid(), signal.SIGINT); time.sleep(9)", -2, "cancelled", {"signal": "SIGINT"}),
        ("os.kill(os.getpid(), signal.SIGTERM); time.sleep(9)", -15, "cancelled", {"signal": "SIGTERM"}),
    ],
)
def test_the_server_shows_how_it_ended(script, server, env, end, code, state, told, request):
    name = request.node.callspec.id
    source = f"run = sw.init(name={name!r}, config={{'lr': 0.5}}); run.log({{'loss': 2.0}}, step=4)\n{end}"
    script.run(source, code=code, env=env)
    run = server.state(name, state)
    (attempt,) = run["attempts"]
    assert {key: attempt[key] for key in told} == told
    assert run["latest"]["loss"] == {"step": 4, "value": 2.0}
    assert server.get(f"/api/v1/runs/{run['id']}/config")["user"] == {"lr": 0.5}


def test_a_killed_process_is_lost_and_its_points_arrive(script, server, env, wait_for_line):
    source = """
    run = sw.init(name='killed')
    for i in range(100): run.log({'loss': float(i)}, step=i)
    print('ready', flush=True); time.sleep(60)
    """
    process = script.start(source, env=env)
    wait_for_line(process, "ready")
    server.state("killed", "running")
    process.send_signal(signal.SIGKILL)
    process.wait(120)
    assert server.state("killed", "lost")
    script.run("sw.init(name='next').finish()", code=0, env=env)
    subprocess.run(
        [sys.executable, "-m", "stepward", "sync"], env={**os.environ, **env}, check=True, capture_output=True
    )
    run = server.run("killed")
    assert run["latest"]["loss"] == {"step": 99, "value": 99.0}
    (series,) = [s for s in server.get(f"/api/v1/runs/{run['id']}/series") if s["metric"] == "loss"]
    assert series["count"] == 100


def test_a_run_that_is_started_again_is_another_attempt(script, server, env):
    for start in (0, 3):
        steps = f"for i in range({start}, {start} + 5): run.log({{'loss': float(i)}}, step=i)"
        script.run(f"run = sw.init(name='again', run='again')\n{steps}", code=0, env=env)
    run = server.wait(lambda: (found := server.run("again")) and len(found["attempts"]) == 2 and found)
    assert [a["number"] for a in run["attempts"]] == [1, 2]
    assert run["latest"]["loss"] == {"step": 7, "value": 7.0}


TORCH = """
import torch.distributed as dist
import stepward as sw
run = sw.init(name="{name}")
dist.init_process_group("gloo")
for i in range(3):
    with run.step(i):
        dist.barrier()
    run.log({{"loss": float(dist.get_rank())}})
dist.barrier()
run.finish()
dist.destroy_process_group()
"""


@pytest.mark.parametrize("wrapped", [True, False], ids=["wrapped", "bare"])
def test_torchrun_is_one_run_with_the_right_ranks(script, server, env, frameworks_python, wrapped, request):
    name = f"torchrun-{request.node.callspec.id}"
    path = script.folder / "torch_train.py"
    path.write_text(TORCH.format(name=name))
    command = [frameworks_python, "-m", "torch.distributed.run", "--nproc-per-node=2", "--standalone", str(path)]
    if wrapped:
        command = [sys.executable, "-m", "stepward", "run", "--name", name, "--", *command]
    src = str(Path(__file__).parents[3] / "src")
    outer = {**os.environ, **env, "PYTHONPATH": src, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=outer, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr[-3000:]
    run = server.state(name, "finished")
    (attempt,) = run["attempts"]
    assert attempt["ranks"] == 2
    (series,) = [s for s in server.get(f"/api/v1/runs/{run['id']}/series") if s["metric"] == "loss"]
    assert (series["ranks"], series["count"]) == ([0, 1], 6)
    sources = server.get(f"/api/v1/runs/{run['id']}/sources")
    assert sorted(s["rank"] for s in sources if s["kind"] == "rank") == [0, 1]


def test_two_wrappers_of_one_torchrun_are_one_attempt(script, server, env, frameworks_python):
    """Two nodes x two ranks: each node's launcher stands below a wrapper of its own, as people start it by hand."""
    path = script.folder / "torch_train.py"
    path.write_text(TORCH.format(name="torchrun-2x2"))
    with socket.create_server(("127.0.0.1", 0)) as free:
        options = [
            "--nproc-per-node=2",
            "--nnodes=2",
            "--master-addr=127.0.0.1",
            f"--master-port={free.getsockname()[1]}",
        ]
    src = str(Path(__file__).parents[3] / "src")
    outer = {**os.environ, **env, "PYTHONPATH": src, "OMP_NUM_THREADS": "1", "STEPWARD_ATTEMPT": "first"}
    wrapper = [sys.executable, "-m", "stepward", "run", "--name", "torchrun-2x2", "--run", "two-by-two", "--"]
    launcher = [frameworks_python, "-m", "torch.distributed.run", *options]
    nodes = [
        subprocess.Popen(
            [*wrapper, *launcher, f"--node-rank={node}", str(path)], env=outer, stderr=subprocess.PIPE, text=True
        )
        for node in range(2)
    ]
    for node in nodes:
        said = node.communicate(timeout=200)[1]
        assert node.returncode == 0, said[-3000:]
    run = server.state("torchrun-2x2", "finished")
    (attempt,) = run["attempts"]
    assert attempt["ranks"] == 4
    (series,) = [s for s in server.get(f"/api/v1/runs/{run['id']}/series") if s["metric"] == "loss"]
    assert (series["ranks"], series["count"]) == ([0, 1, 2, 3], 12)


JAX = """
import os
os.environ["JAX_PLATFORMS"] = "cpu"
import jax
import stepward as sw
address = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
jax.distributed.initialize(address, int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"]))
run = sw.init()
for i in range(3):
    with run.step(i):
        value = jax.numpy.float32(jax.process_index())
    run.log({"loss": value})
run.finish()
jax.distributed.shutdown()
"""


def test_two_jax_processes_under_the_wrapper_are_one_run(script, server, env):
    path = script.folder / "jax_train.py"
    path.write_text(JAX)
    command = [
        sys.executable,
        "-m",
        "stepward",
        "run",
        "--name",
        "jax",
        "--ranks",
        "2",
        "--",
        sys.executable,
        str(path),
    ]
    done = subprocess.run(command, env={**os.environ, **env}, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr[-3000:]
    run = server.state("jax", "finished")
    (attempt,) = run["attempts"]
    assert attempt["ranks"] == 2
    for rank in (0, 1):
        (line,) = server.get(f"/api/v1/runs/{run['id']}/points?metric=loss&rank={rank}")["lines"]
        assert (line["mean"], line["count"]) == ([float(rank)] * 3, [1, 1, 1])
