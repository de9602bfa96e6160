"""Looks at the jobs of clusters whose restart policy is on, and does what ``restarts.decide`` says, each thing once.

What was done is known from the audit alone: a decision's key is in its record, so that nothing is done twice over a server's
own restart, and what a person undid stays undone.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from stepward.clusters.health import most_down
from stepward.clusters.queues import Queue, Queues
from stepward.clusters.spec import Restarts
from stepward.diagnose.document import Cause, Document
from stepward.diagnose.suspects import PART
from stepward.errors import StepwardError
from stepward.model.frames import Event
from stepward.model.jobs import Action
from stepward.model.states import State
from stepward.model.taxonomy import LABELS
from stepward.orchestrators.slurm.records import SlurmJob
from stepward.respond.restarts import Attempt, Decision, Fault, JobView, decide, judge
from stepward.store.catalog.actions import STEPWARD, Actions
from stepward.store.catalog.restarts import RestartFacts

PREFIX = "stepward:"
"""Beginning of the reason of every node that we took out of service."""
MOST_RECORDS = 500
POLICY = "restarts:infrastructure"
_RUNS = (State.STARTING, State.RUNNING)
_log = logging.getLogger("stepward.respond")

Facts = Callable[[Iterable[str]], dict[str, RestartFacts]]
OfJobs = Callable[[Sequence[str] | None, str, Iterable[str]], dict[str, str]]


class Restarting:
    """The policy of restarts.

    Args:
        clusters: Slurm's name of each cluster -> what may be done.
        queues: ask and change them.
        facts: of runs (``store.catalog.restarts``).
        of_jobs: (projects, cluster, jobs) -> run of each job (``Runs.of_jobs``).
        tell: adds an event to a run.
        clock: µs since the epoch.
    """

    def __init__(
        self,
        clusters: Callable[[], Mapping[str, Restarts]],
        *,
        queues: Queues,
        facts: Facts,
        of_jobs: OfJobs,
        actions: Actions,
        tell: Callable[[str, Event], None],
        clock: Callable[[], int],
    ) -> None:
        self._clusters, self._queues, self._facts, self._of_jobs = clusters, queues, facts, of_jobs
        self._actions, self._tell, self._clock = actions, tell, clock

    def look(self) -> None:
        """One look at every cluster whose policy is on. Failures are logged, and tried again at the next."""
        for cluster, rules in self._clusters().items():
            if rules.policy == "off":
                continue
            try:
                self._look(cluster, rules)
            except StepwardError as error:
                _log.warning("restarts of cluster %s: %s", cluster, error)

    def _look(self, cluster: str, rules: Restarts) -> None:
        queue = self._queues.of(cluster)
        jobs = {job.key: job for job in queue.jobs() if job.state in (*_RUNS, State.QUEUED)}
        runs = self._of_jobs(None, cluster, jobs)
        followed = self._followed(cluster)
        facts = self._facts({*runs.values(), *(str(action.run) for action in followed)})
        self._judge(followed, facts, rules)
        for key, run in runs.items():
            known = facts.get(run)
            if known is not None:
                self._answer(cluster, queue, jobs[key], known, rules)

    def _answer(self, cluster: str, queue: Queue, job: SlurmJob, known: RestartFacts, rules: Restarts) -> None:
        view = self._view(queue, job, known, dry=rules.dry_run)
        for decision in decide(view, rules, self._clock()):
            try:
                self._act(cluster, queue, job, known.run, decision, dry=rules.dry_run)
            except StepwardError as error:
                # It is in the audit as refused, and not tried again but where Slurm did not answer.
                _log.warning("%s of job %s: %s", decision.kind, job.key, error)

    def _view(self, queue: Queue, job: SlurmJob, known: RestartFacts, *, dry: bool) -> JobView:
        records = self._actions.page(None, run=known.run, limit=MOST_RECORDS).items
        moved = {int(one.data["attempt"]) for one in records if one.kind == "job_requeue" and _was_done(one)}
        faults = [fault for event in known.events for fault in faults_of(event.event, event.attempt, event.document)]
        return JobView(
            job=job.key,
            waits=job.state is State.QUEUED and not job.held,
            nodes=job.nodes if job.state in _RUNS else (),
            attempts=[Attempt(**one._asdict()) for one in known.attempts],
            faults=faults,
            done=done_keys(records, dry=dry),
            moved=frozenset(moved),
            room=_room(queue) if faults else 0,
        )

    def _act(self, cluster: str, queue: Queue, job: SlurmJob, run: str, decision: Decision, *, dry: bool) -> None:
        _log.warning("job %s of %s: %s%s: %s", job.key, cluster, "would " * dry, decision.kind, decision.why)
        told = {
            "actor": STEPWARD,
            "cluster": cluster,
            "job": job.key,
            "run": run,
            "reason": decision.why,
            "policy": POLICY,
            "data": {"key": decision.key, "attempt": decision.attempt, "event": decision.event},
        }
        kind = {"move": "job_requeue", "refuse": "job_requeue", "stop": "job_hold", "follow": "run_resume"}[
            decision.kind
        ]
        if decision.kind == "follow":
            self._actions.begin(kind=kind, **told)  # type: ignore[arg-type]
        elif decision.kind == "refuse":
            self._actions.begin(kind=kind, outcome="refused", **told)  # type: ignore[arg-type]
        elif dry:
            self._actions.begin(kind=kind, outcome="done", dry_run=True, **told)  # type: ignore[arg-type]
        elif decision.kind == "stop":
            with self._actions.recorded(kind=kind, **told):
                queue.slurm.hold(job.key)
            self._say_stopped(run, decision)
        else:
            self._drain(queue, decision, told)
            with self._actions.recorded(kind=kind, **told):
                queue.slurm.requeue(job.key)
        queue.forget()

    def _drain(self, queue: Queue, decision: Decision, told: Mapping[str, object]) -> None:
        """Take the sick nodes out of service, those that nobody has: before the requeue, so that it goes elsewhere."""
        usable = {node.name for node in queue.nodes() if node.usable}
        for node in decision.nodes:
            if node in usable:
                with self._actions.recorded(
                    **{**told, "kind": "node_drain", "node": node, "data": {"event": decision.event}}
                ):
                    reason = f"{PREFIX}infrastructure:{decision.label}:{decision.event}"
                    queue.slurm.update_node(node, state="drain", reason=reason)

    def _say_stopped(self, run: str, decision: Decision) -> None:
        now = self._clock()
        self._tell(
            run,
            Event(
                id=f"restart-stopped-{decision.attempt}",
                type="restart_stopped",
                started_at=now,
                ended_at=now,
                title=f"held: {decision.why}; `stepward jobs release` lets it go on",
                data={"attempt": decision.attempt, "why": decision.why},
            ),
        )

    # ── what follows a restart ──

    def _followed(self, cluster: str) -> list[Action]:
        records = self._actions.page(None, cluster=cluster, kind="run_resume", limit=MOST_RECORDS).items
        return [one for one in records if one.outcome == "begun"]

    def _judge(self, followed: Sequence[Action], facts: Mapping[str, RestartFacts], rules: Restarts) -> None:
        for action in followed:
            known = facts.get(str(action.run))
            attempts = [Attempt(**one._asdict()) for one in known.attempts] if known else []
            number = int(action.data["attempt"])
            verdict = judge(attempts, number, rules, self._clock())
            if verdict is not None:
                reached = next((one.last_step for one in attempts if one.number == number), None)
                self._actions.end(action.id, "done" if verdict == "progressed" else "failed", step=reached)


def faults_of(event: str, attempt: int, document: bytes) -> list[Fault]:
    """The sick part that a diagnosis names first, if it is one of a node and can be exchanged."""
    try:
        causes: list[Cause] = msgspec.json.decode(document, type=Document).causes
    except msgspec.MsgspecError:
        return []
    first = causes[0] if causes else None
    if first is None or first.label not in PART or first.label not in LABELS or not first.suspects.nodes:
        return []
    return [Fault(event, attempt, first.label, tuple(first.suspects.nodes), first.confidence, first.summary)]


def done_keys(records: Sequence[Action], *, dry: bool) -> frozenset[str]:
    """Keys of the decisions that were carried out or refused.

    Not among them is what only would have been done, once it may be; what a crash interrupted, as nothing else of ours is left
    begun between two looks; and what Slurm did not hear.
    """
    return frozenset(
        str(one.data["key"])
        for one in records
        if "key" in one.data
        and (dry or not one.dry_run)
        and (one.outcome != "begun" or one.kind == "run_resume")
        and one.data.get("code") != "slurm_unreachable"
    )


def _was_done(action: Action) -> bool:
    return action.outcome in ("begun", "done") and not action.dry_run and "attempt" in action.data


def _room(queue: Queue) -> int:
    """How many nodes more may be out of service by us at once."""
    nodes = queue.nodes()
    return most_down(len(nodes)) - sum(node.reason.startswith(PREFIX) and not node.usable for node in nodes)
