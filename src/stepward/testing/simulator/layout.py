"""Which rank sits where: nodes, accelerators, and the grid of data, pipeline and tensor parallelism."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Layout(NamedTuple):
    """A job of ``dp * pp * tp`` ranks, ``per_node`` of them on each node.

    Ranks count through tensor-parallel neighbours first, then through replicas, then through pipeline stages, as the common
    trainers number them.
    """

    dp: int
    pp: int
    tp: int
    per_node: int
    prefix: str = "gpu-"

    @property
    def ranks(self) -> int:
        """Number of ranks."""
        return self.dp * self.pp * self.tp

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return -(-self.ranks // self.per_node)

    def node(self, number: int) -> str:
        """Name of a node."""
        return f"{self.prefix}{number + 1:02d}"

    def node_of(self, rank: int) -> str:
        """Name of the node that a rank runs on."""
        return self.node(rank // self.per_node)

    def ranks_on(self, number: int) -> tuple[int, ...]:
        """Ranks of a node."""
        return tuple(range(number * self.per_node, min(self.ranks, (number + 1) * self.per_node)))

    def stage(self, number: int) -> tuple[int, ...]:
        """Ranks of a pipeline stage."""
        width = self.dp * self.tp
        return tuple(range(number * width, (number + 1) * width))

    def places(self) -> dict[str, tuple[int, ...]]:
        """Node -> ranks on it."""
        return {self.node(number): self.ranks_on(number) for number in range(self.nodes)}

    def released(self, arrivals: Floats) -> Floats:
        """When the gradients of each rank may be reduced: behind the slowest of its tensor group, pipeline and replicas.

        Args:
            arrivals: instant at which each rank has done its own work.
        """
        grid = arrivals.reshape(self.pp, self.dp, self.tp)
        for axis in (2, 0, 1):
            grid = np.broadcast_to(grid.max(axis=axis, keepdims=True), grid.shape)
        return grid.reshape(-1)
