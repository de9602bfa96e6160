"""A job on the command line: as a row of a table, and described."""

from stepward.cli.figures import ago, between, lasting
from stepward.cli.ls import COLOURS
from stepward.cli.table import Column, terminal, write_table
from stepward.cli.text import safe
from stepward.model.jobs import Job, JobAttempt
from stepward.model.slurm_text import fold_nodes
from stepward.model.states import State


def job_columns(now: float) -> list[Column[Job]]:
    """The columns of a list of jobs, seen at ``now`` (seconds since the epoch)."""
    return [
        Column("id", lambda job: job.id),
        Column("name", lambda job: job.name, flexible=True),
        Column("user", lambda job: job.user, spare=True),
        Column("partition", lambda job: job.partition, spare=True),
        Column("state", lambda job: job.state.value, _state, style=_colour),
        Column("nodes", lambda job: job.nodes, _nodes, flexible=True),
        Column("submitted_at", lambda job: job.submitted_at, lambda job: ago(job.submitted_at, now), right=True),
        Column("started_at", lambda job: job.started_at, lambda job: _ran(job, now), right=True, title="RAN"),
        Column("ended_at", lambda job: job.ended_at, lambda job: ago(job.ended_at, now), right=True, spare=True),
        Column("exit_code", lambda job: job.exit_code, _exit, right=True, spare=True, title="EXIT"),
        Column("reason", lambda job: job.reason, lambda job: job.reason_words or "-", flexible=True, title="WHY"),
        Column("run", lambda job: job.run, spare=True),
    ]


ATTEMPTS: list[Column[JobAttempt]] = [
    Column("number", lambda one: one.number, right=True, title="LAUNCH"),
    Column("state", lambda one: one.state.value, lambda one: f"{one.state.value} ({one.slurm_state})"),
    Column("nodes", lambda one: one.nodes, lambda one: fold_nodes(one.nodes) or "-", flexible=True),
    Column("submitted_at", lambda one: one.submitted_at),
    Column("started_at", lambda one: one.started_at),
    Column("ended_at", lambda one: one.ended_at),
    Column("exit_code", lambda one: one.exit_code, lambda one: one.signal or _or_dash(one.exit_code), right=True),
]


def describe(job: Job, now: float) -> None:
    """Print what is known of a job."""
    from rich.text import Text

    out = terminal()
    head = Text.assemble((f"job {safe(job.id)}", "bold"), f"  {safe(job.name)}  ", (_state(job), _colour(job)))
    out.print(head, soft_wrap=True)
    for name, value in _facts(job, now):
        out.print(Text(f"  {name:<10} {safe(value)}"), soft_wrap=True)
    if len(job.attempts) > 1:
        print()
        write_table(ATTEMPTS, job.attempts)


def _facts(job: Job, now: float) -> list[tuple[str, str]]:
    limit = job.time_limit_s
    every = [
        ("why", f"{job.reason_words}{f' [{job.reason}]' if job.reason else ''}" if job.reason_words else ""),
        ("to do", job.advice),
        ("user", f"{job.user}{f' ({job.account})' if job.account else ''}"),
        ("partition", job.partition),
        ("nodes", fold_nodes(job.nodes) or (f"{job.node_count} asked for" if job.node_count else "")),
        ("resources", job.tres),
        ("submitted", f"{ago(job.submitted_at, now)} ({job.submitted_at})" if job.submitted_at else ""),
        ("expected", f"to start {ago(job.expected_start_at, now)}" if job.expected_start_at else ""),
        ("started", f"{ago(job.started_at, now)} ({job.started_at})" if job.started_at else ""),
        ("ended", f"{ago(job.ended_at, now)} ({job.ended_at})" if job.ended_at else ""),
        ("exit", _exit(job) if job.exit_code is not None or job.signal else ""),
        ("time limit", lasting(limit) if isinstance(limit, int | float) else "none" if limit else ""),
        ("restarts", str(job.restarts) if job.restarts else ""),
        ("depends on", job.dependency),
        ("command", job.command),
        ("folder", job.workdir),
        ("output", job.stdout),
        ("errors", job.stderr if job.stderr != job.stdout else ""),
        ("comment", job.comment),
        ("run", job.run or ""),
    ]
    return [(name, value) for name, value in every if value]


def _state(job: Job) -> str:
    if job.held:
        return f"{job.state.value}, held"
    return f"{job.state.value}, suspended" if job.slurm_state in {"SUSPENDED", "STOPPED"} else job.state.value


def _colour(job: Job) -> str:
    return COLOURS.get(job.state, "red")


def _nodes(job: Job) -> str:
    return fold_nodes(job.nodes) or (f"({job.node_count})" if job.node_count else "-")


def _ran(job: Job, now: float) -> str:
    return between(job.started_at, job.ended_at, now) if job.started_at else "-"


def _exit(job: Job) -> str:
    return job.signal or (_or_dash(job.exit_code) if job.state is not State.RUNNING else "-")


def _or_dash(code: int | None) -> str:
    return "-" if code is None else str(code)
