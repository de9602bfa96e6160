"""Output of a job: of the run that watches it, else the end of the files that Slurm names."""

from stepward.api.parts import Parts
from stepward.errors import PermissionDenied
from stepward.model.jobs import JobLogs, JobOutput
from stepward.model.words import TokenKind
from stepward.orchestrators.slurm.output import Tail, tail
from stepward.orchestrators.slurm.records import SlurmJob
from stepward.store.catalog import Principal
from stepward.store.logs.read import RawLine
from stepward.store.logs.view import shown


def job_logs(parts: Parts, who: Principal, job: SlurmJob, run: str | None, count: int) -> JobLogs:
    """The last ``count`` lines of each output.

    Raises:
        PermissionDenied: ``not_allowed``, ``output_refused``.
        NotFound: ``no_output``.
    """
    if run is not None:
        outputs = _of_run(parts, who, run, count)
        if outputs:
            return JobLogs(id=job.id, run=run, outputs=outputs)
    if who.projects is not None or not who.at_least(TokenKind.ADMIN):
        # The files are read with the server's rights: whoever sees them this way might not see them otherwise.
        raise PermissionDenied(
            "no run keeps the output of this job, and its files are for administrators of all projects",
            code="not_allowed",
            hint="start it below `stepward run`, or let the cluster be watched: its output is then a run's",
        )
    files = {job.stderr: "stderr", job.stdout: "stdout"}
    files = {path: stream for path, stream in files.items() if path} or {"": "stdout"}
    outputs = [_output(stream, path, tail(path, job.uid, count)) for path, stream in files.items()]
    return JobLogs(id=job.id, run=run, outputs=outputs)


def _of_run(parts: Parts, who: Principal, run: str, count: int) -> list[JobOutput]:
    head = parts.runs.head(who.projects, run)
    numbers = head.numbers
    streams = parts.logs.streams(head.project, head.id, attempts=numbers)
    newest = max((stream.attempt for stream in streams), default=None)
    outputs = []
    for stream in streams:
        if stream.attempt == newest:
            page = parts.logs.page(head.project, head.id, stream.id, attempts=numbers, tail=count, limit=count)
            rank = "" if stream.rank is None else f"rank {stream.rank} "
            outputs.append(JobOutput(stream=f"{rank}{stream.stream}", lines=page.lines))
    return outputs


def _output(stream: str, path: str, found: Tail) -> JobOutput:
    lines = [shown(RawLine(n, 0, line, 0, None)) for n, line in enumerate(found.lines, 1)]
    return JobOutput(stream=stream, path=path, lines=lines, skipped_bytes=found.skipped_bytes)
