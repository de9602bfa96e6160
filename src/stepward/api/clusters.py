"""Clusters: made, changed and ended by administrators of the whole server, seen by everybody who may read."""

import asyncio
import contextlib

from litestar import Response, delete, get, post, put
from litestar.params import FromPath, FromQuery, JSONBody

from stepward.api.answer import AnyRequest, answer
from stepward.api.auth import ADMIN, Who
from stepward.api.parts import Given, Parts
from stepward.api.tokens import whole_server
from stepward.clusters.changes import changes
from stepward.clusters.naming import cluster_name
from stepward.clusters.reading import spec_of
from stepward.clusters.record import ClusterRecord
from stepward.clusters.view import NodeHealth, Observed, shown
from stepward.errors import NotFound, StepwardError
from stepward.model.clusters import Cluster, ClusterChange, ClusterPlan, NewCluster, Operation
from stepward.model.nodes import Node


# Several methods on one path: see get_run.
@get("/api/v1/clusters", operation_id="list_clusters")
async def list_clusters(request: AnyRequest, parts: Given) -> Response[list[Cluster]]:
    """All clusters of this server by name, half-made ones too."""
    return answer(request, await asyncio.to_thread(_all, parts))


@post("/api/v1/clusters", operation_id="create_cluster", opt=ADMIN, status_code=202)
async def create_cluster(parts: Given, who: Who, data: JSONBody[NewCluster]) -> Operation:
    """Begin to make a cluster, or go on with one that was half made; the operation says how far it is."""
    whole_server(who)

    def begin() -> Operation:
        operation = parts.clusters.create(spec_of(data.spec), name=data.name, actor=who.name)
        # Not before: until then it has no name of Slurm's, by which the audit knows it.
        slurm_name = parts.queues.slurm_name(operation.cluster)
        told = {"operation": operation.id}
        parts.actions.begin(actor=who.name, kind="cluster_create", cluster=slurm_name, data=told, outcome="done")
        return operation

    return await asyncio.to_thread(begin)


@get("/api/v1/clusters/{cluster:str}", operation_id="get_cluster")
async def get_cluster(request: AnyRequest, parts: Given, cluster: FromPath[str]) -> Response[Cluster]:
    """One cluster with pools, partitions, nodes and its newest operation; named by name or by Slurm's ClusterName."""
    found = await asyncio.to_thread(lambda: _shown(parts, parts.clusters.records.find(cluster)))
    return answer(request, found)


@put("/api/v1/clusters/{cluster:str}", operation_id="update_cluster", opt=ADMIN, status_code=202)
async def update_cluster(parts: Given, who: Who, cluster: FromPath[str], data: JSONBody[ClusterChange]) -> Operation:
    """Begin to make a cluster what the whole specification says. Running jobs go on."""
    whole_server(who)

    def begin() -> Operation:
        spec, record = spec_of(data.spec), parts.clusters.records.find(cluster)
        what = {"actor": who.name, "kind": "cluster_update", "cluster": record.slurm_name, "reason": data.reason}
        with parts.actions.recorded(**what) as (_, told):
            told["changes"] = changes(record.spec, spec)
            operation = parts.clusters.update(record.name, spec, actor=who.name)
            told["operation"] = operation.id
        return operation

    return await asyncio.to_thread(begin)


@delete("/api/v1/clusters/{cluster:str}", operation_id="delete_cluster", opt=ADMIN, status_code=202)
async def delete_cluster(parts: Given, who: Who, cluster: FromPath[str]) -> Operation:
    """Begin to end a cluster in whatever state it is: its jobs, processes, control groups and files."""
    whole_server(who)

    def begin() -> Operation:
        record = parts.clusters.records.find(cluster)
        with parts.actions.recorded(actor=who.name, kind="cluster_delete", cluster=record.slurm_name) as (_, told):
            operation = parts.clusters.delete(record.name, actor=who.name)
            told["operation"] = operation.id
        return operation

    return await asyncio.to_thread(begin)


@post("/api/v1/clusters/{cluster:str}/plan", operation_id="plan_cluster", status_code=200, sync_to_thread=True)
def plan_cluster(parts: Given, cluster: FromPath[str], data: JSONBody[ClusterChange]) -> ClusterPlan:
    """What making or changing this cluster would do, or ending it where no specification is given. Nothing is touched."""
    if data.spec is None:
        return parts.clusters.plan_delete(parts.clusters.records.find(cluster).name)
    return parts.clusters.plan(cluster_name(cluster), spec_of(data.spec))


@get("/api/v1/operations", operation_id="list_operations", sync_to_thread=True)
def list_operations(
    request: AnyRequest, parts: Given, cluster: FromQuery[str | None] = None
) -> Response[list[Operation]]:
    """The operations of all clusters, or of one, newest first; those of clusters that are gone too."""
    found = parts.clusters.records.operations()
    return answer(request, [one for one in found if cluster in (None, one.cluster)])


@get("/api/v1/operations/{operation:str}", operation_id="get_operation", sync_to_thread=True)
def get_operation(parts: Given, operation: FromPath[str]) -> Operation:
    """How far an operation is: its steps, the seconds that each took, why it failed."""
    return parts.clusters.records.operation(operation)


def _all(parts: Parts) -> list[Cluster]:
    found = []
    for name in parts.clusters.records.names():
        with contextlib.suppress(NotFound):  # it was ended meanwhile
            found.append(_shown(parts, parts.clusters.records.get(name)))
    return found


def _shown(parts: Parts, record: ClusterRecord) -> Cluster:
    clusters = parts.clusters
    try:
        operation = clusters.records.operation(record.operation) if record.operation else None
    except NotFound:
        operation = None
    folder = clusters.records.folder(record.name)
    return shown(record, folder, clusters.provider(record), operation, _observed(parts, record))


def _observed(parts: Parts, record: ClusterRecord) -> Observed:
    """What Slurm and the agents say of a cluster that was ready once."""
    if record.applied is None:
        return Observed()
    heard = parts.nodes.nodes(None, record.slurm_name)
    try:
        queue = parts.queues.of(record.slurm_name)
        nodes = {node.name: node for node in queue.nodes()}
        off = {name for name, node in nodes.items() if node.powered_down}
        health = {node.name: _health(node) for node in heard if node.name not in off}
        return Observed(nodes=nodes, partitions=queue.partitions(), health=health)
    except StepwardError:
        return Observed(health={node.name: _health(node) for node in heard})


def _health(node: Node) -> NodeHealth:
    if node.state == "lost" or node.bad:
        return "bad"
    return "ok" if node.state == "live" else "unknown"


ROUTES = [
    list_clusters,
    create_cluster,
    get_cluster,
    update_cluster,
    delete_cluster,
    plan_cluster,
    list_operations,
    get_operation,
]
