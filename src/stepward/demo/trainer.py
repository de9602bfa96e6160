"""A small language model trained on two ranks: the script that a user of stepward would write.

    stepward run --ranks 2 --restarts 1 -- python -m stepward.demo.trainer --checkpoints DIR

Data-parallel for real: each rank reads its own batches, the gradients are averaged every step. Rank 0 saves; a new attempt
goes on from the newest whole checkpoint. Lines with ``ordeal`` are the demo's; everything else is what training needs.
"""

import argparse
import math
import os
import sys
import time
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

import stepward as sw
from stepward.demo import checkpoint
from stepward.demo.allreduce import AllReduce
from stepward.demo.checkpoint import State
from stepward.demo.faults import Ordeal
from stepward.demo.models import Model, Vector, choose
from stepward.demo.text import Batch, Corpus

PATIENCE = 6
"""Steps in a row with a loss that is not finite before training gives up."""


class Options(NamedTuple):
    """Command line."""

    checkpoints: str
    steps: int
    save_every: int
    sequences: int
    seed: int
    lr: float
    numpy: bool


class Place(NamedTuple):
    """Which rank this is, as every launcher tells it."""

    rank: int
    world: int
    address: tuple[str, int]


class Job(NamedTuple):
    """What stays the same from step to step."""

    run: sw.Run
    model: Model
    ranks: AllReduce
    options: Options
    place: Place


def main(arguments: list[str] | None = None) -> int:
    """Train, save, resume; 0 when the last step is done."""
    options, place = _options(arguments), _place()
    corpus = Corpus()
    run = sw.init(config={**options._asdict(), "world": place.world, "characters": len(corpus.tokens)})
    with run.phase("init"):
        model = choose(len(corpus.alphabet), without_jax=options.numpy)
        ranks = AllReduce(place.rank, place.world, place.address)
    with run.phase("restore"):
        os.makedirs(options.checkpoints, exist_ok=True)
        state = checkpoint.newest(options.checkpoints) or _fresh(model, options.seed)
    print(f"rank {place.rank} of {place.world}: {model.name}, {state.parameters.size:,} parameters, step {state.step}")
    if place.rank == 0:
        checkpoint.sweep(options.checkpoints)
    batches = corpus.batches(
        sequences=options.sequences,
        length=model.length,
        first_step=state.step,
        last_step=options.steps,
        rank=place.rank,
        seed=options.seed,
    )
    _train(Job(run, model, ranks, options, place), state, batches)
    ranks.close()
    run.finish()
    return 0


def _train(job: Job, state: State, batches: Iterator[Batch]) -> None:
    run, model, ranks, options, place = job
    ordeal, not_finite = Ordeal(place.rank), 0
    ordeal.begin(state.step)
    for batch in run.data(ordeal.batches(batches)):
        began, step = time.perf_counter(), batch.step
        ordeal.before_step(step, state.parameters)
        lr = _learning_rate(step, options)
        with run.step(step):
            with run.phase("forward"):
                loss, saved = model.forward(state.parameters, batch)
            with run.phase("backward"):
                gradient = model.backward(saved)
            with run.phase("collective"):
                gradient = ranks.mean(gradient)
            with run.phase("optimizer"):
                norm = float(np.linalg.norm(gradient))
                state = _adam(state, gradient * min(1.0, 1.0 / (norm + 1e-9)), lr)
        speed = batch.inputs.size / (time.perf_counter() - began)
        run.log({"loss": loss, "grad_norm": norm, "lr": lr, "tokens_per_s": speed}, step=step)
        ordeal.after_step(step)
        if place.rank == 0 and step % 50 == 0:
            print(f"step {step}/{options.steps}  loss {float(loss):.3f}  {speed:,.0f} tokens/s", flush=True)
        not_finite = 0 if math.isfinite(float(loss)) else not_finite + 1
        if not_finite == PATIENCE:
            raise FloatingPointError(f"loss is {float(loss)} since step {step + 1 - PATIENCE}")
        if place.rank == 0 and state.step % options.save_every == 0 and not not_finite:
            ordeal.before_save(step, options.checkpoints)
            with run.checkpoint(step, checkpoint.path_of(options.checkpoints, state.step)):
                checkpoint.save(options.checkpoints, state)


def _fresh(model: Model, seed: int) -> State:
    parameters = model.initial(seed)
    return State(0, parameters, np.zeros_like(parameters), np.zeros_like(parameters))


def _adam(state: State, gradient: Vector, lr: float) -> State:
    """Adam (Kingma & Ba, 2015) with its usual constants."""
    step = state.step + 1
    first = 0.9 * state.first_moment + 0.1 * gradient
    second = 0.999 * state.second_moment + 0.001 * gradient**2
    change = (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.999**step)) + 1e-8)
    return State(step, (state.parameters - lr * change).astype(np.float32), first, second)


def _learning_rate(step: int, options: Options) -> float:
    """Linear warm-up over 20 steps, then a cosine down to a tenth."""
    fall = 0.55 + 0.45 * math.cos(math.pi * step / options.steps)
    return options.lr * min(1.0, (step + 1) / 20) * fall


def _place() -> Place:
    env = os.environ
    address = env.get("MASTER_ADDR", "127.0.0.1"), int(env.get("MASTER_PORT", "29500"))
    return Place(int(env.get("RANK", "0")), int(env.get("WORLD_SIZE", "1")), address)


def _options(arguments: list[str] | None) -> Options:
    parser = argparse.ArgumentParser(prog="python -m stepward.demo.trainer", description=__doc__)
    parser.add_argument("--checkpoints", required=True, help="folder of the checkpoints")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--save-every", type=int, default=100)
    parser.add_argument("--sequences", type=int, default=12, help="sequences a batch and rank")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--lr", type=float, default=4e-3)
    parser.add_argument("--numpy", action="store_true", help="train the numpy model even where JAX is installed")
    return Options(**vars(parser.parse_args(arguments)))


if __name__ == "__main__":
    sys.exit(main())
