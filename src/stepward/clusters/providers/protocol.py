"""What a provider of machines does for a cluster. Every step may be done again: it makes true what is not true yet."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from stepward.clusters.spec import ClusterSpec
from stepward.model.clusters import ClusterService


class Step(NamedTuple):
    """One step of an operation: its key, what it says while it runs, and the work, which may be done again."""

    key: str
    title: str
    work: Callable[[], None]


class Provider(Protocol):
    """Makes, keeps and ends the machines and daemons of one cluster.

    A step that fails raises a ``StepwardError`` that says what to do; the operation stops there and can be gone on with.
    """

    def check(self, spec: ClusterSpec) -> None:
        """Refuse what the place cannot carry, before anything is touched."""

    def make(self) -> Sequence[Step]:
        """Steps that make the cluster what its record's specification says: from nothing, or from what is there."""

    def unmake(self) -> Sequence[Step]:
        """Steps that leave nothing of the cluster."""

    def busy(self, nodes: Sequence[str]) -> dict[str, list[str]]:
        """Which of these nodes have jobs, and which jobs."""

    def supervise(self, may: Callable[[str], bool]) -> list[str]:
        """Start again what died unasked, each role or node where it ``may``; the roles that were started."""

    def services(self) -> list[ClusterService]:
        """The cluster's daemons, those of nodes left out."""

    def is_on(self, node: str) -> bool:
        """Whether a node is switched on."""

    def power_on(self, node: str) -> None:
        """Switch a node on."""

    def power_off(self, node: str) -> None:
        """Switch a node off, with a word to its daemons."""

    def kill_node(self, node: str) -> None:
        """Cut a node's power: everything on it is gone at once. For tests of what happens then."""
