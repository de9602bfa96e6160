"""A small decoder-only transformer in JAX: pre-norm blocks, learned positions, tied to nothing but ``jax.numpy``.

Forward and backward are two compiled functions (``jax.vjp`` cut in the middle), so that each is a phase of its own.
Compiled programs are kept in the user's cache folder: a second attempt starts without compiling.
"""

import os
from typing import Any

# Two ranks share the cores of one host: XLA's own thread pool would make them fight. Must be set before the import.
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from stepward.demo.models import Vector
from stepward.demo.text import Batch

LAYERS, HEADS, WIDTH = 2, 4, 64


class Transformer:
    """About 110,000 parameters."""

    name = "transformer (JAX)"
    length = 64

    def __init__(self, alphabet: int) -> None:
        cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        config: Any = jax.config
        config.update("jax_compilation_cache_dir", f"{cache}/stepward/jax")
        config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
        self._alphabet = alphabet
        _, unravel = ravel_pytree(_tree(alphabet, self.length, np.random.default_rng(0)))

        def loss(parameters: Any, inputs: Any, targets: Any) -> Any:
            log_p = jax.nn.log_softmax(_logits(unravel(parameters), inputs))
            return -jnp.take_along_axis(log_p, targets[..., None], axis=-1).mean()

        self._forward = jax.jit(lambda p, inputs, targets: jax.vjp(lambda q: loss(q, inputs, targets), p))
        self._backward = jax.jit(lambda pullback: pullback(jnp.float32(1.0))[0])

    def initial(self, seed: int) -> Vector:
        """Normal weights, drawn by numpy: the same on every platform."""
        flat, _ = ravel_pytree(_tree(self._alphabet, self.length, np.random.default_rng(seed)))
        return np.array(flat)

    def forward(self, parameters: Vector, batch: Batch) -> tuple[Any, Any]:
        """Mean cross-entropy (a JAX scalar) and the pull-back."""
        loss, pullback = self._forward(parameters, batch.inputs, batch.targets)
        # Waited for, so that the phase is the work and not its dispatch.
        return loss.block_until_ready(), pullback

    def backward(self, saved: Any) -> Vector:
        """The gradient, as numpy: the all-reduce sends it as bytes."""
        return np.asarray(self._backward(saved))


def _tree(alphabet: int, length: int, random: np.random.Generator) -> dict[str, Any]:
    def normal(*shape: int, scale: float = 0.02) -> Vector:
        return random.normal(0, scale, shape).astype(np.float32)

    def block() -> dict[str, Vector]:
        return {
            "norm1": np.ones(WIDTH, np.float32),
            "qkv": normal(WIDTH, 3 * WIDTH, scale=WIDTH**-0.5),
            "out": normal(WIDTH, WIDTH, scale=(2 * LAYERS * WIDTH) ** -0.5),
            "norm2": np.ones(WIDTH, np.float32),
            "up": normal(WIDTH, 4 * WIDTH, scale=WIDTH**-0.5),
            "down": normal(4 * WIDTH, WIDTH, scale=(8 * LAYERS * WIDTH) ** -0.5),
        }

    return {
        "embedding": normal(alphabet, WIDTH),
        "position": normal(length, WIDTH),
        "blocks": [block() for _ in range(LAYERS)],
        "norm": np.ones(WIDTH, np.float32),
        "head": normal(WIDTH, alphabet, scale=WIDTH**-0.5),
    }


def _logits(tree: dict[str, Any], tokens: Any) -> Any:
    x = tree["embedding"][tokens] + tree["position"][: tokens.shape[1]]
    for block in tree["blocks"]:
        x = x + _attention(block, _norm(x, block["norm1"]))
        x = x + jax.nn.gelu(_norm(x, block["norm2"]) @ block["up"]) @ block["down"]
    return _norm(x, tree["norm"]) @ tree["head"]


def _attention(block: dict[str, Any], x: Any) -> Any:
    batch, length, _ = x.shape
    qkv = (x @ block["qkv"]).reshape(batch, length, 3, HEADS, WIDTH // HEADS)
    query, key, value = qkv[:, :, 0], qkv[:, :, 1], qkv[:, :, 2]
    scores = jnp.einsum("bqhd,bkhd->bhqk", query, key) * (WIDTH // HEADS) ** -0.5
    scores = jnp.where(jnp.tril(jnp.ones((length, length), bool)), scores, -jnp.inf)
    mixed = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), value)
    return mixed.reshape(batch, length, WIDTH) @ block["out"]


def _norm(x: Any, scale: Any) -> Any:
    return x * scale * jax.lax.rsqrt((x * x).mean(axis=-1, keepdims=True) + 1e-5)
