"""The randomness of a run: a stream of numbers for each purpose, so that a fault changes what it touches and nothing else."""

import zlib

import numpy as np

from stepward.testing.simulator.layout import Floats


def stream(seed: int, *purpose: str | int) -> np.random.Generator:
    """A generator that depends on the seed and on what it is for."""
    words = [zlib.crc32(part.encode()) if isinstance(part, str) else part for part in purpose]
    return np.random.default_rng([seed, *words])


class Noise:
    """Log-normal factors with mean 1 that remember the step before: AR(1) in the logarithm.

    Args:
        cv: coefficient of variation.
        rho: correlation of two steps that follow each other.
        width: independent series.
    """

    def __init__(self, random: np.random.Generator, cv: float, rho: float, width: int) -> None:
        self._random, self._rho = random, rho
        self._sigma = float(np.sqrt(np.log1p(cv * cv)))
        self._last = random.standard_normal(width)

    def take(self, count: int) -> Floats:
        """The next factors, a row a step."""
        shocks = self._random.standard_normal((count, len(self._last))) * np.sqrt(1 - self._rho**2)
        last = self._last
        for at in range(count):
            shocks[at] += self._rho * last
            last = shocks[at]
        self._last = last.copy()
        factors: Floats = np.exp(self._sigma * shocks - self._sigma**2 / 2)
        return factors
