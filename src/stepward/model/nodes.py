"""Nodes as the API shows them: heartbeat, health checks, load, what Slurm says, and the jobs on them."""

from typing import Any, Literal

import msgspec

from stepward.model.points import Series

NodeState = Literal["live", "lost", "stopped", "unknown"]
"""``lost``: the agent is not heard any more; ``stopped``: it was ended on purpose; ``unknown``: it was never heard."""
NodeVerb = Literal["drain", "resume"]
"""``drain``: no new jobs, those that run go on; ``resume``: back in service."""


class NodeCheck(msgspec.Struct, kw_only=True):
    """What a health check of the node said last; ``reason`` is empty for a plain ok."""

    name: str
    layer: str = "infrastructure"
    severity: str = "warn"
    result: Literal["ok", "bad", "unknown"]
    reason: str = ""
    value: float | None = None
    at: str | None = None


class NodeJob(msgspec.Struct, kw_only=True):
    """A job with processes on the node; ``run`` where the caller may see its run."""

    id: str
    name: str
    processes: int = 0
    devices: str = ""
    run: str | None = None


class NodeInSlurm(msgspec.Struct, kw_only=True):
    """The node as Slurm has it: its state in a word, whether slurmd answers, and why it is out of service.

    ``reason_words`` is the reason for people: what stepward itself wrote for programs, in words.
    """

    state: str
    responding: bool = True
    reason: str | None = None
    reason_words: str | None = None
    reason_by: str | None = None


class Node(msgspec.Struct, kw_only=True):
    """A node of a cluster.

    Attributes:
        run: id of the run that its agent writes, in the project ``_nodes``; None where none was ever heard.
        since: since when the state is so, as far as it is known.
        cpu: per cent of all CPUs, as the newest sample has it; memory in bytes.
        devices: accelerators, as the driver names them.
        bad: names of the checks that are bad.
    """

    name: str
    cluster: str
    state: NodeState
    run: str | None = None
    since: str | None = None
    last_heard_at: str | None = None
    load: float | None = None
    cpu: float | None = None
    cpus: int | None = None
    memory_used: float | None = None
    memory_total: float | None = None
    devices: list[dict[str, Any]] = []
    bad: list[str] = []
    checks: list[NodeCheck] = []
    jobs: list[NodeJob] = []
    slurm: NodeInSlurm | None = None


class NodeChange(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Why a node is drained or given back; kept in the audit, and of a drain by Slurm.

    ``force`` drains the last node in service of a partition, too.
    """

    reason: str = ""
    force: bool = False


class NodeChanged(msgspec.Struct, kw_only=True):
    """What was done to a node, or with ``dry_run`` would be.

    Attributes:
        jobs: that run on it; a drain lets them go on to their end.
        was: the node as Slurm had it before.
        action: id of the record in the audit.
    """

    node: str
    kind: NodeVerb
    dry_run: bool = False
    jobs: list[str] = []
    was: NodeInSlurm
    action: str


class RunNode(msgspec.Struct, kw_only=True):
    """A node of one attempt of a run, and what it measured while the attempt had it.

    Attributes:
        known: whether an agent of this node has ever been heard.
        series: what may be charted of it; series of other runs' jobs are not among them.
    """

    node: str
    cluster: str | None = None
    attempt: int
    started_at: str
    ended_at: str | None = None
    known: bool = False
    series: list[Series] = []
