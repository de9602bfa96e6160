"""Taking a node out of service by hand and giving it back: what is refused, and what Slurm is told. Pure.

What policies do by themselves is in ``clusters.health`` and ``respond``; a person may undo what they did, and they never what
a person did.
"""

from collections.abc import Sequence

from stepward.errors import Conflict, UsageError
from stepward.orchestrators.slurm.records import SlurmNode, SlurmPartition


def check_drain(
    node: SlurmNode, nodes: Sequence[SlurmNode], partitions: Sequence[SlurmPartition], reason: str, *, force: bool
) -> None:
    """Refuse to drain a node without a reason, twice, or (unless forced) as the last one of a partition.

    Raises:
        UsageError: ``no_reason``.
        Conflict: ``node_drained``, ``last_node`` (``partitions``).
    """
    if not reason.strip():
        raise UsageError(
            f"why is {node.name} to be drained?",
            code="no_reason",
            hint="a reason, for whoever finds the node out of service",
        )
    if "DRAIN" in node.flags:
        raise Conflict(
            f"{node.name} is {node.state} already: {node.reason or 'nobody said why'}",
            code="node_drained",
            hint="resume it first to say another reason",
        )
    usable = {other.name for other in nodes if other.usable} - {node.name}
    emptied = [
        one.name for one in partitions if one.state == "UP" and node.name in one.nodes and not usable & {*one.nodes}
    ]
    if node.usable and emptied and not force:
        raise Conflict(
            f"{node.name} is the last node in service of partition {', '.join(emptied)}",
            code="last_node",
            hint="force drains it all the same; jobs of the partition then wait",
            partitions=emptied,
        )


def check_resume(node: SlurmNode) -> None:
    """Refuse to give back a node that nobody has taken out of service.

    Raises:
        Conflict: ``node_in_service``.
    """
    if node.base != "DOWN" and not node.flags & {"DRAIN", "FAIL"}:
        raise Conflict(f"{node.name} is {node.state}: it is in service", code="node_in_service")


def drain_reason(actor: str, reason: str) -> str:
    """The reason as Slurm keeps it: who it was comes first, for Slurm itself knows the server's user alone."""
    return f"{actor}: {reason.strip()}"
