"""Declares nodes dead whose agents fell silent, so that Slurm requeues their jobs at once, and gives them back.

``decide`` is pure and level-triggered: what to do follows from how the nodes are now, so that nothing is remembered over a
restart and nothing old is done again. A node is taken down only when its agent was heard by this server and is not any
more, nothing answers at its slurmd's port, and nobody else has taken it out of service; it is given back only when the
reason is ours, its agent is heard again and slurmd answers.
"""

import contextlib
import logging
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import msgspec

from stepward.clusters.queues import Queues
from stepward.clusters.record import Records
from stepward.clusters.spec import ClusterSpec, Health
from stepward.errors import NotFound, StepwardError
from stepward.ingest.hearing import Hearing
from stepward.model.frames import Event
from stepward.model.states import State
from stepward.orchestrators.slurm.records import SlurmNode
from stepward.store.catalog.actions import STEPWARD, Actions
from stepward.store.catalog.nodes import NodeHead, Nodes

PREFIX = "stepward:infrastructure:heartbeat:"
"""Beginning of the reason of every node that this module has taken down; the id of its event follows."""
SMALL_CLUSTER, SMALL_SHARE, SHARE = 20, 0.5, 0.05
"""Share of a cluster's nodes that may be down by us at once, below and from so many nodes on; one may always."""
BLAST_SHARE, BLAST_NODES, BLAST_S = 0.2, 3, 60.0
"""Nodes lost within so many seconds from which on the fault is more likely between us and them."""
PROBE_S = 1.0
"""A host of the cluster's network answers in milliseconds, or refuses as fast."""
RETRY_S = 5.0
CALM_LOOK_S = 30.0
"""Pause between two looks at Slurm's nodes while no agent is silent: nodes of ours may wait to be given back."""
REBOOTED = "Node unexpectedly rebooted"
"""Slurm's reason for a node in service that registers with a later boot: one that we gave back before it had registered."""
RETURNED_S = 60.0
"""For so long after a node was given back its reboot is still the same incident."""
_OUT = frozenset({"DRAIN", "FAIL", "MAINTENANCE", "REBOOT_ISSUED", "POWERED_DOWN", "POWERING_DOWN", "POWERING_UP"})
_log = logging.getLogger("stepward.clusters")

Kind = Literal["down", "resume", "alert"]


class NodeView(msgspec.Struct, frozen=True, kw_only=True):
    """How a node is.

    Attributes:
        heard: ``live``; ``lost``: heard by this server once, and not any more; None: neither, so that it is let be.
        silence_s: seconds of silence that count; 0 while it is heard.
        event: id of the event of its loss.
        answers: whether something answers at its slurmd's port; None where it was not asked.
        returned: id of the event of a loss after which it was given back a moment ago.
    """

    slurm: SlurmNode
    heard: Literal["live", "lost"] | None
    silence_s: float = 0.0
    event: str = ""
    answers: bool | None = None
    returned: str = ""

    @property
    def has_rebooted(self) -> bool:
        """Whether Slurm has taken it down again for the very reboot from which we gave it back."""
        return self.slurm.base == "DOWN" and bool(self.returned) and self.slurm.reason.startswith(REBOOTED)

    @property
    def is_ours(self) -> bool:
        """Whether we have taken it down."""
        return self.slurm.base == "DOWN" and self.slurm.reason.startswith(PREFIX)


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """What to do with a node, and why in words; ``again`` although it was done before."""

    kind: Kind
    node: str
    why: str
    event: str = ""
    again: bool = False


def decide(nodes: Sequence[NodeView]) -> list[Decision]:
    """What to do with the nodes of one cluster as they are now."""
    dead = [node for node in nodes if _may_be_taken_down(node)]
    decisions = [_returned(node) for node in nodes if _may_be_given_back(node)]
    alive = [node for node in dead if node.answers]
    decisions += [_alert(node, "its agent is silent, but its slurmd answers") for node in alive]
    dead = [node for node in dead if not node.answers]
    lost = [node for node in nodes if node.heard == "lost" and node.silence_s <= BLAST_S]
    if len(lost) >= BLAST_NODES and len(lost) > BLAST_SHARE * len(nodes):
        words = f"{len(lost)} of {len(nodes)} nodes fell silent within {BLAST_S:g} s: the fault is likely not theirs"
        return [*decisions, *(_alert(node, words) for node in dead)]
    room = most_down(len(nodes)) - sum(node.is_ours for node in nodes)
    if len(dead) > room:
        words = f"{len(dead)} nodes are silent and only {max(room, 0)} more may be taken down"
        return [*decisions, *(_alert(node, words) for node in dead)]
    return [*decisions, *(_down(node) for node in dead)]


def most_down(nodes: int) -> int:
    """How many nodes of a cluster of that size may be down by us at once."""
    return max(1, int(nodes * (SMALL_SHARE if nodes < SMALL_CLUSTER else SHARE)))


def _may_be_taken_down(node: NodeView) -> bool:
    """Silent, in service, and not already down; what an administrator has taken out stays as it is."""
    out = node.slurm.base in ("DOWN", "ERROR", "FUTURE", "UNKNOWN") or bool(node.slurm.flags & _OUT)
    return node.heard == "lost" and not out


def _may_be_given_back(node: NodeView) -> bool:
    drained = node.slurm.flags & {"DRAIN", "FAIL", "POWERED_DOWN", "POWERING_DOWN"}
    ours = node.is_ours or node.has_rebooted
    return ours and node.heard == "live" and node.slurm.responding and node.answers is True and not drained


def _down(node: NodeView) -> Decision:
    why = f"its agent has been silent for {node.silence_s:.0f} s and nothing answers at its slurmd's port"
    return Decision(kind="down", node=node.slurm.name, why=why, event=node.event)


def _returned(node: NodeView) -> Decision:
    return Decision(
        kind="resume",
        node=node.slurm.name,
        why="its agent is heard again and its slurmd answers",
        event=node.returned if node.has_rebooted else node.slurm.reason.removeprefix(PREFIX),
        again=node.has_rebooted,
    )


def _alert(node: NodeView, why: str) -> Decision:
    return Decision(kind="alert", node=node.slurm.name, why=why, event=node.event)


def watched_clusters(records: Records) -> dict[str, ClusterSpec]:
    """The specifications of the clusters of this server that run, by Slurm's name."""
    found = {}
    for name in records.names():
        with contextlib.suppress(NotFound):
            record = records.get(name)
            if record.applied is not None and record.state in ("ready", "updating", "degraded"):
                found[record.slurm_name] = record.spec
    return found


class HealthWatch:
    """Looks at the nodes of the managed clusters and does what ``decide`` says, each thing once.

    Args:
        clusters: Slurm's name of each cluster -> what may be done to its nodes.
        queues: ask and change them.
        clock: µs since the epoch.
        answers: whether something answers at (address, port).
    """

    def __init__(
        self,
        clusters: Callable[[], Mapping[str, Health]],
        *,
        nodes: Nodes,
        queues: Queues,
        actions: Actions,
        hearing: Hearing,
        clock: Callable[[], int],
        answers: Callable[[str, int], bool] | None = None,
    ) -> None:
        self._clusters, self._nodes, self._queues, self._actions = clusters, nodes, queues, actions
        self._hearing, self._clock, self._answers = hearing, clock, answers or port_answers
        self._heard: set[str] = set()
        self._done: dict[tuple[str, str], tuple[Kind, str]] = {}
        self._not_before: dict[str, float] = {}
        self._calm_until: dict[str, float] = {}
        self._returned: dict[tuple[str, str], tuple[str, float]] = {}

    def look(self) -> None:
        """One look at every cluster; called every second. Failures are logged and tried again."""
        for cluster, health in self._clusters().items():
            if health.policy == "off":
                continue
            try:
                self._look(cluster, health)
            except StepwardError as error:
                self._not_before[cluster] = time.monotonic() + RETRY_S
                _log.warning("health of cluster %s: %s", cluster, error)

    def _look(self, cluster: str, health: Health) -> None:
        heads = {head.node: head for head in self._nodes.heads(cluster)}
        self._heard |= {head.run for head in heads.values() if not head.state.terminal}
        silent = any(self._is_lost(head) for head in heads.values())
        now = time.monotonic()
        if now < self._not_before.get(cluster, 0.0) or (not silent and now < self._calm_until.get(cluster, 0.0)):
            return
        slurm = {node.name: node for node in self._queues.of(cluster).nodes()}
        views = [self._view(node, heads.get(name)) for name, node in slurm.items()]
        decisions = {decision.node: decision for decision in decide(views)}
        calm = not decisions and not any(view.is_ours or view.returned for view in views)
        self._calm_until[cluster] = now + CALM_LOOK_S if calm else 0.0
        for name in slurm:
            self._follow(cluster, health, name, heads.get(name), decisions.get(name))

    def _is_lost(self, head: NodeHead) -> bool:
        return head.state is State.LOST and head.run in self._heard and head.heard_at is not None

    def _view(self, node: SlurmNode, head: NodeHead | None) -> NodeView:
        if head is None or head.heard_at is None:
            return NodeView(slurm=node, heard=None)
        if not head.state.terminal:
            event, until = self._returned.get((head.cluster, head.node), ("", 0.0))
            view = NodeView(slurm=node, heard="live", returned=event if time.monotonic() < until else "")
            return self._asked(view) if view.is_ours or view.has_rebooted else view
        if not self._is_lost(head):
            return NodeView(slurm=node, heard=None)
        silence = self._hearing.silence(head.heard_at, self._clock()) / 1e6
        view = NodeView(slurm=node, heard="lost", silence_s=silence, event=f"lost-{head.heard_at}")
        return self._asked(view) if _may_be_taken_down(view) else view

    def _asked(self, view: NodeView) -> NodeView:
        return msgspec.structs.replace(view, answers=self._answers(view.slurm.address, view.slurm.port))

    def _follow(
        self, cluster: str, health: Health, node: str, head: NodeHead | None, decision: Decision | None
    ) -> None:
        place = cluster, node
        done = self._done.get(place)
        if decision is None:
            # What was alerted is over; what was taken down stays ours until it is given back.
            if done is not None and done[0] == "alert":
                del self._done[place]
        elif decision.again or done != (decision.kind, decision.event):
            self._act(cluster, health, head, decision)
            self._done[place] = decision.kind, decision.event
            self._returned.pop(place, None)
            if decision.kind == "resume" and not decision.again:
                self._returned[place] = decision.event, time.monotonic() + RETURNED_S

    def _act(self, cluster: str, health: Health, head: NodeHead | None, decision: Decision) -> None:
        dry = health.dry_run
        _log.warning("node %s of %s: %s%s: %s", decision.node, cluster, "would be " * dry, decision.kind, decision.why)
        told = {
            "actor": STEPWARD,
            "kind": f"node_{decision.kind}",
            "cluster": cluster,
            "node": decision.node,
            "reason": decision.why,
            "policy": f"health:{health.policy}",
            "data": {"event": decision.event},
        }
        if dry or decision.kind == "alert":
            self._actions.begin(**told, dry_run=dry, outcome="done")  # type: ignore[arg-type]
        else:
            with self._actions.recorded(**told):
                self._set_state(cluster, decision)
        if head is not None:
            self._tell(head, decision, dry=dry)

    def _set_state(self, cluster: str, decision: Decision) -> None:
        queue = self._queues.of(cluster)
        if decision.kind == "down":
            queue.slurm.update_node(decision.node, state="down", reason=f"{PREFIX}{decision.event}")
        else:
            queue.slurm.update_node(decision.node, state="resume")
        queue.forget()

    def _tell(self, head: NodeHead, decision: Decision, *, dry: bool) -> None:
        """The event of the node's loss: from when it was last heard, to when it came back."""
        began = int(decision.event.removeprefix("lost-") or 0)
        self._nodes.tell(
            head.run,
            Event(
                id=decision.event,
                type="node_lost",
                started_at=began,
                ended_at=self._clock() if decision.kind == "resume" else None,
                title=f"{head.node} of {head.cluster}: {decision.why}",
                data={"node": head.node, "cluster": head.cluster, "action": decision.kind, "dry_run": dry},
            ),
        )


def port_answers(address: str, port: int) -> bool:
    """Whether a connection to a port is taken; a silent host counts as no answer after ``PROBE_S``."""
    try:
        with socket.create_connection((address, port), timeout=PROBE_S):
            return True
    except OSError:
        return False
