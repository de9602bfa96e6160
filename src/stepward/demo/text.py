"""The text that the demo's model learns, and its batches.

*As You Like It*, acts I-III, by William Shakespeare (1599; public domain), taken from the Canterbury corpus's
``asyoulik.txt`` and set as ``SPEAKER:`` lines. A batch is a function of (seed, step, rank): a resumed run reads on where
it was, and no two ranks read the same.
"""

from collections.abc import Iterator
from importlib.resources import files
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Tokens = NDArray[np.int32]


class Batch(NamedTuple):
    """``inputs[i, t]`` is followed by ``targets[i, t]``; both (sequences, length)."""

    step: int
    inputs: Tokens
    targets: Tokens


class Corpus:
    """The text as numbers, one a character."""

    def __init__(self) -> None:
        text = files("stepward.demo").joinpath("as_you_like_it.txt").read_text(encoding="ascii")
        self.alphabet = "".join(sorted(set(text)))
        number = {character: index for index, character in enumerate(self.alphabet)}
        self.tokens: Tokens = np.array([number[character] for character in text], dtype=np.int32)

    def batches(
        self, *, sequences: int, length: int, first_step: int, last_step: int, rank: int, seed: int
    ) -> Iterator[Batch]:
        """Batches of the steps ``[first_step, last_step)``: random windows of the text."""
        for step in range(first_step, last_step):
            random = np.random.default_rng((seed, step, rank))
            starts = random.integers(0, len(self.tokens) - length - 1, size=sequences)
            windows = self.tokens[starts[:, None] + np.arange(length + 1)]
            yield Batch(step, windows[:, :-1], windows[:, 1:])
