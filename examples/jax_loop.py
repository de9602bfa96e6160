"""A plain JAX loop: the loss is logged as a device value, so that logging never waits for the device.

stepward run -- python examples/jax_loop.py
"""

import jax
import jax.numpy as jnp

import stepward as sw


def loss_of(weights: dict[str, jax.Array], x: jax.Array, y: jax.Array) -> jax.Array:
    """Mean squared error of a network with one hidden layer."""
    hidden = jnp.tanh(x @ weights["in"])
    return jnp.mean((hidden @ weights["out"] - y) ** 2)


@jax.jit
def update(weights: dict[str, jax.Array], x: jax.Array, y: jax.Array) -> tuple[dict[str, jax.Array], jax.Array]:
    """One step of gradient descent."""
    loss, gradient = jax.value_and_grad(loss_of)(weights, x, y)
    return jax.tree.map(lambda w, g: w - 0.05 * g, weights, gradient), loss


def main(steps: int = 300) -> None:
    """Fit a smooth function of eight variables."""
    run = sw.init(name="jax-loop", config={"width": 64, "lr": 0.05, "steps": steps})
    key_in, key_out, key = jax.random.split(jax.random.key(0), 3)
    weights = {"in": jax.random.normal(key_in, (8, 64)) * 0.3, "out": jax.random.normal(key_out, (64, 1)) * 0.1}
    for step in range(steps):
        x = jax.random.normal(jax.random.fold_in(key, step), (128, 8))
        with run.step(step):
            weights, loss = update(weights, x, jnp.sin(x).sum(axis=1, keepdims=True))
        run.log({"loss": loss}, step=step)
    run.finish()


if __name__ == "__main__":
    main()
