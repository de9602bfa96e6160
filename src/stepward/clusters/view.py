"""A cluster as the API shows it: what was asked for, what Slurm says of it now, and what is not well."""

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from stepward.clusters.providers.local.layout import Layout
from stepward.clusters.providers.protocol import Provider
from stepward.clusters.record import ClusterRecord
from stepward.clusters.spec import NodePool, node_names, nodes_of, permanent_nodes
from stepward.model.clusters import (
    Cluster,
    ClusterNode,
    ClusterPartition,
    ClusterPool,
    ClusterService,
    ClusterState,
    Operation,
)
from stepward.model.resources import instant
from stepward.orchestrators.slurm.reasons import node_reason
from stepward.orchestrators.slurm.records import SlurmNode, SlurmPartition

NodeHealth = Literal["ok", "bad", "unknown"]


class Observed(msgspec.Struct, frozen=True, kw_only=True):
    """What Slurm and the agents say; None where Slurm does not answer."""

    nodes: Mapping[str, SlurmNode] | None = None
    partitions: Sequence[SlurmPartition] | None = None
    health: Mapping[str, NodeHealth] = {}


def shown(
    record: ClusterRecord, folder: str, provider: Provider, operation: Operation | None, seen: Observed
) -> Cluster:
    """The resource of a cluster."""
    services = provider.services() if record.ports is not None else []
    nodes = [
        _node(record, pool, name, provider, seen) for pool in record.spec.compute_pools() for name in node_names(pool)
    ]
    problems = _problems(record, services, nodes, seen)
    return Cluster(
        name=record.name,
        display_name=record.spec.display_name,
        slurm_name=record.slurm_name,
        provider=record.spec.provider,
        state=_state(record.state, problems),
        problems=problems,
        slurm_conf=Layout(folder).conf,
        rest_url=f"http://127.0.0.1:{record.ports.rest}" if record.ports and record.spec.controller.rest else None,
        created_at=instant(record.created_at),
        pools=[_pool(pool, nodes) for pool in record.spec.node_pools],
        partitions=_partitions(record, seen),
        nodes=nodes,
        services=services,
        operation=operation,
        spec=msgspec.to_builtins(record.spec),
    )


def _state(state: ClusterState, problems: list[str]) -> ClusterState:
    return "degraded" if state == "ready" and problems else state


def _node(record: ClusterRecord, pool: NodePool, name: str, provider: Provider, seen: Observed) -> ClusterNode:
    known = (seen.nodes or {}).get(name)
    return ClusterNode(
        name=name,
        pool=pool.id,
        state=known.state if known else "unknown",
        reason=(known.reason or None) if known else None,
        health=seen.health.get(name, "unknown"),
        power="on" if provider.is_on(name) else "off",
        spare=name not in permanent_nodes(record.spec),
    )


def _pool(pool: NodePool, nodes: Sequence[ClusterNode]) -> ClusterPool:
    return ClusterPool(
        id=pool.id,
        min_nodes=pool.min_nodes,
        max_nodes=pool.max_nodes,
        up=sum(node.pool == pool.id and node.power == "on" for node in nodes),
        shape=msgspec.to_builtins(pool.shape),
    )


def _partitions(record: ClusterRecord, seen: Observed) -> list[ClusterPartition]:
    states = {one.name: one.state.lower() for one in seen.partitions or []}
    return [
        ClusterPartition(
            id=one.id,
            node_pools=one.node_pools,
            default=one.id == record.spec.default_partition(),
            max_time=one.max_time,
            state=states.get(one.id, "unknown"),
        )
        for one in record.spec.partitions
    ]


def _problems(
    record: ClusterRecord, services: Sequence[ClusterService], nodes: Sequence[ClusterNode], seen: Observed
) -> list[str]:
    """What is not as a ready cluster has it."""
    if record.state != "ready":
        return []
    found = [f"{service.role} does not run" for service in services if not service.running]
    if seen.nodes is None:
        return [*found, "Slurm does not answer"]
    usual = set(nodes_of(record.spec)) & set(permanent_nodes(record.spec))
    for node in nodes:
        if node.name in usual and node.state.startswith(("down", "drain", "fail", "unknown")):
            found.append(f"{node.name} is {node.state}{f': {node_reason(node.reason)}' if node.reason else ''}")
    return found
