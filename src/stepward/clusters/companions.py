"""Processes of stepward that live and die with a cluster or with one of its nodes: the watcher, the agents."""

import sys
from collections.abc import Callable, Mapping, Sequence

import msgspec


class Companion(msgspec.Struct, frozen=True, kw_only=True):
    """One such process.

    Attributes:
        role: what it is called among the cluster's daemons.
        argv: what to run.
        environ: variables beside SLURM_CONF, which it gets anyway.
        node: the node that it belongs to; None for one of the whole cluster.
    """

    role: str
    argv: Sequence[str]
    environ: Mapping[str, str] = {}
    node: str | None = None


class Server(msgspec.Struct, frozen=True, kw_only=True):
    """Where companions send what they see, each with a token that may write no more than it must.

    ``project`` is that of jobs which name none.
    """

    url: str
    project: str | None = None
    agent_token: str
    watcher_token: str


ServerOf = Callable[[str, Server | None], Server | None]
"""From a ClusterName, and what was remembered of its server, to what its companions are to be given now."""


def companions(slurm_name: str, nodes: Sequence[str], server: Server | None, spool: str) -> list[Companion]:
    """An agent a node and one watcher; none where no server is known, as in a library without one.

    Args:
        spool: folder below which each keeps its spool, so that it goes with the cluster.
    """
    if server is None:
        return []
    command = [sys.executable, "-m", "stepward", "agent", "--cluster", slurm_name]

    def environ(token: str, folder: str) -> dict[str, str]:
        return {"STEPWARD_SERVER": server.url, "STEPWARD_TOKEN": token, "STEPWARD_DIR": f"{spool}/{folder}"}

    watching = environ(server.watcher_token, "watcher")
    watching |= {"STEPWARD_PROJECT": server.project} if server.project else {}
    watcher = Companion(role="watcher", argv=[*command, "--watch"], environ=watching)
    agents = [
        Companion(role="agent", argv=[*command, "--node", node], environ=environ(server.agent_token, node), node=node)
        for node in nodes
    ]
    return [watcher, *agents]
