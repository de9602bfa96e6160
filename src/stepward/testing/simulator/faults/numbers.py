"""Faults of the numbers: loss and gradients that jump, run away or are no numbers any more."""

from collections.abc import Iterable

import numpy as np

from stepward.testing.simulator.block import Block
from stepward.testing.simulator.layout import Floats
from stepward.testing.simulator.trouble import Stop, Trouble
from stepward.testing.simulator.voice import Text, Voice


class NanEverywhere(Trouble):
    """Loss and gradients of all ranks are NaN in the same step; the trainer gives up after some such steps."""

    kind, label, type = "nan_all", "numerics_nan", "non_finite"
    also = ("crash", "loss_spike", "divergence")
    stops = True
    lasts = 12

    def values(self, block: Block, loss: Floats, norm: Floats) -> None:
        rows = self.strikes(block)
        loss[rows] = norm[rows] = np.nan

    def lines(self, block: Block, voice: Voice) -> Iterable[Text]:
        rows = self.strikes(block)
        for row in range(rows.start, rows.stop):
            text = f"step {block.first + row} loss nan grad_norm nan: update skipped"
            yield voice.log(float(block.ends[row, 0]), 0, text, "WARNING")

    def stop(self, attempt: int) -> Stop | None:
        if attempt or self.step is None:
            return None
        return Stop(
            self.step + self.lasts, "died", (0,), exit_code=1, reason="FloatingPointError", after_s=8.0, again=False
        )

    def last_words(self, stopped_s: float, voice: Voice) -> Iterable[Text]:
        yield voice.raw(stopped_s, 0, "Traceback (most recent call last):")
        yield voice.raw(stopped_s, 0, '  File "/app/train.py", line 214, in main')
        yield voice.raw(stopped_s, 0, f"FloatingPointError: loss is nan for {self.lasts} steps in a row")


class NanOfOneRank(NanEverywhere):
    """One rank's gradients become NaN a few steps before the reduction has spread them to all."""

    kind = "nan_one_rank"
    alone = 2

    def draw(self, dice: np.random.Generator) -> None:
        self.one_rank(dice)

    def values(self, block: Block, loss: Floats, norm: Floats) -> None:
        rows, ranks = self.strikes(block), list(self.ranks)
        norm[rows, ranks] = np.nan
        everywhere = block.rows((self.step or 0) + self.alone, None)
        loss[everywhere] = norm[everywhere] = np.nan

    def lines(self, block: Block, voice: Voice) -> Iterable[Text]:
        onset = self.onset_in(block)
        if onset is not None:
            text = "found NaN in local grad norm for bucket #0 in backward pass before data-parallel communication collective"
            yield voice.raw(onset + 0.6 * self.plan.step_s, self.ranks[0], text)


class LossSpike(Trouble):
    """A batch throws the loss up, gradients with it, and it comes down again; ``magnitude`` is the factor of the loss."""

    kind, label, type = "loss_spike", "numerics_nan", "loss_spike"
    also = ("divergence",)
    strengths = {"train": (1.8, 3.0), "test": (1.5, 2.0)}

    def draw(self, dice: np.random.Generator) -> None:
        self._decay = float(dice.uniform(4, 15))
        self.until = (self.step or 0) + 60

    def values(self, block: Block, loss: Floats, norm: Floats) -> None:
        rows = self.strikes(block)
        since = np.arange(block.first, block.first + block.count)[rows] - (self.step or 0)
        falls = np.exp(-since / self._decay)[:, None]
        loss[rows] *= 1 + (self.magnitude - 1) * falls
        norm[rows] *= 1 + 25.0 * np.exp(-since / 2.0)[:, None]


class Divergence(Trouble):
    """The loss rises step by step and does not come back; ``magnitude`` is the factor that it reaches."""

    kind, label, type = "divergence", "numerics_nan", "divergence"
    also = ("loss_spike",)
    strengths = {"train": (1.6, 3.0), "test": (1.3, 1.6)}

    def draw(self, dice: np.random.Generator) -> None:
        self.step, self.until = int(dice.uniform(0.25, 0.35) * self.plan.steps), None

    def values(self, block: Block, loss: Floats, norm: Floats) -> None:
        rows = self.strikes(block)
        since = np.arange(block.first, block.first + block.count)[rows] - (self.step or 0)
        rise = np.minimum(1.0, since / max(80.0, 0.3 * self.plan.steps))[:, None]
        loss[rows] *= 1 + (self.magnitude - 1) * rise
        norm[rows] *= 1 + 3.0 * rise


NUMBERS: list[type[Trouble]] = [NanEverywhere, NanOfOneRank, LossSpike, Divergence]
