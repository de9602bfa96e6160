"""The routes of clusters, their jobs and nodes, and of what was done to them."""

from typing import Any

from stepward.client.calls import Calls, segment
from stepward.errors import NotFound
from stepward.model.clusters import Cluster, ClusterChange, ClusterPlan, NewCluster, Operation
from stepward.model.jobs import (
    ActionPage,
    Job,
    JobChange,
    JobChanged,
    JobLogs,
    JobPage,
    JobSubmission,
    SubmittedJob,
)
from stepward.model.nodes import Node, NodeChange, NodeChanged

SLURM_S = 60.0
"""A command of Slurm may take its own time-out, and one change asks several."""


class SlurmCalls(Calls):
    """Clusters, jobs, nodes."""

    # ── clusters ──

    def clusters(self) -> list[Cluster]:
        """All clusters of the server."""
        return self._get("/api/v1/clusters", {}, list[Cluster])

    def cluster(self, name: str) -> Cluster:
        """A cluster."""
        return self._get(_cluster(name), {}, Cluster)

    def create_cluster(self, name: str, spec: dict[str, Any]) -> Operation:
        """Begin to make a cluster."""
        return self._send("POST", "/api/v1/clusters", NewCluster(spec=spec, name=name), Operation)

    def update_cluster(self, name: str, spec: dict[str, Any]) -> Operation:
        """Begin to make a cluster what the specification says."""
        return self._send("PUT", _cluster(name), ClusterChange(spec=spec), Operation)

    def delete_cluster(self, name: str) -> Operation:
        """Begin to end a cluster."""
        return self._send("DELETE", _cluster(name), None, Operation)

    def plan_cluster(self, name: str, spec: dict[str, Any] | None) -> ClusterPlan:
        """What making or changing a cluster would do; without a specification, what ending it would."""
        return self._send("POST", f"{_cluster(name)}/plan", ClusterChange(spec=spec), ClusterPlan)

    def operation(self, id: str) -> Operation:
        """How far an operation on a cluster is."""
        return self._get(f"/api/v1/operations/{segment(id)}", {}, Operation)

    # ── jobs ──

    def jobs(self, cluster: str, *, limit: int = 100, cursor: str | None = None, **filters: str | None) -> JobPage:
        """A page of jobs of a cluster, the newest first.

        Filters are ``state``, ``user``, ``partition``, ``name``, ``node``, ``since``.
        """
        return self._get(f"{_cluster(cluster)}/jobs", {**filters, "limit": limit, "cursor": cursor}, JobPage)

    def job(self, cluster: str, job: str) -> Job:
        """A job with its launches."""
        return self._get(_job(cluster, job), {}, Job)

    def submit_job(self, cluster: str, asked: JobSubmission, *, dry_run: bool = False) -> SubmittedJob:
        """Submit a job; with ``dry_run`` only check it and ask Slurm what it would do."""
        flag = "?dry_run=true" if dry_run else ""
        return self._send("POST", f"{_cluster(cluster)}/jobs{flag}", asked, SubmittedJob, timeout_s=SLURM_S)

    def change_job(self, cluster: str, job: str, verb: str, *, reason: str = "", dry_run: bool = False) -> JobChanged:
        """``cancel``, ``requeue``, ``hold`` or ``release`` a job."""
        flag = "?dry_run=true" if dry_run else ""
        path = f"{_job(cluster, job)}/{segment(verb)}{flag}"
        return self._send("POST", path, JobChange(reason=reason), JobChanged, timeout_s=SLURM_S)

    def job_logs(self, cluster: str, job: str, *, tail: int = 200) -> JobLogs:
        """The last lines of each output of a job."""
        return self._get(f"{_job(cluster, job)}/logs", {"tail": tail}, JobLogs)

    def actions(self, *, limit: int = 50, cursor: str | None = None, **filters: str | None) -> ActionPage:
        """A page of the audit; filters are ``cluster``, ``node``, ``job``, ``run``, ``kind``."""
        return self._get("/api/v1/actions", {**filters, "limit": limit, "cursor": cursor}, ActionPage)

    # ── nodes ──

    def nodes(self, *, cluster: str | None = None) -> list[Node]:
        """The nodes of all clusters, or of one."""
        return self._get("/api/v1/nodes", {"cluster": cluster}, list[Node])

    def node(self, cluster: str, node: str) -> Node:
        """A node."""
        return self._get(f"/api/v1/clusters/{segment(cluster)}/nodes/{segment(node)}", {}, Node)

    def change_node(
        self, cluster: str, node: str, verb: str, *, reason: str = "", force: bool = False, dry_run: bool = False
    ) -> NodeChanged:
        """``drain`` a node, or ``resume`` it."""
        flag = "?dry_run=true" if dry_run else ""
        path = f"/api/v1/clusters/{segment(cluster)}/nodes/{segment(node)}/{segment(verb)}{flag}"
        return self._send("POST", path, NodeChange(reason=reason, force=force), NodeChanged, timeout_s=SLURM_S)


def _cluster(name: str) -> str:
    if name in ("", ".", ".."):  # the path of another route
        raise NotFound(f"there is no cluster {name!r}", code="no_such_cluster", hint="`stepward cluster list`")
    return f"/api/v1/clusters/{segment(name)}"


def _job(cluster: str, job: str) -> str:
    if job in ("", ".", ".."):  # the path of another route
        raise NotFound(f"there is no job {job!r}", code="unknown_job", hint="`stepward jobs ls` lists the jobs")
    return f"{_cluster(cluster)}/jobs/{segment(job)}"
