"""The health watch over a real catalog: each thing is done once, audited, and nothing that is older than the server."""

import msgspec
import pytest

from stepward.clusters.health import PREFIX, HealthWatch
from stepward.clusters.spec import Health
from stepward.errors import Unavailable
from stepward.model.frames import Config, Status
from stepward.model.identity import node_key
from stepward.model.words import NODES_PROJECT, SourceKind
from stepward.orchestrators.slurm.records import SlurmNode
from stepward.store.catalog.actions import Actions
from stepward.store.catalog.events import EventFilter
from stepward.store.catalog.nodes import Nodes

from .conftest import S


class Scheduler:
    """A Slurm of four nodes that does what it is told, and keeps what that was."""

    def __init__(self):
        self.known = {
            name: SlurmNode(name=name, base="IDLE", address=name, port=1) for name in ("n1", "n2", "n3", "n4")
        }
        self.told, self.fails = [], False
        self.slurm = self

    def of(self, cluster):
        assert cluster == "lab"
        return self

    def nodes(self):
        return list(self.known.values())

    def forget(self):
        pass

    def update_node(self, node, *, state, reason=""):
        if self.fails:
            raise Unavailable("slurmctld does not answer", code="slurm_unreachable")
        self.told.append((node, state, reason))
        base = "DOWN" if state == "down" else "IDLE"
        self.known[node] = SlurmNode(name=node, base=base, reason=reason, address=node, port=1)


class Watched:
    """The watch, its nodes and their agents."""

    def __init__(self, bench, **health):
        self.bench, self.scheduler, self.answering = bench, Scheduler(), set()
        self.nodes = Nodes(bench.database, bench.changes.extend, lambda *_: {})
        self.actions = Actions(bench.database, bench.clock)
        self.health = Health(**health)
        self.agents = {}
        for name in self.scheduler.known:
            key = node_key("lab", name)
            writer = bench.writer(key, NODES_PROJECT, attempt="boot:1", kind=SourceKind.AGENT, node=name)
            writer.send(("config", Config(key=key, name=name, started_at=bench.now)))
            self.agents[name] = writer
        self.restart()

    def restart(self):
        self.watch = HealthWatch(
            lambda: {"lab": self.health},
            nodes=self.nodes,
            queues=self.scheduler,
            actions=self.actions,
            hearing=self.bench.hearing,
            clock=self.bench.clock,
            answers=lambda address, port: address in self.answering,
        )

    def run(self, seconds, *silent):
        for second in range(0, seconds, 2):
            self.bench.now += 2 * S
            if second % 4 == 0:
                for name in self.agents.keys() - set(silent):
                    self.agents[name].send(("status", Status(at=self.bench.now)))
            self.bench.edits.judge_live()
            self.watch.look()

    def audit(self):
        return [(one.kind, one.node, one.outcome, one.dry_run) for one in reversed(self.actions.page(None).items)]

    def lost(self, name):
        return self.bench.events.of_run(None, self.agents[name].run, EventFilter(types=["node_lost"]))


@pytest.fixture
def watched(bench):
    return Watched(bench)


def test_a_silent_node_is_taken_down_once_and_given_back(watched):
    watched.run(8)
    watched.run(30, "n1")
    (event,) = watched.lost("n1")
    assert watched.scheduler.told == [("n1", "down", f"{PREFIX}{event.id}")]
    watched.answering.add("n1")
    watched.run(8)
    assert watched.scheduler.told[1:] == [("n1", "resume", "")]
    assert watched.audit() == [("node_down", "n1", "done", False), ("node_resume", "n1", "done", False)]
    assert watched.lost("n1")[0].ended_at is not None


def test_a_node_that_registers_its_reboot_after_it_was_given_back_is_given_back_once_more(watched):
    watched.run(8)
    watched.run(20, "n1")
    watched.answering.add("n1")
    watched.run(8)
    rebooted = SlurmNode(name="n1", base="DOWN", reason="Node unexpectedly rebooted", address="n1", port=1)
    for _ in range(2):
        watched.scheduler.known["n1"] = rebooted
        watched.run(8)
    assert [state for _, state, _ in watched.scheduler.told] == ["down", "resume", "resume"]
    watched.scheduler.known["n2"] = msgspec.structs.replace(rebooted, name="n2")
    watched.run(8)
    assert {node for node, _, _ in watched.scheduler.told} == {"n1"}, "a reboot that followed no loss is not ours"


def test_what_an_administrator_gives_back_is_not_taken_down_for_the_same_loss(watched):
    watched.run(8)
    watched.run(20, "n1")
    watched.scheduler.known["n1"] = SlurmNode(name="n1", base="IDLE", address="n1", port=1)
    watched.run(60, "n1")
    assert len(watched.scheduler.told) == 1


def test_a_dry_run_is_told_and_not_done(bench):
    watched = Watched(bench, dry_run=True)
    watched.run(8)
    watched.run(60, "n1")
    assert watched.scheduler.told == []
    assert watched.audit() == [("node_down", "n1", "done", True)]


def test_without_a_policy_nothing_is_looked_at(bench):
    watched = Watched(bench, policy="off")
    watched.run(8)
    watched.run(30, "n1")
    assert (watched.scheduler.told, watched.audit()) == ([], [])


def test_many_at_once_are_an_alert_each(watched):
    watched.run(8)
    watched.run(20, "n1", "n2", "n3")
    assert watched.scheduler.told == []
    assert sorted(watched.audit()) == [("node_alert", name, "done", False) for name in ("n1", "n2", "n3")]


def test_a_loss_that_an_earlier_server_saw_is_not_acted_upon(watched):
    watched.run(8)
    watched.health = Health(policy="off")
    watched.run(20, "n1")
    watched.health = Health()
    watched.restart()
    watched.run(60, "n1")
    assert (watched.scheduler.told, watched.audit()) == ([], [])


def test_a_slurm_that_refuses_is_asked_again(watched, monkeypatch):
    monkeypatch.setattr("stepward.clusters.health.RETRY_S", 0.0)
    watched.run(8)
    watched.scheduler.fails = True
    watched.run(14, "n1")
    assert {entry[:3] for entry in watched.audit()} == {("node_down", "n1", "refused")}
    watched.scheduler.fails = False
    watched.run(2, "n1")
    assert watched.audit()[-1] == ("node_down", "n1", "done", False)
