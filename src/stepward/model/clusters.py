"""Clusters as the API shows them: state, pools, partitions, nodes, and the operations that change them."""

from typing import Any, Literal

import msgspec

ClusterState = Literal["creating", "ready", "updating", "degraded", "deleting", "failed"]
OperationKind = Literal["create", "update", "delete"]
OperationState = Literal["running", "done", "failed", "interrupted"]
StepState = Literal["pending", "running", "done", "failed"]


class OperationStep(msgspec.Struct, kw_only=True):
    """One step of an operation; ``seconds`` is what it took."""

    key: str
    title: str
    state: StepState = "pending"
    seconds: float | None = None


class OperationError(msgspec.Struct, kw_only=True):
    """Why an operation stopped; the same members as a problem document."""

    code: str
    detail: str
    hint: str | None = None


class Operation(msgspec.Struct, kw_only=True):
    """A change of a cluster that takes a while. Interrupted: the server died in it; it goes on by itself."""

    id: str
    cluster: str
    kind: OperationKind
    state: OperationState = "running"
    steps: list[OperationStep] = []
    error: OperationError | None = None
    actor: str = ""
    started_at: str
    ended_at: str | None = None


class ClusterNode(msgspec.Struct, kw_only=True):
    """A node as Slurm sees it; ``state`` is Slurm's word, ``unknown`` where it does not answer.

    ``health`` is the agent's verdict; ``power`` says whether the provider has the node switched on.
    """

    name: str
    pool: str
    state: str
    reason: str | None = None
    health: Literal["ok", "bad", "unknown"] = "unknown"
    power: Literal["on", "off"] = "off"
    spare: bool = False


class ClusterPool(msgspec.Struct, kw_only=True):
    """A pool and how many of its nodes are up."""

    id: str
    min_nodes: int
    max_nodes: int
    up: int
    shape: dict[str, Any]


class ClusterPartition(msgspec.Struct, kw_only=True):
    """A partition as Slurm has it: ``up``, ``down``, ``drain``, ``inactive``; ``unknown`` where Slurm does not answer."""

    id: str
    node_pools: list[str]
    default: bool
    max_time: str
    state: str


class ClusterService(msgspec.Struct, kw_only=True):
    """A daemon of the cluster and whether it runs."""

    role: str
    running: bool


class Cluster(msgspec.Struct, kw_only=True):
    """A cluster; ``slurm_conf`` is what SLURM_CONF must be for Slurm's own commands."""

    name: str
    display_name: str
    slurm_name: str
    provider: str
    state: ClusterState
    problems: list[str] = []
    slurm_conf: str
    rest_url: str | None = None
    created_at: str
    pools: list[ClusterPool] = []
    partitions: list[ClusterPartition] = []
    nodes: list[ClusterNode] = []
    services: list[ClusterService] = []
    operation: Operation | None = None
    spec: dict[str, Any] = {}


class NewCluster(msgspec.Struct, kw_only=True):
    """What ``POST /clusters`` takes: a specification as a JSON value, or as text of YAML or JSON.

    The name is made from ``display_name`` where none is given.
    """

    spec: Any
    name: str | None = None


class ClusterChange(msgspec.Struct, kw_only=True):
    """The whole specification of a cluster that exists, as a JSON value or as text of YAML or JSON.

    None only where a route says what that means. ``reason`` is kept in the audit.
    """

    spec: Any = None
    reason: str = ""


class ClusterPlan(msgspec.Struct, kw_only=True):
    """What an operation would do, without doing it."""

    cluster: str
    kind: OperationKind
    changes: list[str] = []
    steps: list[OperationStep] = []
