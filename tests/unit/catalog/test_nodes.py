"""Nodes out of what their agents have written, whatever that was."""

import pytest

from stepward.errors import NotFound
from stepward.model.frames import Config, Event, Status
from stepward.model.identity import node_key
from stepward.model.states import Exit, Witness
from stepward.model.words import NODES_PROJECT, SourceKind
from stepward.store.catalog.events import EventFilter
from stepward.store.catalog.nodes import Nodes

from .conftest import T0, S, point


@pytest.fixture
def nodes(bench):
    return Nodes(
        bench.database, bench.changes.extend, lambda projects, cluster, jobs: {job: f"run of {job}" for job in jobs}
    )


def agent(bench, cluster="lab", node="n1", **config):
    key = node_key(cluster, node)
    writer = bench.writer(key, NODES_PROJECT, attempt="boot:1", kind=SourceKind.AGENT, node=node)
    writer.send(
        ("config", Config(key=key, name=node, started_at=bench.now, **config)), ("status", Status(at=bench.now))
    )
    return writer


def later(bench, seconds):
    bench.now += seconds * S
    bench.edits.judge_live()


def test_a_node_lives_is_lost_and_lives_again(bench, nodes):
    writer = agent(bench)
    assert [(node.name, node.cluster, node.state) for node in nodes.nodes(None)] == [("n1", "lab", "live")]
    later(bench, 12)
    assert nodes.nodes(None)[0].state == "live"
    later(bench, 1)
    (lost,) = nodes.nodes(None)
    assert (lost.state, lost.since) == ("lost", lost.last_heard_at)
    (head,) = nodes.heads("lab")
    assert (head.heard_at, head.state) == (T0, "lost")
    writer.send(("status", Status(at=bench.now)))
    assert nodes.nodes(None)[0].state == "live"
    writer.send(("exit", Exit(at=bench.now, by=Witness.SDK, exit_code=0)))
    later(bench, 60)
    assert nodes.nodes(None)[0].state == "stopped"


def test_what_an_agent_says_is_shown(bench, nodes):
    checks = [{"name": "disk_space", "layer": "infrastructure", "severity": "high", "result": "bad", "reason": "full",
               "value": 7, "at": T0}]  # fmt: skip
    jobs = [{"id": "42", "name": "40_2", "processes": 3, "devices": "0,1"}]
    writer = agent(bench, system={"node": {"cpus": 8}, "checks": checks, "jobs": jobs, "devices": [{"name": "H100"}]})
    writer.send(metrics=[point("system/host/load", 1, 2.5, system=True), point("system/host/cpu", 1, 50, system=True)])
    (node,) = nodes.nodes(None, "lab", "n1")
    assert (node.bad, node.cpus, node.load, node.cpu, len(node.devices)) == (["disk_space"], 8, 2.5, 50, 1)
    assert (node.checks[0].value, node.checks[0].reason) == (7.0, "full")
    assert (node.jobs[0].name, node.jobs[0].run) == ("40_2", "run of 40_2")
    writer.send(("config", Config(system={"checks": [], "jobs": []})))
    (node,) = nodes.nodes(None)
    assert (node.checks, node.jobs, node.cpus) == ([], [], 8)


@pytest.mark.parametrize(
    "system",
    [
        {"checks": "none", "jobs": 5, "node": [], "devices": {}},
        {"checks": [None, 5, {}, {"name": ["x"], "result": {}, "value": "7", "at": "now", "severity": None}]},
        {"jobs": [[], {"id": None}, {"id": {"a": 1}, "processes": "many", "devices": 0}], "node": {"cpus": "all"}},
        {"checks": [{"name": "x", "value": float("nan"), "at": 1 << 62}]},
    ],
)
def test_whatever_it_says_the_node_is_shown(bench, nodes, system):
    agent(bench, system=system)
    (node,) = nodes.nodes(None)
    assert node.state == "live"
    assert all(check.result == "unknown" for check in node.checks)


def test_nodes_are_found_by_cluster_and_name_alone(bench, nodes):
    for cluster, name in (("lab", "n1"), ("lab", "n10"), ("lab2", "n2"), ("lab", "n_1"), ("lab", "nx1")):
        agent(bench, cluster, name)
    assert [node.name for node in nodes.nodes(None, "lab")] == ["n1", "n10", "n_1", "nx1"]
    assert [node.name for node in nodes.nodes(None, "lab", "n1")] == ["n1"]
    assert nodes.head(None, "n2").cluster == "lab2"
    assert nodes.head(None, "n_1").node == "n_1"
    assert nodes.head("lab2", "n1") is None
    agent(bench, "lab3", "n2")
    assert nodes.head(None, "n2") is None


def test_the_runs_of_nodes_are_no_runs_of_people(bench):
    agent(bench)
    bench.writer("job", "p").send(("config", Config(name="n1")), ("status", Status(at=T0)))
    assert [run.project for run in bench.runs.page(None).items] == ["p"]
    assert [run.name for run in bench.runs.page(None, project=NODES_PROJECT).items] == ["n1"]
    assert bench.runs.get(None, "n1").project == "p"
    with pytest.raises(NotFound):
        bench.runs.get(["p"], bench.run(node_key("lab", "n1"), NODES_PROJECT))


def test_the_server_adds_events_to_a_node(bench, nodes):
    agent(bench)
    (head,) = nodes.heads()
    bench.changes.clear()
    nodes.tell(head.run, Event(id="lost-1", type="node_lost", started_at=T0, title="silent"))
    nodes.tell(head.run, Event(id="lost-1", type="node_lost", started_at=T0, ended_at=T0 + S, title="back"))
    (event,) = bench.events.of_run(None, head.run, EventFilter(types=["node_lost"]))
    assert (event.title, event.attempt, event.ended_at is not None) == ("back", 1, True)
    assert [change.events[0].title for change in bench.changes] == ["silent", "back"]
