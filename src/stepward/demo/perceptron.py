"""A character-level model in numpy alone, with its gradient by hand: the stand-in where JAX is absent.

The last ``CONTEXT`` characters are embedded, one hidden layer of tanh reads them, and a softmax predicts the next.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepward.demo.models import Vector
from stepward.demo.text import Batch

CONTEXT, EMBEDDING, HIDDEN = 8, 24, 384


class Perceptron:
    """Parameters: embedding (alphabet, E), W1 (context * E, H), b1 (H), W2 (H, alphabet), b2 (alphabet)."""

    name = "perceptron (numpy: JAX is not installed)"
    length = 64

    def __init__(self, alphabet: int) -> None:
        self._shapes = [
            (alphabet, EMBEDDING),
            (CONTEXT * EMBEDDING, HIDDEN),
            (HIDDEN,),
            (HIDDEN, alphabet),
            (alphabet,),
        ]
        self._cuts = np.cumsum([int(np.prod(shape)) for shape in self._shapes])[:-1]

    def initial(self, seed: int) -> Vector:
        """Normal weights scaled by fan-in, zero biases."""
        random = np.random.default_rng(seed)
        parts = [random.normal(0, shape[0] ** -0.5 if len(shape) > 1 else 0, shape) for shape in self._shapes]
        return _flat(parts)

    def forward(self, parameters: Vector, batch: Batch) -> tuple[Any, Any]:
        """Mean cross-entropy over the positions that have a whole context."""
        embedding, w1, b1, w2, b2 = self._unpack(parameters)
        contexts = np.lib.stride_tricks.sliding_window_view(batch.inputs, CONTEXT, axis=1).reshape(-1, CONTEXT)
        targets = batch.targets[:, CONTEXT - 1 :].reshape(-1)
        inputs = embedding[contexts].reshape(len(contexts), -1)
        hidden = np.tanh(inputs @ w1 + b1)
        logits = hidden @ w2 + b2
        logits -= logits.max(axis=1, keepdims=True)
        log_p = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        loss = -log_p[np.arange(len(targets)), targets].mean(dtype=np.float32)
        return loss, (parameters, contexts, targets, inputs, hidden, log_p)

    def backward(self, saved: Any) -> Vector:
        """Chain rule, layer by layer, from the softmax back to the embedding."""
        parameters, contexts, targets, inputs, hidden, log_p = saved
        embedding, w1, _, w2, _ = self._unpack(parameters)
        d_logits = np.exp(log_p)
        d_logits[np.arange(len(targets)), targets] -= 1
        d_logits /= len(targets)
        d_hidden = (d_logits @ w2.T) * (1 - hidden**2)
        d_embedding = np.zeros_like(embedding)
        np.add.at(d_embedding, contexts, (d_hidden @ w1.T).reshape(*contexts.shape, EMBEDDING))
        return _flat(
            [d_embedding, inputs.T @ d_hidden, d_hidden.sum(axis=0), hidden.T @ d_logits, d_logits.sum(axis=0)]
        )

    def _unpack(self, parameters: Vector) -> list[Vector]:
        return [part.reshape(shape) for part, shape in zip(np.split(parameters, self._cuts), self._shapes, strict=True)]


def _flat(parts: Sequence[NDArray[Any]]) -> Vector:
    return np.concatenate([part.ravel() for part in parts]).astype(np.float32)
