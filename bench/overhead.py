"""What stepward costs a training loop with everything on: step, phases, 20 scalars a step, shipper, live server, wrapper.

    python bench/overhead.py [--torch-python PATH] [--pairs N] [--block N] [--out FILE]

A real loop (JAX here; torch in the environment of ``--torch-python``) runs in one process under ``stepward run``, beside
a live server. Blocks of steps alternate: bare (A) and instrumented (B), in pairs whose order is drawn, so that drift of the
machine hits both alike. Reported: the median step of A and of B, B/A - 1 with the interval that holds 95 % of its
bootstrap over pairs, the same of CPU seconds. Goal: at most 1 %. Background threads run beside A and B alike; what
they, the wrapper and the server take is in ``alone_step_ms``, the same loop in a process without any of them, measured
before and after. The same is measured where no server is known (``"server": false``).
"""

import argparse
import json
import os
import platform
import random
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

GOAL = 0.01
SCALARS = 20
WARM_UP = 20


def jax_loop() -> Callable[[], object]:
    """A network of three layers on a batch of 256, gradient descent; the loss stays on the device."""
    import jax
    import jax.numpy as jnp

    widths = [256, 1024, 1024, 256]
    keys = jax.random.split(jax.random.key(0), 4)
    weights = [jax.random.normal(k, (a, b)) * a**-0.5 for k, a, b in zip(keys, widths, widths[1:], strict=False)]
    x = jax.random.normal(keys[3], (256, 256))

    def loss_of(weights: list[jax.Array]) -> jax.Array:
        y = x
        for w in weights:
            y = jnp.tanh(y @ w)
        return jnp.mean((y - x) ** 2)

    @jax.jit
    def update(weights: list[jax.Array]) -> tuple[list[jax.Array], jax.Array]:
        loss, gradient = jax.value_and_grad(loss_of)(weights)
        return [w - 0.1 * g for w, g in zip(weights, gradient, strict=True)], loss

    state = {"weights": weights}

    def step() -> object:
        state["weights"], loss = update(state["weights"])
        return jax.block_until_ready(loss)

    return step


def torch_loop() -> Callable[[], object]:
    """The same network in PyTorch."""
    import torch
    from torch import nn

    torch.set_num_threads(1)
    model = nn.Sequential(
        nn.Linear(256, 1024), nn.Tanh(), nn.Linear(1024, 1024), nn.Tanh(), nn.Linear(1024, 256), nn.Tanh()
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(256, 256)

    def step() -> object:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), x)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


LOOPS = {"jax": jax_loop, "torch": torch_loop}


def measure(framework: str, pairs: int, block: int, out: str) -> None:
    """Run in the child: alternate the blocks, write what was measured."""
    import stepward as sw

    step = LOOPS[framework]()
    run = sw.init(name=f"overhead-{framework}", config={"pairs": pairs, "block": block})
    names = [f"layer_{number}/norm" for number in range(SCALARS - 1)]
    count = 0

    def bare() -> None:
        step()

    def instrumented() -> None:
        nonlocal count
        with run.step(count):
            with run.phase("forward"):
                loss = step()
            with run.phase("optimizer"):
                pass
        run.log({"loss": loss, **dict.fromkeys(names, count * 0.5)}, step=count)
        count += 1

    for _ in range(WARM_UP):
        bare()
        instrumented()
    dice, rows = random.Random(0), []
    for _ in range(pairs):
        row = {}
        for kind in dice.sample(["A", "B"], 2):
            work = bare if kind == "A" else instrumented
            times, cpu = [], time.process_time()
            for _ in range(block):
                began = time.perf_counter()
                work()
                times.append(time.perf_counter() - began)
            row[kind] = {"steps_s": times, "cpu_s": (time.process_time() - cpu) / block}
        rows.append(row)
    run.finish()
    with open(out, "w") as file:
        json.dump(rows, file)


def measure_alone(framework: str, blocks: int, block: int, out: str) -> None:
    """Run in a child without stepward: the same loop, block by block."""
    step = LOOPS[framework]()
    for _ in range(2 * WARM_UP):
        step()
    medians = []
    for _ in range(blocks):
        times = []
        for _ in range(block):
            began = time.perf_counter()
            step()
            times.append(time.perf_counter() - began)
        medians.append(statistics.median(times))
    with open(out, "w") as file:
        json.dump(medians, file)


def report(framework: str, rows: list[dict[str, Any]], alone: list[float], *, served: bool) -> dict[str, object]:
    """Overhead over all steps, with an interval from drawing pairs of blocks again."""
    overhead = _ratio(rows)
    dice = random.Random(1)
    drawn = sorted(_ratio(dice.choices(rows, k=len(rows))) for _ in range(1000))
    cpu = [sum(row[kind]["cpu_s"] for row in rows) for kind in "AB"]
    return {
        "framework": framework,
        "server": served,
        "pairs": len(rows),
        "alone_step_ms": 1e3 * statistics.median(alone),
        "bare_step_ms": 1e3 * _median_step(rows, "A"),
        "instrumented_step_ms": 1e3 * _median_step(rows, "B"),
        "cost_us": 1e6 * (_median_step(rows, "B") - _median_step(rows, "A")),
        "overhead": overhead,
        "overhead_95": [drawn[25], drawn[-26]],
        "cpu_overhead": cpu[1] / cpu[0] - 1,
        "goal": GOAL,
        "met": overhead <= GOAL,
    }


def _median_step(rows: list[dict[str, Any]], kind: str) -> float:
    return statistics.median(duration for row in rows for duration in row[kind]["steps_s"])


def _ratio(rows: list[dict[str, Any]]) -> float:
    return _median_step(rows, "B") / _median_step(rows, "A") - 1


class Server:
    """``stepward up`` in a temporary folder."""

    def __init__(self, folder: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        self.url, self._data = f"http://127.0.0.1:{port}", f"{folder}/data"
        command = [sys.executable, "-m", "stepward", "up", "--data", self._data, "--port", str(port)]
        with open(f"{folder}/server.log", "wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)

    def token(self) -> str:
        """The token, once the server is ready."""
        deadline = time.monotonic() + 60
        while True:
            try:
                with urllib.request.urlopen(f"{self.url}/healthz", timeout=2), open(f"{self._data}/token") as file:
                    return file.read().strip()
            except OSError:
                if time.monotonic() > deadline or self._process.poll() is not None:
                    raise
                time.sleep(0.2)

    def stop(self) -> None:
        """End it."""
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(20)


def run_children(
    python: str, framework: str, options: argparse.Namespace, server: Server, folder: str
) -> list[dict[str, object]]:
    """Measure one framework: alone, under the wrapper with a server and without, alone again."""
    source = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "src")
    env = os.environ | {
        "STEPWARD_DIR": f"{folder}/spool",
        "PYTHONPATH": source,
        "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
        "XDG_STATE_HOME": f"{folder}/nobody",
    }
    known = {"STEPWARD_SERVER": server.url, "STEPWARD_TOKEN": server.token()}

    def child(*extra: str, wrapped: bool, served: bool = False) -> Any:
        out = f"{folder}/out.json"
        command = [python, os.path.abspath(__file__), "--child", framework, "--out", out, *extra]
        command += ["--pairs", str(options.pairs), "--block", str(options.block)]
        wrapper = [sys.executable, "-m", "stepward", "run", "--"] if wrapped else []
        subprocess.run([*wrapper, *command], env=env | known if served else env, check=True)
        with open(out) as file:
            return json.load(file)

    before = child("--alone", wrapped=False)
    rows = {served: child(wrapped=True, served=served) for served in (True, False)}
    alone = before + child("--alone", wrapped=False)
    return [report(framework, rows[served], alone, served=served) for served in rows]


def main() -> int:
    """Measure, print and write the report; 1 where a goal was missed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--torch-python", help="interpreter of an environment with torch and msgspec")
    parser.add_argument("--pairs", type=int, default=200, help="pairs of blocks")
    parser.add_argument("--block", type=int, default=5, help="steps a block")
    parser.add_argument("--out", help="file of the report")
    parser.add_argument("--child", choices=LOOPS, help=argparse.SUPPRESS)
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        work = measure_alone if options.alone else measure
        work(options.child, options.pairs, options.block, options.out)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        server = Server(folder)
        try:
            results = run_children(sys.executable, "jax", options, server, folder)
            if options.torch_python:
                results.extend(run_children(options.torch_python, "torch", options, server, folder))
        finally:
            server.stop()
    now = datetime.now(UTC)
    document = {
        "benchmark": "overhead",
        "at": now.isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
        "load_1m": os.getloadavg()[0],
        "results": results,
    }
    out = options.out or os.path.join(os.path.dirname(__file__), "reports", f"{now:%Y-%m-%d}-overhead.json")
    with open(out, "w") as file:
        json.dump(document, file, indent=2)
        file.write("\n")
    print(json.dumps(document, indent=2))
    return int(not all(result["met"] for result in results))


if __name__ == "__main__":
    sys.exit(main())
