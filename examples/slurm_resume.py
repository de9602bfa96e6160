"""Training that survives the loss of a node: checkpoints by themselves, and going on from the newest whole one.

sbatch --nodes 2 --requeue --wrap 'srun python examples/slurm_resume.py'

One rank a node, data-parallel for real: gradients are averaged every step (by the demo's small all-reduce, where torch
would use NCCL). Without Slurm it trains alone.
"""

import argparse
import os
import time
from itertools import pairwise
from typing import Any

import numpy as np

import stepward as sw
from stepward.demo.allreduce import AllReduce

WIDTHS = (8, 128, 128, 1)
Weights = dict[str, Any]


def main() -> None:
    """Fit a smooth function of eight variables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--every", type=int, default=25, help="steps between checkpoints")
    parser.add_argument(
        "--step-s", type=float, default=0.0, help="least seconds of a step, to stand for a larger model"
    )
    parser.add_argument("--checkpoints", help="a folder that all ranks share; default: checkpoints/<run> here")
    options = parser.parse_args()
    rank, world = int(os.environ.get("SLURM_PROCID", "0")), int(os.environ.get("SLURM_NTASKS", "1"))
    address = os.environ.get("MASTER_ADDR", "127.0.0.1"), int(os.environ.get("MASTER_PORT", "29500"))

    run = sw.init(name="slurm-resume", config=vars(options))
    start = run.resume(options.checkpoints)
    weights = load(f"{start.path}/weights.npz") if start else fresh()
    begin = start.step + 1 if start else 0
    print(f"rank {rank} of {world} begins with step {begin}", flush=True)
    ranks = AllReduce(rank, world, address)

    def save(path: str) -> None:
        if rank == 0:  # all ranks have the same weights
            np.savez(f"{path}/weights.npz", **weights)

    run.autocheckpoint(save, every=options.every, folder=options.checkpoints)
    for step in range(begin, options.steps):
        began = time.monotonic()
        with run.step(step):
            with run.phase("forward"):
                x = np.random.default_rng((step, rank)).uniform(-1, 1, (128, WIDTHS[0]))
                y = np.sin(x).sum(axis=1, keepdims=True)
                loss, layers = forward(weights, x, y)
            with run.phase("backward"):
                gradient = backward(weights, layers, y)
                time.sleep(max(0.0, options.step_s - (time.monotonic() - began)))
            with run.phase("collective"):
                flat = np.concatenate([gradient[name].ravel() for name in sorted(weights)]).astype(np.float32)
                mean = ranks.mean(flat)
            with run.phase("optimizer"):
                descend(weights, mean)
        run.log({"loss": loss}, step=step)
        if rank == 0 and step % 10 == 0:
            print(f"step {step}: loss {loss:.4f}", flush=True)
    ranks.close()
    run.finish()


def fresh() -> Weights:
    """Weights to begin with, the same on every rank."""
    random = np.random.default_rng(0)
    return {f"w{i}": random.normal(0, shape[0] ** -0.5, shape) for i, shape in enumerate(pairwise(WIDTHS))}


def load(path: str) -> Weights:
    """Weights as ``save`` wrote them."""
    with np.load(path) as file:
        return dict(file)


def forward(weights: Weights, x: Any, y: Any) -> tuple[float, list[Any]]:
    """The mean squared error, and what each layer gave."""
    layers = [x]
    for i in range(len(weights)):
        out = layers[-1] @ weights[f"w{i}"]
        layers.append(np.tanh(out) if i < len(weights) - 1 else out)
    return float(np.mean((layers[-1] - y) ** 2)), layers


def backward(weights: Weights, layers: list[Any], y: Any) -> Weights:
    """The gradient of the mean squared error."""
    gradient, back = {}, 2 * (layers[-1] - y) / len(y)
    for i in reversed(range(len(weights))):
        gradient[f"w{i}"] = layers[i].T @ back
        back = (back @ weights[f"w{i}"].T) * (1 - layers[i] ** 2)
    return gradient


def descend(weights: Weights, gradient: Any) -> None:
    """One step of gradient descent, in place."""
    at = 0
    for name in sorted(weights):
        size = weights[name].size
        weights[name] -= 0.02 * gradient[at : at + size].reshape(weights[name].shape)
        at += size


if __name__ == "__main__":
    main()
