"""The smallest use of the SDK: a straight line is fitted, and every step of it is on the server.

stepward up &                  # once; prints a login link
stepward run -- python examples/sdk.py
"""

import random

import stepward as sw


def main() -> None:
    """Fit y = 3x + 1 by stochastic gradient descent."""
    config = {"lr": 0.1, "steps": 200, "noise": 0.1}
    run = sw.init(name="line", config=config)
    dice = random.Random(0)
    slope = offset = 0.0
    for step in range(int(config["steps"])):
        with run.step(step):
            x = dice.uniform(-1, 1)
            error = slope * x + offset - (3 * x + 1 + dice.gauss(0, config["noise"]))
            slope -= config["lr"] * error * x
            offset -= config["lr"] * error
        run.log({"loss": error**2, "slope": slope, "offset": offset}, step=step)
    run.finish()


if __name__ == "__main__":
    main()
