"""What a model is to the trainer: a flat vector of parameters, a loss and its gradient.

One flat vector makes an all-reduce, an optimizer and a checkpoint one array each. ``choose`` takes the transformer where
JAX is installed, the numpy model where it is not.
"""

from importlib.util import find_spec
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from stepward.demo.text import Batch

Vector = NDArray[np.float32]


class Model(Protocol):
    """A model that predicts the next character."""

    name: str
    length: int
    """Characters that the model reads at once."""

    def initial(self, seed: int) -> Vector:
        """Parameters to begin with; equal on every rank."""

    def forward(self, parameters: Vector, batch: Batch) -> tuple[Any, Any]:
        """The mean loss (nats a character; a scalar of the framework) and what ``backward`` needs."""

    def backward(self, saved: Any) -> Vector:
        """The gradient of the loss."""


def choose(alphabet: int, *, without_jax: bool = False) -> Model:
    """The transformer in JAX, or the numpy model where JAX is absent or not wanted."""
    if without_jax or find_spec("jax") is None:
        from stepward.demo.perceptron import Perceptron

        return Perceptron(alphabet)
    from stepward.demo.transformer import Transformer

    return Transformer(alphabet)
