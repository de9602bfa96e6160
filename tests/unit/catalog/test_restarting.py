"""The policy of restarts over a real catalog: each thing once, audited, over refusals, a dry run and the server's own death."""

import msgspec
import pytest

from stepward.clusters.spec import Restarts
from stepward.diagnose.document import Cause, Document, Suspects
from stepward.errors import Conflict, Unavailable
from stepward.model.states import State
from stepward.orchestrators.slurm.records import SlurmJob, SlurmNode
from stepward.respond.restarting import POLICY, Restarting
from stepward.store.catalog.actions import STEPWARD, Actions
from stepward.store.catalog.detected import DetectedEvents, EventRow
from stepward.store.catalog.diagnoses import Diagnoses
from stepward.store.catalog.restarts import restart_facts

from .conftest import T0, S
from .test_restarts import twice


class Scheduler:
    """A Slurm with one job of two nodes that keeps what it was told."""

    def __init__(self):
        self.job = SlurmJob(id="7", number=7, state=State.RUNNING, slurm_state="RUNNING", nodes=("n2", "n3"))
        self.told, self.fails = [], None
        self.slurm = self

    def of(self, cluster):
        assert cluster == "lab"
        return self

    def jobs(self):
        return [self.job]

    def nodes(self):
        return [SlurmNode(name=f"n{number}", base="IDLE") for number in range(1, 5)]

    def forget(self):
        pass

    def update_node(self, node, *, state, reason):
        self.told.append((state, node, reason))

    def requeue(self, job):
        self._do("requeue", job)

    def hold(self, job):
        self._do("hold", job)

    def _do(self, what, job):
        if self.fails is not None:
            raise self.fails
        self.told.append((what, job))


class Policy:
    """The worker, its Slurm, and the run of job 7."""

    def __init__(self, bench, **rules):
        self.bench, self.scheduler, self.said = bench, Scheduler(), []
        self.actions = Actions(bench.database, bench.clock)
        self.rules = Restarts(policy="infrastructure", **rules)

    def look(self, times=2):
        """Each time by a server that has just started."""
        for _ in range(times):
            Restarting(
                lambda: {"lab": self.rules},
                queues=self.scheduler,
                facts=lambda of: restart_facts(self.bench.database, of),
                of_jobs=lambda projects, cluster, jobs: {job: self.bench.run() for job in jobs},
                actions=self.actions,
                tell=lambda run, event: self.said.append((run, event)),
                clock=self.bench.clock,
            ).look()

    def sick(self):
        event = EventRow(
            "det_a", "hardware_fault", "h/1", "confirmed", "critical", "slurm.1/step.0", 0, 3, T0, None, "", {}
        )
        DetectedEvents(self.bench.database, self.bench.changes.extend).keep("p", self.bench.run(), [event])
        cause = Cause("gpu_off_bus", "infrastructure", 0.9, "kernel", "it fell off", [], Suspects(nodes=["n2"]))
        document = msgspec.json.encode(Document(causes=[cause]))
        Diagnoses(self.bench.database).keep(
            self.bench.run(), "slurm.1/step.0", ["det_a"], made_at=T0, version=1, document=document
        )
        self.bench.now += 600 * S

    def audit(self):
        found = reversed(self.actions.page(None).items)
        return [(one.kind, one.outcome, one.dry_run) for one in found if one.kind != "run_resume"]


@pytest.fixture
def policy(bench):
    twice(bench)
    return Policy(bench)


MOVED = [("drain", "n2", "stepward:infrastructure:gpu_off_bus:det_a"), ("requeue", "7")]


def test_a_sick_node_is_drained_and_the_job_requeued_once(policy):
    policy.sick()
    policy.look()
    assert policy.scheduler.told == MOVED
    assert policy.audit() == [("node_drain", "done", False), ("job_requeue", "done", False)]


def test_a_dry_run_says_it_once_and_does_it_when_it_may(policy):
    policy.rules = Restarts(policy="infrastructure", dry_run=True)
    policy.sick()
    policy.look()
    assert (policy.scheduler.told, policy.audit()) == ([], [("job_requeue", "done", True)])
    policy.rules = Restarts(policy="infrastructure")
    policy.look()
    assert policy.scheduler.told == MOVED


def test_what_slurm_refuses_is_not_tried_again_and_what_it_did_not_hear_is(policy):
    policy.sick()
    policy.scheduler.fails = Unavailable("no answer", code="slurm_unreachable")
    policy.look()
    policy.scheduler.fails = Conflict("--no-requeue", code="slurm_refused")
    policy.look()
    assert [outcome for kind, outcome, _ in policy.audit() if kind == "job_requeue"] == ["refused"] * 3
    policy.scheduler.fails = None
    policy.look()
    assert ("requeue", "7") not in policy.scheduler.told


def test_what_a_crash_interrupted_is_done(policy):
    policy.sick()
    data = {"key": "move:det_a", "attempt": 2, "event": "det_a"}
    policy.actions.begin(actor=STEPWARD, kind="job_requeue", run=policy.bench.run(), policy=POLICY, data=data)
    policy.look()
    assert policy.scheduler.told == MOVED


def test_nothing_is_done_where_the_policy_is_off(policy):
    policy.rules = Restarts()
    policy.sick()
    policy.look()
    assert (policy.scheduler.told, policy.actions.page(None).items) == ([], [])


def test_what_follows_a_loss_is_watched_to_a_step_beyond_it(policy):
    policy.look()
    (record,) = policy.actions.page(None).items
    assert (record.kind, record.outcome, record.data["attempt"]) == ("run_resume", "begun", 2)
    policy.bench.now += 601 * S
    policy.look()
    assert [one.outcome for one in policy.actions.page(None).items] == ["failed"]
