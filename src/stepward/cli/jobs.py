"""``stepward jobs``: the queue of a Slurm cluster, with what each job waits for in words, and what may be done about it."""

import sys
import time
from collections.abc import Iterator
from typing import Annotated

import typer

from stepward.cli.connection import connect
from stepward.cli.job_columns import describe, job_columns
from stepward.cli.job_submission import submission
from stepward.cli.table import Column, Format, FormatOption, show, write_csv, write_json
from stepward.cli.text import plain, safe
from stepward.client.api import Client
from stepward.model.jobs import JobChanged, JobOutput, JobPage, JobSubmission, SubmittedJob
from stepward.model.resources import LogLine

app = typer.Typer(help="Jobs of a Slurm cluster.", no_args_is_help=True)

ClusterOption = Annotated[
    str, typer.Option("--cluster", "-C", help="Name of a cluster; `host` is the Slurm of the server's own host.")
]
JobArgument = Annotated[str, typer.Argument(metavar="JOB", help="Id of a job: 48211, 48211_3.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")]
ReasonOption = Annotated[str, typer.Option("--reason", help="Why; kept in the audit.")]
PAGE = 500


@app.command(context_settings={"allow_interspersed_args": False})
def submit(
    what: Annotated[
        list[str], typer.Argument(metavar="SCRIPT | -- CMD", help="A batch script, or a command with its arguments.")
    ],
    *,
    cluster: ClusterOption = "host",
    name: Annotated[str | None, typer.Option("--name", "-J", help="Name of the job.")] = None,
    partition: Annotated[str | None, typer.Option("--partition", "-p", help="Partition, or several.")] = None,
    account: Annotated[str | None, typer.Option("--account", "-A", help="Account.")] = None,
    qos: Annotated[str | None, typer.Option(help="Quality of service.")] = None,
    nodes: Annotated[int | None, typer.Option("--nodes", "-N", help="Nodes.")] = None,
    ntasks: Annotated[int | None, typer.Option("--ntasks", "-n", help="Tasks.")] = None,
    ntasks_per_node: Annotated[int | None, typer.Option(help="Tasks a node.")] = None,
    cpus_per_task: Annotated[int | None, typer.Option("--cpus-per-task", "-c", help="CPUs a task.")] = None,
    mem: Annotated[str | None, typer.Option(help="Memory a node: 64G.")] = None,
    gres: Annotated[str | None, typer.Option(help="Generic resources a node: gpu:8.")] = None,
    gpus: Annotated[int | None, typer.Option(help="GPUs of the whole job.")] = None,
    time_limit: Annotated[str | None, typer.Option("--time", "-t", help="Time limit: minutes, D-HH:MM:SS.")] = None,
    array: Annotated[str | None, typer.Option("--array", "-a", help="Tasks of an array: 0-9%2.")] = None,
    dependency: Annotated[str | None, typer.Option("--dependency", "-d", help="As afterok:42.")] = None,
    requeue: Annotated[
        bool | None, typer.Option("--requeue/--no-requeue", help="Whether it starts again after a node has failed.")
    ] = None,
    signal: Annotated[str | None, typer.Option(help="Signal before the time limit: B:USR1@120.")] = None,
    workdir: Annotated[str | None, typer.Option("--chdir", "-D", help="Working folder. Default: this one.")] = None,
    stdout: Annotated[str | None, typer.Option("--output", "-o", help="File of its output.")] = None,
    stderr: Annotated[str | None, typer.Option("--error", "-e", help="File of its errors.")] = None,
    env: Annotated[
        list[str] | None, typer.Option(help="NAME of a variable to take along, or NAME=VALUE; repeatable.")
    ] = None,
    comment: Annotated[str | None, typer.Option(help="Comment.")] = None,
    constraint: Annotated[str | None, typer.Option(help="Features of its nodes.")] = None,
    reservation: Annotated[str | None, typer.Option(help="Reservation.")] = None,
    exclusive: Annotated[bool, typer.Option("--exclusive", help="Whole nodes.")] = False,
    hold: Annotated[bool, typer.Option("--hold", "-H", help="Wait until it is released.")] = False,
    nodelist: Annotated[str | None, typer.Option("--nodelist", "-w", help="Nodes that it must have.")] = None,
    exclude: Annotated[str | None, typer.Option("--exclude", "-x", help="Nodes that it must not have.")] = None,
    dry_run: DryRunOption = False,
    output: FormatOption = Format.TABLE,
) -> None:
    """Submit a job; every field is checked before Slurm sees it."""
    asked = submission(
        what,
        env or [],
        JobSubmission(
            name=name, partition=partition, account=account, qos=qos, nodes=nodes, ntasks=ntasks,
            ntasks_per_node=ntasks_per_node, cpus_per_task=cpus_per_task, mem=mem, gres=gres, gpus=gpus,
            time_limit=time_limit, array=array, dependency=dependency, requeue=requeue, signal=signal, workdir=workdir,
            output=stdout, error=stderr, comment=comment, constraint=constraint, reservation=reservation,
            exclusive=exclusive, hold=hold, nodelist=nodelist, exclude=exclude,
        ),
    )  # fmt: skip
    done = connect().submit_job(cluster, asked, dry_run=dry_run)
    for warning in done.warnings:
        print(f"warning: {safe(warning)}", file=sys.stderr)
    show(output, _SUBMITTED, [done], document=done) if output is not Format.TABLE else print(_submitted(done))


@app.command("ls")
def ls(
    *,
    cluster: ClusterOption = "host",
    state: Annotated[str | None, typer.Option("--state", "-s", help="States, ours or Slurm's: queued,running.")] = None,
    user: Annotated[str | None, typer.Option("--user", "-u", help="Only this user's.")] = None,
    partition: Annotated[str | None, typer.Option("--partition", "-p", help="Only of this partition.")] = None,
    name: Annotated[str | None, typer.Option(help="Only with this in their name.")] = None,
    since: Annotated[str, typer.Option(help="Ended jobs too, back to: 90m, 24h, 7d.")] = "24h",
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Jobs at most.")] = 100,
    output: FormatOption = Format.TABLE,
) -> None:
    """List jobs that wait, run or ended lately, newest first, with what they wait for."""
    filters = {"state": state, "user": user, "partition": partition, "name": name, "since": since}
    pages = list(_pages(connect(), cluster, filters, limit))
    jobs = [job for page in pages for job in page.items][:limit]
    show(output, job_columns(time.time()), jobs, empty="no jobs")
    if pages[0].history_missing:
        print(f"ended jobs are not all here: {safe(pages[0].history_missing)}", file=sys.stderr)
    if pages[0].total > len(jobs):
        print(f"these are the first {len(jobs)} of {pages[0].total}; --limit shows more", file=sys.stderr)


@app.command("show")
def show_job(job: JobArgument, *, cluster: ClusterOption = "host", output: FormatOption = Format.TABLE) -> None:
    """Show a job: state, why it waits and what to do, nodes, times, launches, its run."""
    found = connect().job(cluster, job)
    if output is Format.TABLE:
        describe(found, time.time())
    else:
        show(output, job_columns(time.time()), [found], document=found)


@app.command()
def cancel(
    job: JobArgument, *, cluster: ClusterOption = "host", reason: ReasonOption = "", dry_run: DryRunOption = False
) -> None:
    """End a job, whether it waits or runs."""
    _told(connect().change_job(cluster, job, "cancel", reason=reason, dry_run=dry_run))


@app.command()
def requeue(
    job: JobArgument, *, cluster: ClusterOption = "host", reason: ReasonOption = "", dry_run: DryRunOption = False
) -> None:
    """End a job and let it start again under the same id."""
    _told(connect().change_job(cluster, job, "requeue", reason=reason, dry_run=dry_run))


@app.command()
def hold(
    job: JobArgument, *, cluster: ClusterOption = "host", reason: ReasonOption = "", dry_run: DryRunOption = False
) -> None:
    """Keep a waiting job from starting."""
    _told(connect().change_job(cluster, job, "hold", reason=reason, dry_run=dry_run))


@app.command()
def release(
    job: JobArgument, *, cluster: ClusterOption = "host", reason: ReasonOption = "", dry_run: DryRunOption = False
) -> None:
    """Let a held job start."""
    _told(connect().change_job(cluster, job, "release", reason=reason, dry_run=dry_run))


@app.command()
def logs(
    job: JobArgument,
    *,
    cluster: ClusterOption = "host",
    lines: Annotated[int, typer.Option("--lines", "-n", min=1, max=5000, help="Lines of each output.")] = 200,
    output: FormatOption = Format.TABLE,
) -> None:
    """Print the end of a job's output: its run's, or that of its own files."""
    found = connect().job_logs(cluster, job, tail=lines)
    if output is Format.JSON:
        write_json(found)
        return
    every = [(one, line) for one in found.outputs for line in one.lines]
    if output is Format.CSV:
        write_csv(_LINES, every)
        return
    for one, line in every:
        prefix = f"[{safe(one.stream)}] " if len(found.outputs) > 1 else ""
        print(f"{prefix}{plain(line.text)}")


def _pages(client: Client, cluster: str, filters: dict[str, str | None], limit: int) -> Iterator[JobPage]:
    cursor: str | None = None
    while limit > 0:
        page = client.jobs(cluster, **filters, limit=min(limit, PAGE), cursor=cursor)
        yield page
        limit, cursor = limit - len(page.items), page.next
        if cursor is None:
            return


def _submitted(done: SubmittedJob) -> str:
    if done.id is not None:
        return f"submitted job {done.id}"
    import shlex

    return f"would run: {safe(shlex.join(done.argv))}\nSlurm says: {safe(done.expected) or 'it would be taken'}"


def _told(done: JobChanged) -> None:
    words = {"cancel": "cancelled", "requeue": "requeued", "hold": "held", "release": "released"}[done.kind]
    print(f"job {safe(done.id)} {'would be ' if done.dry_run else ''}{words}")


_SUBMITTED: list[Column[SubmittedJob]] = [
    Column("id", lambda done: done.id),
    Column("dry_run", lambda done: done.dry_run),
    Column("expected", lambda done: done.expected),
    Column("argv", lambda done: done.argv),
]
_LINES: list[Column[tuple[JobOutput, LogLine]]] = [
    Column("stream", lambda row: row[0].stream),
    Column("n", lambda row: row[1].n),
    Column("at", lambda row: row[1].at),
    Column("text", lambda row: row[1].text),
]
