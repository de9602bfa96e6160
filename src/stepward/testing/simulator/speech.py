"""What healthy trainers say: greetings, progress, saves, evaluations, in the forms of several trainers."""

from collections.abc import Iterator

import numpy as np

from stepward.testing.simulator.block import Block, Pause
from stepward.testing.simulator.noise import stream
from stepward.testing.simulator.plan import Plan
from stepward.testing.simulator.voice import Text, Voice

BEST, ABOVE, SCALE, POWER = 1.9, 8.6, 12.0, 0.42
"""A loss curve of the usual form: best + above * (1 + step / scale) ** -power."""


def curve(steps: np.ndarray) -> np.ndarray:
    """Loss by step without noise."""
    return BEST + ABOVE * (1 + np.asarray(steps, float) / SCALE) ** -POWER


def greeting(voice: Voice, plan: Plan, begun_s: float, resumed: int | None) -> Iterator[Text]:
    """First lines of an attempt."""
    layout = plan.layout
    yield voice.log(begun_s + 2.0, 0, f"world size {layout.ranks}, tp {layout.tp}, pp {layout.pp}, dp {layout.dp}")
    if resumed:
        yield voice.log(begun_s + 4.0, 0, f"restored checkpoint of step {resumed - 1}, going on at step {resumed}")
    yield voice.nccl(begun_s + 6.0, 0, f"INFO comm 0x55d0c8 rank 0 nranks {layout.ranks} - Init COMPLETE")


def progress(voice: Voice, plan: Plan, block: Block) -> Iterator[Text]:
    """Rank 0's lines of progress."""
    form = int(stream(plan.seed, "progress").integers(3))
    losses = curve(np.arange(block.first, block.first + block.count))
    data = block.seconds["data_wait"]
    for row, step in enumerate(block.steps):
        if step % plan.habits.log_every:
            continue
        took = float(block.ends[row, 0] - block.starts[row, 0])
        text = (
            f"step {step} loss {losses[row]:.4f} time {took:.3f} s (data {data[row, 0]:.3f} s) lr 3.0e-04",
            f"iteration {step:8d}/{plan.steps:8d} | elapsed time per iteration (ms): {took * 1e3:.1f} |"
            f" lm loss: {losses[row]:.6E} | grad norm: 0.412 |",
            f"{{'loss': {losses[row]:.4f}, 'step': {step}, 'step_time': {took:.3f}}}",
        )[form]
        yield voice.log(float(block.ends[row, 0]), 0, text)


def saved(voice: Voice, begun_s: float, step: int, pause: Pause) -> Iterator[Text]:
    """A checkpoint that begins and is done."""
    yield voice.log(begun_s, 0, f"saving checkpoint of step {step} to /ckpt/step_{step}")
    yield voice.log(begun_s + pause.held_s, 0, f"saved checkpoint /ckpt/step_{step} in {pause.held_s:.1f} s")


def evaluated(voice: Voice, begun_s: float, step: int, pause: Pause) -> Iterator[Text]:
    """An evaluation that begins and is done."""
    yield voice.log(begun_s, 0, f"evaluating after step {step}")
    yield voice.log(begun_s + pause.held_s, 0, f"val loss {curve(np.array([step]))[0] * 1.02:.4f}")
