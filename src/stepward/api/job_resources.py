"""Slurm's records of jobs as the API's JSON."""

from stepward.model.jobs import Job, JobAttempt, JobFacts
from stepward.model.resources import instant, number
from stepward.model.states import signal_name
from stepward.orchestrators.slurm.reasons import job_words
from stepward.orchestrators.slurm.records import SlurmJob


def job_resource(job: SlurmJob, cluster: str, run: str | None) -> Job:
    """A job; its launches are added where they are asked for."""
    words = job_words(job)
    return Job(
        **{name: getattr(job, name) for name in JobFacts.__struct_fields__},
        cluster=cluster,
        held=job.held,
        reason_words=words.meaning if words else "",
        advice=words.advice if words else "",
        nodes=list(job.nodes),
        submitted_at=_instant(job.submitted_at),
        eligible_at=_instant(job.eligible_at),
        expected_start_at=_instant(job.expected_start_at),
        started_at=_instant(job.started_at),
        ended_at=_instant(job.ended_at),
        time_limit_s=None if job.time_limit_s is None else number(job.time_limit_s),
        signal=_signal(job),
        run=run,
    )


def attempt_resource(place: int, job: SlurmJob) -> JobAttempt:
    """One launch of a job, the first is 1."""
    return JobAttempt(
        number=place,
        state=job.state,
        slurm_state=job.slurm_state,
        reason=job.reason,
        nodes=list(job.nodes),
        submitted_at=_instant(job.submitted_at),
        started_at=_instant(job.started_at),
        ended_at=_instant(job.ended_at),
        exit_code=job.exit_code,
        signal=_signal(job),
    )


def _signal(job: SlurmJob) -> str | None:
    return None if job.signal is None else signal_name(job.signal)


def _instant(at_us: int | None) -> str | None:
    return None if at_us is None else instant(at_us)
