"""Jobs of a cluster: its queue and recent history, one job, submitting, changing, output. Changes are for administrators.

Every change is in the audit (``actions``) before it is done. What many ask is asked of Slurm once a second (``queues``).
"""

import asyncio
from collections.abc import Callable
from typing import Annotated, Literal

import msgspec
from litestar import Response, get, post
from litestar.params import FromPath, FromQuery, JSONBody, QueryParameter

from stepward.api.answer import AnyRequest, answer
from stepward.api.auth import ADMIN, Who
from stepward.api.goodput import span_us
from stepward.api.job_logs import job_logs
from stepward.api.job_resources import attempt_resource, job_resource
from stepward.api.parts import Given, Parts
from stepward.api.tokens import whole_server
from stepward.clusters.queues import Queue
from stepward.errors import StepwardError, UsageError
from stepward.model.jobs import (
    Job,
    JobAttempt,
    JobChange,
    JobChanged,
    JobLogs,
    JobPage,
    JobSubmission,
    SubmittedJob,
)
from stepward.orchestrators.slurm.commands import Slurm, job_name
from stepward.orchestrators.slurm.records import SlurmJob
from stepward.orchestrators.slurm.submission import arguments, check
from stepward.store.catalog import Principal

MAX_PAGE = 500
Verb = Literal["cancel", "requeue", "hold", "release"]
_VERBS: dict[Verb, Callable[[Slurm, str], None]] = {
    "cancel": Slurm.cancel,
    "requeue": Slurm.requeue,
    "hold": Slurm.hold,
    "release": Slurm.release,
}
_Place = tuple[int, int]


# Handlers that share their path go to the thread themselves: see runs.get_run.
@get("/api/v1/clusters/{cluster:str}/jobs", operation_id="list_jobs")
async def list_jobs(
    *,
    request: AnyRequest,
    parts: Given,
    who: Who,
    cluster: FromPath[str],
    states: Annotated[str | None, QueryParameter(name="state")] = None,
    user: FromQuery[str | None] = None,
    partition: FromQuery[str | None] = None,
    name: FromQuery[str | None] = None,
    node: FromQuery[str | None] = None,
    since: FromQuery[str] = "24h",
    limit: Annotated[int, QueryParameter(ge=1, le=MAX_PAGE)] = 100,
    cursor: FromQuery[str | None] = None,
) -> Response[JobPage]:
    """Jobs that wait, run, or ended within ``since``, the newest first.

    ``state`` is ours or Slurm's, several joined by commas; ``name`` is found anywhere in the name; ``node`` is one that a
    job has, or had in its last launch.
    """

    def page() -> JobPage:
        queue = parts.queues.of(cluster)
        jobs, missing = _all_jobs(queue, span_us(since), parts.clock())
        wanted = {one.strip().lower() for one in states.split(",") if one.strip()} if states else None
        found = [job for job in jobs if _fits(job, wanted, user, partition, name)]
        found = [job for job in found if node is None or node in job.nodes]
        found.sort(key=_place, reverse=True)
        behind = found if cursor is None else [job for job in found if _place(job) < _cursor(cursor)]
        shown = behind[:limit]
        more = len(behind) > limit
        items = _resources(parts, who, queue, shown)
        return JobPage(
            items=items,
            total=len(found),
            next=".".join(map(str, _place(shown[-1]))) if more else None,
            history_missing=missing,
        )

    return answer(request, await asyncio.to_thread(page))


@post("/api/v1/clusters/{cluster:str}/jobs", operation_id="submit_job", opt=ADMIN)
async def submit_job(
    parts: Given, who: Who, cluster: FromPath[str], data: JSONBody[JobSubmission], dry_run: FromQuery[bool] = False
) -> SubmittedJob:
    """Submit a job: every field is checked against the cluster before Slurm sees it. ``dry_run`` only checks and asks."""
    whole_server(who)
    return await asyncio.to_thread(_submit, parts, who, cluster, data, dry_run)


@get("/api/v1/clusters/{cluster:str}/jobs/{job:str}", operation_id="get_job", sync_to_thread=True)
def get_job(request: AnyRequest, parts: Given, who: Who, cluster: FromPath[str], job: FromPath[str]) -> Response[Job]:
    """One job with its launches, from the controller or from accounting."""
    queue = parts.queues.of(cluster)
    found = _one(queue, job)
    resource = _resources(parts, who, queue, [found])[0]
    return answer(request, msgspec.structs.replace(resource, attempts=_attempts(queue, found)))


@get("/api/v1/clusters/{cluster:str}/jobs/{job:str}/logs", operation_id="get_job_logs", sync_to_thread=True)
def get_job_logs(
    *,
    request: AnyRequest,
    parts: Given,
    who: Who,
    cluster: FromPath[str],
    job: FromPath[str],
    tail: Annotated[int, QueryParameter(ge=1, le=5000)] = 200,
) -> Response[JobLogs]:
    """The last lines of each output: of the run that watches the job, else (for administrators) of its own files."""
    queue = parts.queues.of(cluster)
    found = _one(queue, job)
    run = _runs(parts, who, queue, [found]).get(found.key)
    return answer(request, job_logs(parts, who, found, run, tail))


@post("/api/v1/clusters/{cluster:str}/jobs/{job:str}/{verb:str}", operation_id="change_job", opt=ADMIN)
async def change_job(
    *,
    parts: Given,
    who: Who,
    cluster: FromPath[str],
    job: FromPath[str],
    verb: FromPath[Verb],
    data: JSONBody[JobChange | None] = None,
    dry_run: FromQuery[bool] = False,
) -> JobChanged:
    """``cancel`` ends a job, ``requeue`` starts it anew under its id, ``hold`` keeps it from starting, ``release`` lets it."""
    whole_server(who)
    return await asyncio.to_thread(_change, parts, who, cluster, job, (verb, data, dry_run))


# ── reading ──


def _all_jobs(queue: Queue, span: int, now: int) -> tuple[list[SlurmJob], str | None]:
    """The queue, and what accounting adds to it; or why that adds nothing."""
    live = queue.jobs()
    try:
        history = queue.history(span, now)
    except StepwardError as error:
        return live, error.message
    known = {job.number for job in live}
    # Of a job's launches the last one counts: the list is in order of submission.
    ended = {job.number: job for job in history if job.number not in known}
    return [*live, *ended.values()], None


def _fits(job: SlurmJob, states: set[str] | None, user: str | None, partition: str | None, name: str | None) -> bool:
    if states is not None and not states & {job.state.value, job.slurm_state.lower()}:
        return False
    if user is not None and user not in (job.user, str(job.uid)):
        return False
    if partition is not None and partition not in job.partition.split(","):
        return False
    return name is None or name.lower() in job.name.lower()


def _place(job: SlurmJob) -> _Place:
    """Where a job is in the order of a list: arrays and heterogeneous jobs together."""
    return job.array_job or job.het_job or job.number, job.number


def _cursor(text: str) -> _Place:
    parts = text.split(".")
    if len(parts) != 2 or not all(part.isascii() and part.isdigit() and len(part) < 20 for part in parts):
        raise UsageError("this cursor does not fit", code="bad_cursor", hint="begin again without a cursor")
    return int(parts[0]), int(parts[1])


def _one(queue: Queue, job: str) -> SlurmJob:
    """A job: of what the controller was asked last, else asked for by itself."""
    name = job_name(job)
    same = [one for one in queue.jobs() if job == one.id or name in (one.id, str(one.number))]
    return same[-1] if same else queue.slurm.job(name)


def _runs(parts: Parts, who: Principal, queue: Queue, jobs: list[SlurmJob]) -> dict[str, str]:
    return parts.runs.of_jobs(who.projects, queue.slurm_name, [job.key for job in jobs if job.array_tasks is None])


def _resources(parts: Parts, who: Principal, queue: Queue, jobs: list[SlurmJob]) -> list[Job]:
    runs = _runs(parts, who, queue, jobs)
    return [job_resource(job, queue.name, None if job.array_tasks else runs.get(job.key)) for job in jobs]


def _attempts(queue: Queue, job: SlurmJob) -> list[JobAttempt]:
    """The launches of a job, as far as accounting knows them; the controller knows the last one best."""
    try:
        told = queue.attempts(job_name(job.id))
    except StepwardError:
        return []
    same = [one for one in told if one.id == job.id]
    return [attempt_resource(number, one) for number, one in enumerate(same, 1)]


# ── changing ──


def _submit(parts: Parts, who: Principal, cluster: str, asked: JobSubmission, dry_run: bool) -> SubmittedJob:
    queue = parts.queues.of(cluster)
    warnings = check(asked, queue.partitions(), queue.nodes())
    argv = arguments(asked)
    what = {"actor": who.name, "kind": "submit", "cluster": queue.slurm_name, "dry_run": dry_run}
    # Neither script nor environment: they may hold secrets, and whoever reads the audit sees its data.
    with parts.actions.recorded(**what, data={"argv": argv, "env": sorted(asked.env)}) as (_, known):
        if dry_run:
            expected = known["expected"] = queue.slurm.try_submit(asked)
            return SubmittedJob(dry_run=True, argv=argv, warnings=warnings, expected=expected)
        job = known["job"] = queue.slurm.submit(asked)
    queue.forget()
    return SubmittedJob(id=job, argv=argv, warnings=warnings)


def _change(
    parts: Parts, who: Principal, cluster: str, job: str, asked: tuple[Verb, JobChange | None, bool]
) -> JobChanged:
    verb, why, dry_run = asked
    queue, name = parts.queues.of(cluster), job_name(job)
    found = queue.slurm.job(name)
    run = None if found.array_tasks else _runs(parts, who, queue, [found]).get(found.key)
    reason = why.reason if why else ""
    with parts.actions.recorded(
        actor=who.name, kind=verb, cluster=queue.slurm_name, job=name, run=run, reason=reason, dry_run=dry_run
    ) as (action, known):
        known["slurm_state"] = found.slurm_state
        if not dry_run:
            _VERBS[verb](queue.slurm, name)
    queue.forget()
    return JobChanged(id=name, kind=verb, dry_run=dry_run, action=action)


ROUTES = [list_jobs, submit_job, get_job, get_job_logs, change_job]
