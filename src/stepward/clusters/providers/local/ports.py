"""Free TCP ports on loopback, chosen once in a cluster's life and remembered in its record."""

import random
import socket
from collections.abc import Collection, Sequence

from stepward.clusters.record import Ports
from stepward.errors import Unavailable

FIRST, LAST = 10_000, 29_999
"""Below the range from which the kernel gives ports to outgoing connections (32768 on Linux)."""
_TRIES = 4000


def chosen(present: Ports | None, nodes: Sequence[str], taken: Collection[int]) -> Ports:
    """Ports for the daemons and ``nodes``; those in ``present`` stay, also for nodes that are switched off.

    Args:
        taken: ports of other clusters, whose daemons may be down now.

    Raises:
        Unavailable: ``no_cluster_port``.
    """
    kept = present.nodes if present else {}
    used = set(taken) | set(kept.values())
    if present:
        used |= {present.controller, present.accounting, present.database, present.rest}
    ports = present or Ports(controller=_free(used), accounting=_free(used), database=_free(used), rest=_free(used))
    return Ports(
        controller=ports.controller,
        accounting=ports.accounting,
        database=ports.database,
        rest=ports.rest,
        nodes={node: kept[node] if node in kept else _free(used) for node in nodes},
    )


def all_of(ports: Ports) -> set[int]:
    """Every port of a cluster."""
    return {ports.controller, ports.accounting, ports.database, ports.rest, *ports.nodes.values()}


def _free(used: set[int]) -> int:
    """A port that nobody listens on, added to ``used``; random, so that two servers seldom choose alike."""
    for _ in range(_TRIES):
        port = random.randint(FIRST, LAST)
        if port not in used and _is_free(port):
            used.add(port)
            return port
    raise Unavailable(f"no free port between {FIRST} and {LAST}", code="no_cluster_port", retry_after_s=60.0)


def _is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as sock:
        try:
            # On all addresses: a listener on any of them would be in the way.
            sock.bind(("", port))
        except OSError:
            return False
    return True
