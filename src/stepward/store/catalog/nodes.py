"""Nodes out of the runs that their agents write: heartbeat, checks, newest readings, jobs."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa

from stepward.model.frames import Event
from stepward.model.identity import node_key
from stepward.model.nodes import Node, NodeCheck, NodeJob, NodeState
from stepward.model.resources import instant
from stepward.model.states import State
from stepward.model.words import NODES_PROJECT
from stepward.store.catalog.changes import Listener
from stepward.store.catalog.database import Database
from stepward.store.catalog.events import tell
from stepward.store.catalog.schema import configs, latest, runs, sources

MAX_NODES = 20_000
_READINGS = {
    "system/host/load": "load",
    "system/host/cpu": "cpu",
    "system/host/memory_used": "memory_used",
    "system/host/memory_total": "memory_total",
}
Projects = Sequence[str] | None
OfJobs = Callable[[Projects, str, Iterable[str]], dict[str, str]]


class NodeHead(msgspec.Struct, frozen=True):
    """What is needed to judge a node, or to read its series.

    Attributes:
        run: id of the node's run.
        state: of that run.
        heard_at: when the node was last known to live, µs on the server's clock; None before its first heartbeat.
        offset_us: server's clock minus the node's.
    """

    run: str
    cluster: str
    node: str
    state: State
    heard_at: int | None
    offset_us: int


class Nodes:
    """The nodes of the catalog.

    Args:
        listener: is told what changed, after the commit.
        of_jobs: (projects, cluster, jobs) -> the run of each job (``Runs.of_jobs``).
    """

    def __init__(self, database: Database, listener: Listener, of_jobs: OfJobs) -> None:
        self._database, self._listener, self._of_jobs = database, listener, of_jobs

    def heads(self, cluster: str | None = None) -> list[NodeHead]:
        """Every node that was ever heard, by cluster and name."""
        with self._database.read() as connection:
            rows = self._rows(connection, node_key(cluster, "") if cluster is not None else "node:")
            heard = _heard(connection, [row["id"] for row in rows])
        return [_head(row, heard) for row in rows]

    def head(self, cluster: str | None, node: str) -> NodeHead | None:
        """One node; where no cluster is known, the only one of that name."""
        keys = runs.c.key == node_key(cluster, node) if cluster is not None else _ends_in(node)
        query = sa.select(runs).where(runs.c.project == NODES_PROJECT, runs.c.name == node, keys)
        with self._database.read() as connection:
            rows = [dict(row) for row in connection.execute(query.limit(2)).mappings()]
            if len(rows) != 1:
                return None
            return _head(rows[0], _heard(connection, [rows[0]["id"]]))

    def nodes(self, projects: Projects, cluster: str | None = None, node: str | None = None) -> list[Node]:
        """The nodes with what they said last, by cluster and name.

        Args:
            projects: of the caller: the runs of jobs are named where it may see them.
        """
        start = node_key(cluster, node or "") if cluster is not None else "node:"
        with self._database.read() as connection:
            rows = [row for row in self._rows(connection, start) if node in (None, _names(row["key"])[1])]
            ids = [row["id"] for row in rows]
            heard, trees, values = _heard(connection, ids), _trees(connection, ids), _values(connection, ids)
        found = [_node(row, heard, trees.get(row["id"], {}), values.get(row["id"], {})) for row in rows]
        self._name_runs(projects, found)
        return found

    def _name_runs(self, projects: Projects, nodes: Sequence[Node]) -> None:
        """Fill in the runs of the jobs, those that the caller may see."""
        for cluster in {node.cluster for node in nodes}:
            jobs = [job for node in nodes if node.cluster == cluster for job in node.jobs]
            runs_of = self._of_jobs(projects, cluster, (job.name for job in jobs))
            for job in jobs:
                job.run = runs_of.get(job.name)

    def tell(self, run: str, event: Event) -> None:
        """Add an event of this server to a node's run, in place of one with the same id; its times are the server's."""
        tell(self._database, self._listener, run, event)

    def _rows(self, connection: sa.Connection, start: str) -> list[dict[str, Any]]:
        query = sa.select(runs).where(runs.c.project == NODES_PROJECT, runs.c.key.startswith(start, autoescape=True))
        query = query.order_by(runs.c.key).limit(MAX_NODES)
        return [dict(row) for row in connection.execute(query).mappings()]


def _ends_in(node: str) -> sa.ColumnElement[bool]:
    """A node's run of that name in any cluster."""
    return sa.and_(runs.c.key.startswith("node:"), runs.c.key.endswith(f":{node}", autoescape=True))


def _names(key: str) -> tuple[str, str]:
    """Cluster and node of the key of a node's run."""
    _, cluster, node = key.split(":", 2)
    return cluster, node


def _head(row: Mapping[str, Any], heard: Mapping[str, tuple[int, int]]) -> NodeHead:
    cluster, node = _names(row["key"])
    heard_at, offset = heard.get(row["id"], (None, 0))
    return NodeHead(row["id"], cluster, node, State(row["state"]), heard_at, offset)


def _heard(connection: sa.Connection, ids: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Run -> when its newest source was last alive, and that source's clock offset."""
    query = sa.select(sources.c.run, sources.c.heard_at, sources.c.last_seen, sources.c.offset_us)
    found: dict[str, tuple[int, int]] = {}
    for run, heard_at, last_seen, offset in _in_parts(connection, query, sources.c.run, ids):
        found[run] = max(found.get(run, (0, 0)), (heard_at or last_seen, offset))
    return found


def _trees(connection: sa.Connection, ids: Sequence[str]) -> dict[str, dict[str, Any]]:
    query = sa.select(configs.c.run, configs.c.system)
    return dict(map(tuple, _in_parts(connection, query, configs.c.run, ids)))


def _values(connection: sa.Connection, ids: Sequence[str]) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    query = sa.select(latest.c.run, latest.c.metric, latest.c.value).where(latest.c.metric.in_(list(_READINGS)))
    for run, metric, value in _in_parts(connection, query, latest.c.run, ids):
        found.setdefault(run, {})[_READINGS[metric]] = value
    return found


def _in_parts(
    connection: sa.Connection, query: sa.Select[Any], column: sa.ColumnElement[str], ids: Sequence[str]
) -> list[Any]:
    """Rows of many ids, in parts that a database takes as parameters."""
    rows: list[Any] = []
    for start in range(0, len(ids), 500):
        rows += connection.execute(query.where(column.in_(ids[start : start + 500]))).fetchall()
    return rows


def _node(
    row: Mapping[str, Any],
    heard: Mapping[str, tuple[int, int]],
    tree: Mapping[str, Any],
    values: Mapping[str, float],
) -> Node:
    cluster, name = _names(row["key"])
    heard_at = heard.get(row["id"], (None, 0))[0]
    state = _state(State(row["state"]))
    since = row["started_at"] if state == "live" else row["ended_at"]
    checks = [_check(told) for told in _dicts(tree.get("checks")) if told.get("name")]
    facts = tree.get("node")
    cpus = facts.get("cpus") if isinstance(facts, dict) else None
    return Node(
        name=name,
        cluster=cluster,
        state=state,
        run=row["id"],
        since=None if since is None else instant(since),
        last_heard_at=None if heard_at is None else instant(heard_at),
        cpus=cpus if isinstance(cpus, int) else None,
        devices=_dicts(tree.get("devices")),
        bad=[check.name for check in checks if check.result == "bad"],
        checks=checks,
        jobs=[_job(told) for told in _dicts(tree.get("jobs")) if told.get("id")] if state == "live" else [],
        load=values.get("load"),
        cpu=values.get("cpu"),
        memory_used=values.get("memory_used"),
        memory_total=values.get("memory_total"),
    )


def _state(state: State) -> NodeState:
    if not state.terminal:
        return "live"
    return "stopped" if state is State.FINISHED else "lost"


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _check(told: Mapping[str, Any]) -> NodeCheck:
    result, value, at = told.get("result"), told.get("value"), told.get("at")
    return NodeCheck(
        name=str(told["name"]),
        layer=str(told.get("layer", "")),
        severity=str(told.get("severity", "")),
        result="ok" if result == "ok" else "bad" if result == "bad" else "unknown",
        reason=str(told.get("reason") or ""),
        value=float(value) if isinstance(value, int | float) else None,
        at=instant(at) if isinstance(at, int) else None,
    )


def _job(told: Mapping[str, Any]) -> NodeJob:
    processes = told.get("processes")
    return NodeJob(
        id=str(told["id"]),
        name=str(told.get("name") or told["id"]),
        processes=processes if isinstance(processes, int) else 0,
        devices=str(told.get("devices") or ""),
    )
