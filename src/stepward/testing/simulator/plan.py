"""What kind of run it is, drawn from a seed: its size, rhythm, noise, habits, and what is measured of it."""

from typing import Literal

import msgspec
import numpy as np

from stepward.testing.simulator.layout import Layout
from stepward.testing.simulator.noise import stream

Split = Literal["train", "test"]
Clocking = Literal["none", "host", "host_async", "device"]
"""How the phases of a step are measured: not at all, by a host that waits for its device (or has none), by a host that
only hands work over, so that the wait shows where it looks next, or by the device's own clock."""

_EPOCH_S = 1_780_272_000
_SIZES = ((1, 2), (2, 4), (4, 4), (2, 8), (4, 8), (4, 16), (8, 16), (8, 32), (8, 64))
"""(ranks a node, ranks)"""


class Habits(msgspec.Struct, frozen=True, kw_only=True):
    """What the trainer does beside its steps.

    Attributes:
        checkpoint_every, evaluate_every, gc_every: steps; 0 = never.
        checkpoint_s: from the begin of a save until it is durable.
        checkpoint_async: only the first tenth of a save holds the loop up.
        evaluate_s, gc_s: seconds; a collection of garbage befalls one rank at a time.
        log_every: steps between two lines of progress.
        warmup: steps at the begin of an attempt that are slower, the first by ``warmup_factor``.
        init_s, compile_s: before the first step.
    """

    checkpoint_every: int
    checkpoint_s: float
    checkpoint_async: bool
    evaluate_every: int
    evaluate_s: float
    gc_every: int
    gc_s: float
    log_every: int
    warmup: int
    warmup_factor: float
    init_s: float
    compile_s: float


class Telemetry(msgspec.Struct, frozen=True, kw_only=True):
    """What is measured.

    Attributes:
        clocking: how the phases of a step are measured.
        announced: saves, evaluation and the like are told as phases; else they lengthen a step or leave a gap.
        devices: accelerators are read.
        sample_s, heartbeat_s: periods.
        missing: share of readings that are lost.
        skew_s: a node's clock is wrong by up to so much; lines show it, signals are corrected.
        values_every: steps between two values of loss and gradient norm.
        values_of_all: all ranks log their values, not rank 0 alone.
    """

    clocking: Clocking
    announced: bool
    devices: bool
    sample_s: float
    heartbeat_s: float
    missing: float
    skew_s: float
    values_every: int
    values_of_all: bool


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """A run before anything befalls it.

    Attributes:
        steps: after which it is finished.
        step_s: mean duration of a step.
        shares: of the phases in it; they add up to 1.
        cv, rho: of the step time of the whole job; ``rank_cv`` is what each rank adds of its own.
        spread: standard deviation of the ranks' lasting differences.
        day: amplitude of the day's cycle in step time.
        start_s: begin, seconds since the epoch.
        ending: how it ends if nothing befalls it.
        restarts: how often the launcher starts it again.
    """

    seed: int
    split: Split
    layout: Layout
    steps: int
    step_s: float
    shares: dict[str, float]
    cv: float
    rho: float
    rank_cv: float
    spread: float
    day: float
    habits: Habits
    telemetry: Telemetry
    start_s: int
    ending: Literal["finished", "cancelled"]
    restarts: int
    job: str


def draw(
    seed: int,
    *,
    split: Split = "train",
    ranks: int | None = None,
    steps: int | None = None,
    step_s: float | None = None,
    cv: float | None = None,
    rho: float | None = None,
    clocking: Clocking | None = None,
    sample_s: float | None = None,
) -> Plan:
    """A plan; what is given is not drawn, and does not change what is."""
    dice = stream(seed, "plan", split)
    per_node, size = _SIZES[int(dice.integers(len(_SIZES)))]
    layout = _layout(dice, ranks or size, per_node if ranks is None else min(8, max(1, ranks // 2)))
    drawn_step_s = float(np.exp(dice.uniform(np.log(0.4), np.log(6.0))))
    drawn_steps = int(dice.integers(600, 1000))
    noise = float(dice.choice([0.01, 0.02, 0.05, 0.10], p=[0.25, 0.35, 0.3, 0.1]))
    memory = float(dice.choice([0.0, 0.3, 0.7], p=[0.3, 0.5, 0.2]))
    period = drawn_step_s if step_s is None else step_s
    habits, telemetry = _habits(dice, period), _telemetry(dice)
    if clocking is not None:
        telemetry = msgspec.structs.replace(telemetry, clocking=clocking)
    if sample_s is not None:
        telemetry = msgspec.structs.replace(telemetry, sample_s=sample_s)
    return Plan(
        seed=seed,
        split=split,
        layout=layout,
        steps=drawn_steps if steps is None else steps,
        step_s=period,
        shares=_shares(dice),
        cv=noise if cv is None else cv,
        rho=memory if rho is None else rho,
        rank_cv=float(dice.uniform(0.005, 0.02)),
        spread=float(dice.uniform(0.003, 0.02)),
        day=float(dice.choice([0.0, 0.01, 0.03])),
        habits=habits,
        telemetry=telemetry,
        start_s=_EPOCH_S + (seed % 100_000) * 3_600 + int(dice.integers(3600)),
        ending="cancelled" if dice.random() < 0.1 else "finished",
        restarts=int(dice.integers(0, 3)),
        job=str(40_000 + seed % 50_000),
    )


def _layout(dice: np.random.Generator, ranks: int, per_node: int) -> Layout:
    tp = int(dice.choice([1, 2, 4]))
    pp = int(dice.choice([1, 1, 2, 4]))
    prefix = str(dice.choice(["gpu-", "n", "node-", "cn"]))
    while ranks % tp or tp > per_node:
        tp //= 2
    while ranks // tp % pp:
        pp //= 2
    return Layout(ranks // tp // pp, pp, tp, per_node, prefix)


def _shares(dice: np.random.Generator) -> dict[str, float]:
    data, collective, optimizer = dice.uniform(0.01, 0.06), dice.uniform(0.04, 0.15), dice.uniform(0.02, 0.06)
    rest = 1 - data - collective - optimizer
    return {
        "data_wait": float(data),
        "forward": float(rest / 3),
        "backward": float(rest * 2 / 3),
        "collective": float(collective),
        "optimizer": float(optimizer),
    }


def _habits(dice: np.random.Generator, step_s: float) -> Habits:
    return Habits(
        checkpoint_every=int(dice.choice([0, 100, 200, 250], p=[0.1, 0.3, 0.3, 0.3])),
        checkpoint_s=float(max(dice.uniform(2, 8) * step_s, dice.uniform(2, 15))),
        checkpoint_async=bool(dice.random() < 0.4),
        evaluate_every=int(dice.choice([0, 150, 300], p=[0.4, 0.3, 0.3])),
        evaluate_s=float(min(dice.uniform(2, 10) * step_s, 25.0)),
        gc_every=int(dice.choice([0, 37, 100], p=[0.5, 0.25, 0.25])),
        gc_s=float(dice.uniform(0.05, 0.2)),
        log_every=int(dice.choice([1, 5, 10])),
        warmup=int(dice.integers(3, 9)),
        warmup_factor=float(dice.uniform(1.5, 6.0)),
        init_s=float(dice.uniform(8, 60)),
        compile_s=float(dice.choice([0.0, 20.0, 90.0], p=[0.5, 0.3, 0.2])),
    )


def _telemetry(dice: np.random.Generator) -> Telemetry:
    clocking: Clocking = ("none", "host", "host_async", "device")[int(dice.choice(4, p=[0.4, 0.15, 0.2, 0.25]))]
    return Telemetry(
        clocking=clocking,
        announced=bool(clocking != "none" or dice.random() < 0.5),
        devices=bool(dice.random() < 0.9),
        sample_s=10.0,
        heartbeat_s=4.0,
        missing=float(dice.uniform(0.001, 0.02)),
        skew_s=float(dice.choice([0.0, 0.5])),
        values_every=int(dice.choice([1, 1, 5])),
        values_of_all=bool(dice.random() < 0.4),
    )
