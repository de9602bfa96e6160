"""Nodes: those of the clusters with their health, and those of a run with what they measured while the run had them.

A node's series belong to the system project ``_nodes``. On the page of a run they are read with the run's permissions, and
only from the interval in which an attempt had the node; what a node measured of another run's job stays out.

Administrators of the whole server drain a node and give it back; each change is in the audit before it is done.
"""

from typing import Annotated, Literal, NamedTuple

from litestar import Response, get, post
from litestar.params import FromPath, FromQuery, JSONBody, QueryParameter

from stepward.api.answer import AnyRequest, answer
from stepward.api.auth import ADMIN, Who
from stepward.api.parts import Given, Parts
from stepward.api.tokens import whole_server
from stepward.clusters.draining import check_drain, check_resume, drain_reason
from stepward.clusters.health import watched_clusters
from stepward.errors import NotFound, StepwardError
from stepward.model.identity import LOCAL_CLUSTER
from stepward.model.nodes import Node, NodeChange, NodeChanged, NodeInSlurm, NodeVerb, RunNode
from stepward.model.points import Chart, Series
from stepward.model.resources import Run, instant, microseconds
from stepward.model.words import NODES_PROJECT
from stepward.orchestrators.slurm.reasons import node_reason
from stepward.orchestrators.slurm.records import SlurmNode
from stepward.store.catalog import Principal
from stepward.store.catalog.events import EventFilter
from stepward.store.points.protocol import MAX_BUCKETS, By, ChartQuery

_OF_JOBS = "system/job/"


@get("/api/v1/nodes", operation_id="list_nodes", sync_to_thread=True)
def list_nodes(
    request: AnyRequest, parts: Given, who: Who, cluster: FromQuery[str | None] = None
) -> Response[list[Node]]:
    """The nodes of all clusters, or of one (by its name here, or as Slurm calls it), by cluster and name."""
    cluster = None if cluster is None else _slurm_name(parts, cluster)
    return answer(request, _with_slurm(parts, parts.nodes.nodes(who.projects, cluster), cluster))


@get("/api/v1/clusters/{cluster:str}/nodes/{node:str}", operation_id="get_node", sync_to_thread=True)
def get_node(
    request: AnyRequest, parts: Given, who: Who, cluster: FromPath[str], node: FromPath[str]
) -> Response[Node]:
    """One node: heartbeat, checks, newest readings, what Slurm says, its jobs and their runs."""
    slurm_name = _slurm_name(parts, cluster)
    found = _with_slurm(parts, parts.nodes.nodes(who.projects, slurm_name, node), slurm_name)
    one = next((one for one in found if one.name == node), None)
    if one is None:
        raise NotFound(
            f"there is no node {node!r} in cluster {cluster!r}", code="no_such_node", hint="`stepward nodes` lists them"
        )
    return answer(request, one)


@get("/api/v1/runs/{run:str}/nodes", operation_id="list_run_nodes", sync_to_thread=True)
def list_run_nodes(request: AnyRequest, parts: Given, who: Who, run: FromPath[str]) -> Response[list[RunNode]]:
    """The nodes of each attempt of a run, the interval in which it had them, and what may be charted of them."""
    found = parts.runs.get(who.projects, run)
    cluster, job = _place(parts, who, found)
    series: dict[str, list[Series]] = {}
    answers = []
    for one in _allocations(parts, who, found):
        node = parts.nodes.head(cluster, one.node)
        if node is not None and node.run not in series:
            every = parts.points.series(NODES_PROJECT, node.run)
            series[node.run] = [told for told in every if _may_read(told.metric, job)]
        answers.append(
            RunNode(
                node=one.node,
                cluster=node.cluster if node is not None else cluster,
                attempt=one.attempt,
                started_at=instant(one.started_at),
                ended_at=None if one.ended_at is None else instant(one.ended_at),
                known=node is not None,
                series=series[node.run] if node is not None else [],
            )
        )
    return answer(request, answers)


@get("/api/v1/runs/{run:str}/nodes/{node:str}/points", operation_id="get_run_node_chart", sync_to_thread=True)
def get_run_node_chart(
    *,
    request: AnyRequest,
    parts: Given,
    who: Who,
    run: FromPath[str],
    node: FromPath[str],
    metric: FromQuery[str],
    attempt: FromQuery[int | None] = None,
    x: FromQuery[Literal["time", "relative"]] = "time",
    start: FromQuery[float | None] = None,
    end: FromQuery[float | None] = None,
    buckets: Annotated[int, QueryParameter(ge=1, le=MAX_BUCKETS)] = 1000,
    by: FromQuery[By] = "none",
    device: FromQuery[int | None] = None,
) -> Response[Chart]:
    """A metric of a node while an attempt (the newest that had it) had the node; ``relative`` to the run's start."""
    found = parts.runs.get(who.projects, run)
    had = [one for one in _allocations(parts, who, found) if one.node == node and attempt in (None, one.attempt)]
    cluster, job = _place(parts, who, found)
    known = parts.nodes.head(cluster, node) if had and _may_read(metric, job) else None
    if known is None:
        which = "" if attempt is None else f" in attempt {attempt}"
        raise NotFound(
            f"run {found.name!r} has no {metric} of node {node!r}{which}",
            code="no_such_node",
            hint="/api/v1/runs/{run}/nodes lists nodes and series",
        )
    one = max(had, key=lambda one: (one.attempt, one.started_at))
    started_us = parts.runs.head(who.projects, run).started_at
    first, last = _interval(one, started_us if x == "relative" else known.offset_us, parts.clock())
    query = ChartQuery(
        run=known.run,
        metric=metric,
        x=x,
        start=first if start is None else max(start, first),
        end=last if end is None else min(end, last),
        buckets=buckets,
        by=by,
        device=device,
        run_started_us=started_us - known.offset_us,
    )
    return answer(request, parts.points.chart(NODES_PROJECT, query))


@post(
    "/api/v1/clusters/{cluster:str}/nodes/{node:str}/{verb:str}",
    operation_id="change_node",
    opt=ADMIN,
    sync_to_thread=True,
)
def change_node(
    *,
    parts: Given,
    who: Who,
    cluster: FromPath[str],
    node: FromPath[str],
    verb: FromPath[NodeVerb],
    data: JSONBody[NodeChange | None] = None,
    dry_run: FromQuery[bool] = False,
) -> NodeChanged:
    """``drain`` takes a node out of service (jobs that run on it go on, no new ones start), ``resume`` gives it back."""
    whole_server(who)
    asked, queue = data or NodeChange(), parts.queues.of(cluster)
    # As it stands, not as it was remembered: who comes second is told of who came first.
    nodes = queue.slurm.nodes()
    known = next((one for one in nodes if one.name == node), None)
    if known is None:
        raise NotFound(f"Slurm knows no node {node!r}", code="unknown_node", hint="stepward nodes lists them")
    what = {"actor": who.name, "kind": f"node_{verb}", "cluster": queue.slurm_name, "node": node}
    with parts.actions.recorded(**what, reason=asked.reason, dry_run=dry_run) as (action, told):
        was = _in_words(known)
        told["was"] = {"state": was.state, "reason": was.reason}
        jobs = told["jobs"] = [job.id for job in queue.jobs() if node in job.nodes and not job.state.terminal]
        if verb == "resume":
            check_resume(known)
        else:
            check_drain(known, nodes, queue.partitions(), asked.reason, force=asked.force)
        if not dry_run:
            reason = drain_reason(who.name, asked.reason) if verb == "drain" else ""
            queue.slurm.update_node(node, state=verb, reason=reason)
    queue.forget()
    return NodeChanged(node=node, kind=verb, dry_run=dry_run, jobs=jobs, was=was, action=action)


class Allocation(NamedTuple):
    """A node that an attempt had, and when: µs on the server's clock."""

    node: str
    attempt: int
    started_at: int
    ended_at: int | None


def _allocations(parts: Parts, who: Principal, run: Run) -> list[Allocation]:
    """The nodes of a run's attempts: as the scheduler told of the allocation, else as long as the attempt was."""
    told: dict[tuple[int, str], Allocation] = {}
    for event in parts.events.of_run(who.projects, run.id, EventFilter(types=["allocation"])):
        names = event.data.get("nodes")
        for name in names if isinstance(names, list) and event.attempt is not None else ():
            began, ended = (
                microseconds(event.started_at),
                None if event.ended_at is None else microseconds(event.ended_at),
            )
            told[event.attempt or 0, str(name)] = Allocation(str(name), event.attempt or 0, began, ended)
    found = []
    for attempt in run.attempts:
        began = microseconds(attempt.started_at or run.created_at)
        ended = None if attempt.ended_at is None else microseconds(attempt.ended_at)
        for name in attempt.nodes:
            whole = Allocation(name, attempt.number, began, ended)
            found.append(told.get((attempt.number, name), whole))
    return found


def _interval(had: Allocation, origin_us: int, now: int) -> tuple[float, float]:
    """Begin and end of an allocation in seconds after ``origin_us``."""
    ended = now if had.ended_at is None else had.ended_at
    return (had.started_at - origin_us) / 1e6, (ended - origin_us) / 1e6


def _slurm_name(parts: Parts, cluster: str) -> str:
    return cluster if cluster == LOCAL_CLUSTER else parts.queues.slurm_name(cluster)


def _place(parts: Parts, who: Principal, run: Run) -> tuple[str | None, str | None]:
    """Cluster and job of a run, as its key or its scheduler says; None where neither does."""
    system, _, rest = (run.key or "").partition(":")
    if system == "slurm" and ":" in rest:
        cluster, _, job = rest.rpartition(":")
        return cluster, job.partition("#")[0]
    told = parts.runs.config(who.projects, run.id).system.get("job")
    if isinstance(told, dict) and isinstance(told.get("cluster"), str):
        return told["cluster"], str(told.get("id") or "") or None
    return None, None


def _may_read(metric: str, job: str | None) -> bool:
    """What a node measured of a job is for the job's own run; all else it says of itself."""
    return not metric.startswith(_OF_JOBS) or (job is not None and metric.startswith(f"{_OF_JOBS}{job}/"))


def _with_slurm(parts: Parts, nodes: list[Node], cluster: str | None) -> list[Node]:
    """Nodes with what Slurm says; those that only Slurm knows are there, too."""
    known = {(one.cluster, one.name): one for one in nodes}
    managed = watched_clusters(parts.clusters.records) if cluster is None else [cluster]
    for name in {*managed, *(one.cluster for one in nodes)}:
        for told in _in_slurm(parts, name):
            one = known.setdefault((name, told.name), Node(name=told.name, cluster=name, state="unknown"))
            one.slurm = _in_words(told)
            if told.powered_down and one.state == "lost":
                one.state = "stopped"  # its agent was ended with it, and had no time to say so
    return [known[key] for key in sorted(known)]


def _in_words(told: SlurmNode) -> NodeInSlurm:
    return NodeInSlurm(
        state=told.state,
        responding=told.responding,
        reason=told.reason or None,
        reason_words=node_reason(told.reason) or None,
        reason_by=told.reason_by or None,
    )


def _in_slurm(parts: Parts, cluster: str) -> list[SlurmNode]:
    """The nodes as Slurm has them; none where there is no such Slurm, or it does not answer."""
    try:
        return [] if cluster == LOCAL_CLUSTER else parts.queues.of(cluster).nodes()
    except StepwardError:
        return []


ROUTES = [list_nodes, get_node, list_run_nodes, get_run_node_chart, change_node]
