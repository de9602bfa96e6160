"""What is new about a launch of a job, as frames tell it: what Slurm says now, less what was told. Pure."""

import signal
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from stepward.agent.watcher.known import MAX_WAITS, Job, Launch, Wait
from stepward.model.frames import Config, Event, Events, Payload, Status
from stepward.model.slurm_text import fold_nodes
from stepward.model.states import Exit, State, Witness
from stepward.model.words import REQUEUE_EXIT
from stepward.orchestrators.slurm.reasons import reason_words
from stepward.orchestrators.slurm.records import SlurmJob
from stepward.orchestrators.slurm.states import SUSPENDED, job_state

Said = list[tuple[str, Payload]]
"""Kind and payload, in order."""

_NOT_LOOKED_AT = frozenset({"", "None"})
_BY_SLURM = frozenset({"NODE_FAIL", "BOOT_FAIL", "PREEMPTED", "LAUNCH_FAILED"})
"""Ends after which Slurm itself, not a person, starts a job again."""
_LOST = ("NODE_FAIL", "BOOT_FAIL")
FORGOTTEN = "FORGOTTEN"
"""Our word, where Slurm has none, for a job that it does not know any more."""
STEPWARD_REASON = "stepward:"
DEAD_REASON = "stepward:infrastructure:heartbeat:"
"""Of nodes that were set down since they were dead (``clusters.health``)."""
"""Reasons of nodes that stepward took out of service begin so."""


class Surroundings(NamedTuple):
    """What telling asks of the outside.

    Attributes:
        cluster: as in run keys.
        failed_nodes: of some nodes, those that are out of service, each with the reason that somebody gave.
    """

    cluster: str
    failed_nodes: Callable[[Sequence[str]], dict[str, str]]


def tell(job: Job, launch: Launch, record: SlurmJob, now: int, around: Surroundings, *, requeued: bool) -> Said:
    """What to say of a launch; ``launch`` then holds what was said.

    Args:
        record: what Slurm says of this launch.
        now: µs since the epoch.
        requeued: another launch of the job follows it.
    """
    said: Said = []
    events: list[Event] = []
    if launch.state is None and not launch.end:
        said.append(("config", _description(job, launch, record, around.cluster)))
        events += _submission(job, launch, record, now)
    elif launch.started_at is None and record.submitted_at is not None:
        # Slurm sets it once more when the launch before has ended at last.
        launch.submitted_at = record.submitted_at
    if record.state is State.QUEUED:
        said += _queue(launch, record, events, now)
    else:
        said += _start(launch, record, events, now)
    if record.state.terminal and not launch.end:
        said += _end(launch, record, events, now, around, requeued=requeued)
    if events:
        said.append(("events", Events(events)))
    return said


def _description(job: Job, launch: Launch, record: SlurmJob, cluster: str) -> Config:
    facts: dict[str, Any] = {
        "system": "slurm",
        "id": job.name,
        "cluster": cluster,
        "number": record.number,
        "name": record.name,
        "user": record.user,
        "account": record.account,
        "partition": record.partition,
        "restart": launch.number,
        "dependency": record.dependency,
        "tres": record.tres,
        "workdir": record.workdir,
        "stdout": record.stdout,
        "stderr": record.stderr,
    }
    title = record.name or job.name
    if record.array_task is not None:
        title = f"{title}[{record.array_task}]"
    job.title, job.user, job.uid = record.name, record.user, record.uid
    return Config(
        key=job.key, name=title, job={name: value for name, value in facts.items() if value not in ("", None)}
    )


def _submission(job: Job, launch: Launch, record: SlurmJob, now: int) -> Iterator[Event]:
    launch.submitted_at, at = record.submitted_at, record.submitted_at or now
    before = [earlier for earlier in job.launches if earlier.number < launch.number]
    if launch.number == 0:
        data = {"user": record.user, "account": record.account, "partition": record.partition}
        yield Event(id="slurm-submitted", type="job_submitted", started_at=at, ended_at=at, data=data)
    elif before and not before[-1].requeued:
        # It had ended, and somebody started it again.
        again = _requeue(before[-1], "user", at)
        before[-1].happened.append(again)
        yield again


# ── waiting ──


def _queue(launch: Launch, record: SlurmJob, events: list[Event], now: int) -> Said:
    waits, reason = launch.waits, record.reason
    if not waits:
        waits.append(Wait(reason, record.submitted_at or now))
        events.append(_wait_event(launch, 0))
    elif waits[-1].reason != reason:
        if waits[-1].reason in _NOT_LOOKED_AT or len(waits) >= MAX_WAITS:
            waits[-1].reason = reason
        else:
            waits[-1].until = now
            events.append(_wait_event(launch, len(waits) - 1))
            waits.append(Wait(reason, now))
        events.append(_wait_event(launch, len(waits) - 1))
    return _status(launch, State.QUEUED, pending_words(record), now)


def pending_words(record: SlurmJob) -> str:
    """Why a job waits, and what its people can do."""
    words = reason_words(record.reason)
    if words is None:
        return "waits"
    meaning = f"{record.reason}: {words.meaning}" if record.reason not in _NOT_LOOKED_AT else words.meaning
    return f"{meaning}; {words.advice}" if words.advice else meaning


def _wait_event(launch: Launch, index: int) -> Event:
    wait = launch.waits[index]
    words = reason_words(wait.reason)
    data = {"reason": wait.reason, "why": words.meaning if words else "", "advice": words.advice if words else ""}
    title = f"waits: {words.meaning}" if words else "waits"
    return Event(
        id=f"slurm-queued-{launch.number}-{index}",
        type="queued",
        started_at=wait.since,
        ended_at=wait.until,
        title=title,
        data=data,
    )


def _status(launch: Launch, state: State, reason: str | None, now: int, *, paused: bool = False) -> Said:
    if (launch.state, launch.reason, launch.paused) == (state, reason or "", paused):
        return []
    launch.state, launch.reason, launch.paused = state, reason or "", paused
    return [("status", Status(at=now, state=state, reason=reason, paused=paused))]


# ── running ──


def _start(launch: Launch, record: SlurmJob, events: list[Event], now: int) -> Said:
    """It has left the queue: the waits are over, it has nodes."""
    said: Said = []
    over = record.started_at or record.ended_at or now
    if not launch.waits and record.submitted_at is not None and over > record.submitted_at:
        launch.waits.append(Wait("", record.submitted_at))
    for index, wait in enumerate(launch.waits):
        if wait.until is None or wait.until > over:
            # What was seen of the last wait by polls is cut to Slurm's own time.
            wait.until = max(wait.since, over) if index == len(launch.waits) - 1 else min(wait.until or over, over)
            events.append(_wait_event(launch, index))
    moved = (record.started_at, record.nodes) != (launch.started_at, launch.nodes)
    if record.started_at is not None and moved:
        launch.started_at, launch.nodes = record.started_at, record.nodes
        said.append(("config", Config(started_at=record.started_at, nodes=list(record.nodes), job=_placed(record))))
        events.append(_allocation(launch))
    events += _provisioning(launch, record, now)
    if not record.state.terminal:
        paused = record.slurm_state in SUSPENDED
        said += _status(launch, record.state, "suspended" if paused else None, now, paused=paused)
    return said


def _placed(record: SlurmJob) -> dict[str, Any]:
    return {"nodes": fold_nodes(record.nodes), "tres": record.tres}


def _allocation(launch: Launch) -> Event:
    assert launch.started_at is not None
    names = ", ".join(launch.nodes[:8]) + (", ..." if len(launch.nodes) > 8 else "")
    return Event(
        id=f"slurm-allocation-{launch.number}",
        type="allocation",
        started_at=launch.started_at,
        ended_at=launch.ended_at,
        title=f"has {names}",
        data={"nodes": list(launch.nodes)},
    )


def _provisioning(launch: Launch, record: SlurmJob, now: int) -> Iterator[Event]:
    if record.state is State.STARTING and launch.provisioned_at is None:
        launch.provisioned_at = record.started_at or now
    elif record.state is not State.STARTING and launch.provisioned_at is not None and launch.ready_at is None:
        launch.ready_at = max(launch.provisioned_at, min(now, record.ended_at or now))
    else:
        return
    yield _provision(launch)


def _provision(launch: Launch) -> Event:
    assert launch.provisioned_at is not None
    return Event(
        id=f"slurm-provision-{launch.number}",
        type="provision",
        started_at=launch.provisioned_at,
        ended_at=launch.ready_at,
        title="nodes are made ready",
    )


# ── ends ──


def _end(
    launch: Launch, record: SlurmJob, events: list[Event], now: int, around: Surroundings, *, requeued: bool
) -> Said:
    at = record.ended_at or now
    launch.ended_at, launch.end, launch.state = at, record.slurm_state, record.state
    if launch.started_at is not None:
        events.append(_allocation(launch))
    failed: dict[str, str] = {}
    if record.slurm_state in _LOST or requeued:
        failed = around.failed_nodes(record.nodes)
        dead = {name: reason for name, reason in failed.items() if reason.startswith(DEAD_REASON)}
        failed, record = dead or failed, _lost_with(dead, record)
    if record.slurm_state in _LOST:
        launch.end, launch.state = record.slurm_state, record.state
        launch.happened.append(_node_failed(launch, failed, at))
    by = _requeued_by(record, failed)
    if requeued:
        launch.happened.append(_requeue(launch, by, at))
    events += launch.happened
    known = record.slurm_state != FORGOTTEN
    state = job_state(record.slurm_state, requeued_by_slurm=by != "user") if known else record.state
    launch.exit = _exit(record, state, at, failed, final=not requeued)
    return [("exit", launch.exit)]


def _lost_with(dead: dict[str, str], record: SlurmJob) -> SlurmJob:
    """Without accounting a launch that ended with its node is only seen to be requeued: that the node is dead says more."""
    if record.slurm_state != "REQUEUED" or not dead:
        return record
    return msgspec.structs.replace(record, slurm_state="NODE_FAIL", state=State.LOST)


def _node_failed(launch: Launch, failed: dict[str, str], at: int) -> Event:
    names = sorted(failed) or list(launch.nodes)
    return Event(
        id=f"slurm-node-failed-{launch.number}",
        type="node_failed",
        started_at=at,
        ended_at=at,
        title=f"node failed: {', '.join(names[:8])}",
        data={"nodes": names, "reasons": {name: reason for name, reason in failed.items() if reason}},
    )


def _requeued_by(record: SlurmJob, failed: dict[str, str]) -> str:
    if any(reason.startswith(STEPWARD_REASON) for reason in (*failed.values(), record.comment)):
        return "stepward"
    return "slurm" if record.slurm_state in _BY_SLURM or record.exit_code == REQUEUE_EXIT else "user"


def _requeue(launch: Launch, by: str, at: int) -> Event:
    launch.requeued = True
    cause = launch.end.lower()
    return Event(
        id=f"slurm-requeued-{launch.number}",
        type="requeued",
        started_at=at,
        ended_at=at,
        title=f"requeued by {by} after {cause}",
        data={"by": by, "cause": cause},
    )


def _exit(record: SlurmJob, state: State, at: int, failed: dict[str, str], *, final: bool) -> Exit:
    number = record.signal or 0
    name = signal.Signals(number).name if number in set(signal.Signals) else f"SIG{number}"
    return Exit(
        at=at,
        by=Witness.SCHEDULER,
        state=state,
        exit_code=None if number or record.exit_code is None else record.exit_code,
        signal=name if number else None,
        reason=_end_words(record, failed),
        final=final,
    )


def _end_words(record: SlurmJob, failed: dict[str, str]) -> str | None:
    word, names = record.slurm_state, ", ".join(sorted(failed)[:8])
    if word == "TIMEOUT":
        limit = record.time_limit_s
        return f"over its time limit of {limit / 60:g} min" if limit else "over its time limit"
    if word == "CANCELLED":
        return "cancelled" if record.cancelled_by is None else f"cancelled by user {record.cancelled_by}"
    words = {
        "DEADLINE": "over its deadline",
        "OUT_OF_MEMORY": "killed for memory: over what it asked of Slurm",
        "NODE_FAIL": f"node failed: {names}" if names else "a node failed",
        "BOOT_FAIL": "a node did not boot",
        "PREEMPTED": "preempted by a job of higher priority",
        "REQUEUED": "requeued",
        "REVOKED": "revoked: it runs on another cluster",
        FORGOTTEN: "Slurm knows it no more, and accounting has no end of it",
    }
    return words.get(word)


# ── again ──


def moved(launch: Launch, project: str, run: str, now: int) -> Event:
    """That a job is told elsewhere from now on."""
    return Event(
        id=f"moved-{launch.number}",
        type="moved",
        started_at=now,
        ended_at=now,
        title=f"told in run {run} of project {project}",
        data={"run": run, "project": project},
    )


def retell(job: Job, launch: Launch, now: int, cluster: str) -> Said:
    """All that was told of a launch and is still known, for another run."""
    facts = {"system": "slurm", "id": job.name, "cluster": cluster, "name": job.title, "user": job.user}
    said: Said = [
        (
            "config",
            Config(
                key=job.key,
                name=job.title,
                job=facts,
                started_at=launch.started_at,
                nodes=list(launch.nodes) if launch.started_at is not None else None,
            ),
        )
    ]
    events = [_wait_event(launch, index) for index in range(len(launch.waits))]
    if launch.number == 0 and launch.submitted_at is not None:
        at = launch.submitted_at
        events.append(Event(id="slurm-submitted", type="job_submitted", started_at=at, ended_at=at))
    if launch.started_at is not None:
        events.append(_allocation(launch))
    if launch.provisioned_at is not None:
        events.append(_provision(launch))
    if launch.exit is not None:
        said.append(("exit", launch.exit))
    elif launch.state is not None:
        said.append(("status", Status(at=now, state=launch.state, reason=launch.reason or None, paused=launch.paused)))
    return [*said, ("events", Events([*events, *launch.happened]))]
