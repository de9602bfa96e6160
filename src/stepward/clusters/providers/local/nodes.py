"""The power switch of a node: on, off, and pulled out.

``power/<node>`` says what is wanted, so that whoever restarts what died leaves alone what was switched off on purpose.
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator, Sequence

import msgspec

from stepward.clusters.companions import Companion, Server, companions
from stepward.clusters.providers.local import daemons, processes
from stepward.clusters.providers.local.layout import Layout
from stepward.clusters.providers.local.processes import Process
from stepward.clusters.record import ClusterRecord, write_atomically

GRACE_S = 5.0


def is_on(layout: Layout, node: str) -> bool:
    """Whether the node is to be up."""
    try:
        with open(layout.switch(node), "rb") as file:
            return file.read() == b"on"
    except OSError:
        return False


def switch_on(record: ClusterRecord, layout: Layout, node: str, *, booted: bool = False) -> None:
    """Start what belongs to a node, as far as it does not run."""
    with _held(layout, node):
        write_atomically(layout.switch(node), b"on", 0o644)
        os.makedirs(layout.path("spool", node), exist_ok=True)
        daemons.start(record, layout, daemons.slurmd(node, booted=booted))
        for one in _companions(record, layout, [node]):
            daemons.start(record, layout, daemons.companion(one))


def switch_off(record: ClusterRecord, layout: Layout, node: str) -> None:
    """End what belongs to a node, daemons first with a word, then steps and jobs that are left."""
    with _held(layout, node):
        write_atomically(layout.switch(node), b"off", 0o644)
        mine = _of_node(record, layout, node)
        processes.end([one for one in mine if one.role], grace_s=GRACE_S)
        processes.end(_of_node(record, layout, node), grace_s=0)


def pull(record: ClusterRecord, layout: Layout, node: str) -> int:
    """Power loss: everything of a node dies at once, nothing of it is told. The number of processes that were killed."""
    with _held(layout, node):
        write_atomically(layout.switch(node), b"off", 0o644)
        killed: set[tuple[int, int]] = set()
        # Again until nothing is found: a step may start a process between the look and the kill.
        while left := _of_node(record, layout, node):
            processes.end(left, grace_s=0)
            killed |= {(one.pid, one.start) for one in left}
        return len(killed)


def watcher(record: ClusterRecord, layout: Layout) -> list[Companion]:
    """The companions of the cluster as a whole."""
    return _companions(record, layout, [])


def remember_server(layout: Layout, server: Server | None) -> None:
    """Keep, for the programs that Slurm calls, where companions send what they see."""
    write_atomically(layout.path("etc", "server.json"), msgspec.json.encode(server), 0o600)
    # The address alone is for everybody: the tasks of jobs read it (see ``power.write_programs``).
    write_atomically(layout.path("etc", "server.url"), (server.url if server else "").encode(), 0o644)


def remembered_server(layout: Layout) -> Server | None:
    """What ``remember_server`` kept."""
    try:
        with open(layout.path("etc", "server.json"), "rb") as file:
            return msgspec.json.decode(file.read(), type=Server | None)
    except (OSError, msgspec.MsgspecError):
        return None


def _companions(record: ClusterRecord, layout: Layout, nodes: Sequence[str]) -> list[Companion]:
    every = companions(record.slurm_name, nodes, remembered_server(layout), layout.path("agents"))
    return [one for one in every if bool(nodes) == bool(one.node)]


def _of_node(record: ClusterRecord, layout: Layout, node: str) -> list[Process]:
    return [one for one in processes.of_cluster(record.slurm_name, layout.folder) if one.node == node]


@contextlib.contextmanager
def _held(layout: Layout, node: str) -> Iterator[None]:
    """One change of a node's power at a time, across processes: Slurm's programs and the server meet here."""
    lock = os.open(layout.path("run", f"{node}.power"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)
