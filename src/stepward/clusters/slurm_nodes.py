"""Nodes as Slurm has them, for many who ask: each cluster is asked at most every ``REST_S``."""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from stepward.errors import StepwardError
from stepward.model.nodes import NodeInSlurm
from stepward.orchestrators.slurm.records import SlurmNode

REST_S = 2.0
_log = logging.getLogger("stepward.clusters")


class SlurmNodes:
    """The nodes of some Slurm clusters.

    Args:
        clusters: Slurm's name of each cluster -> its slurm.conf.
        ask: reads the nodes of the cluster of a slurm.conf; a ``StepwardError`` counts as no answer.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        clusters: Callable[[], Mapping[str, str]],
        ask: Callable[[str], Sequence[SlurmNode]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clusters, self._ask, self._clock = clusters, ask, clock
        self._known: dict[str, tuple[float, dict[str, SlurmNode] | None]] = {}
        self._lock = threading.Lock()

    def clusters(self) -> list[str]:
        """Slurm's names of the clusters that can be asked."""
        return sorted(self._clusters())

    def records(self, cluster: str) -> dict[str, SlurmNode] | None:
        """The nodes of a cluster by name; None where there is no such cluster or Slurm does not answer."""
        with self._lock:
            known = self._known.get(cluster)
            if known is not None and self._clock() - known[0] < REST_S:
                return known[1]
            conf = self._clusters().get(cluster)
            found = None if conf is None else self._asked(cluster, conf)
            self._known[cluster] = self._clock(), found
            return found

    def of(self, cluster: str) -> dict[str, NodeInSlurm]:
        """The nodes of a cluster as the API shows them; {} where ``records`` has none."""
        return {
            name: NodeInSlurm(
                state=node.state,
                responding=node.responding,
                reason=node.reason or None,
                reason_by=node.reason_by or None,
            )
            for name, node in (self.records(cluster) or {}).items()
        }

    def _asked(self, cluster: str, conf: str) -> dict[str, SlurmNode] | None:
        try:
            return {node.name: node for node in self._ask(conf)}
        except StepwardError as error:
            _log.info("cluster %s does not say how its nodes are: %s", cluster, error)
            return None
