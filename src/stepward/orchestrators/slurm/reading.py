"""Slurm's answers as records: the queue (``squeue -O``), accounting (``sacct -p``). Pure, tested on recorded output.

Times are seconds since the epoch, as ``asking`` asks for them. What a release does not answer stays None.
"""

import logging
import os
import re
from collections.abc import Callable, Iterable

import msgspec

from stepward.errors import ParseError
from stepward.model.slurm_text import duration_s, expand_nodes
from stepward.model.states import State
from stepward.orchestrators.slurm.records import SlurmJob, SlurmStep
from stepward.orchestrators.slurm.states import job_state, slurm_word
from stepward.orchestrators.slurm.table import rows

QUEUE_FIELDS = (
    "JobID", "JobArrayID", "ArrayJobID", "ArrayTaskID", "HetJobID", "HetJobOffset", "UserName", "UserID", "Account",
    "Partition", "QOS", "State", "Reason", "NodeList", "NumNodes", "NumCPUs", "SubmitTime", "EligibleTime", "StartTime",
    "EndTime", "RestartCnt", "exit_code", "TimeLimit", "Requeue", "Reservation", "Dependency", "tres-alloc", "Feature",
    "STDOUT", "STDERR", "WorkDir", "Command", "Comment", "admin_comment", "Name",
)  # fmt: skip
"""Fields of ``squeue -O`` that 20.11 to 25.05 have under these names."""
ACCOUNTING_FIELDS = (
    "JobIDRaw", "JobID", "User", "UID", "Account", "Partition", "QOS", "State", "Reason", "NodeList", "NNodes", "ReqCPUS",
    "AllocCPUS", "Submit", "Eligible", "Start", "End", "ExitCode", "TimelimitRaw", "Reservation", "AllocTRES", "ReqTRES",
    "Constraints", "WorkDir", "Comment", "AdminComment", "JobName",
)  # fmt: skip
"""Fields of ``sacct -o`` that 20.11 to 25.05 have. Restarts, StdOut and StdErr came later and are not asked for."""
STEP_FIELDS = ("StepID", "StepState", "UserID", "StartTime", "Nodes", "NumTasks", "StepName")
_ARRAY = re.compile(r"(?P<job>\d+)_(?:(?P<task>\d+)|\[(?P<tasks>[^\]]*)\])")
_HET = re.compile(r"(?P<leader>\d+)\+(?P<offset>\d+)")
_PATTERN = re.compile(r"%(\d*)([a-zA-Z%])")
_log = logging.getLogger("stepward.slurm")


def read_queue(text: str, mark: str) -> list[SlurmJob]:
    """The jobs of a ``squeue -O``: those that wait, run, or ended within MinJobAge.

    Raises:
        ParseError: ``slurm_malformed``: not one row is understood; single ones are logged and left out.
    """
    return _each(rows(text, QUEUE_FIELDS, mark), _queued)


def read_accounting(text: str, mark: str) -> list[SlurmJob]:
    """The jobs of a ``sacct -p -X``; with ``-D`` one record an attempt. Raises as ``read_queue``."""
    return _each(rows(text, ACCOUNTING_FIELDS, mark), _accounted)


def read_steps(text: str, mark: str) -> list[SlurmStep]:
    """The steps of a ``squeue -s -O``."""
    return [
        SlurmStep(
            id=row["StepID"],
            job=row["StepID"].partition(".")[0],
            name=row["StepName"],
            slurm_state=slurm_word(row["StepState"]),
            nodes=nodes(row["Nodes"]),
            tasks=integer(row["NumTasks"]),
            started_at=moment(row["StartTime"]),
            uid=integer(row["UserID"]),
        )
        for row in rows(text, STEP_FIELDS, mark)
    ]


def _each(found: Iterable[dict[str, str]], read: Callable[[dict[str, str]], SlurmJob]) -> list[SlurmJob]:
    jobs: list[SlurmJob] = []
    failure: ParseError | None = None
    for row in found:
        try:
            jobs.append(read(row))
        except (ParseError, ValueError) as error:
            failure = error if isinstance(error, ParseError) else _malformed(str(error), row)
            _log.warning("a job of Slurm is left out: %s", failure.message)
    if failure is not None and not jobs:
        raise failure
    return jobs


def _queued(row: dict[str, str]) -> SlurmJob:
    word = slurm_word(row["State"])
    state = job_state(word)
    number = integer(row["JobID"])
    if number is None:
        raise _malformed("a job has no number", row)
    array_job, array_task, array_tasks = _array(row)
    start, end = moment(row["StartTime"]), moment(row["EndTime"])
    placed = nodes(row["NodeList"])
    waits = word in _WAITING
    code, signal = _end(row["exit_code"], state) if placed else (None, None)
    job = SlurmJob(
        id=row["JobArrayID"] or str(number),
        number=number,
        array_job=array_job,
        array_task=array_task,
        array_tasks=array_tasks,
        het_job=integer(row["HetJobID"]) or None,
        het_offset=integer(row["HetJobOffset"]) if integer(row["HetJobID"]) else None,
        name=row["Name"],
        user=row["UserName"],
        uid=integer(row["UserID"]),
        account=row["Account"],
        partition=row["Partition"],
        qos=row["QOS"],
        state=state,
        slurm_state=word,
        # None means «not looked at yet» of a job that waits, nothing of another. What is left of a job that was
        # cancelled or has finished is why it had waited.
        reason=row["Reason"] if waits or (row["Reason"] != "None" and state not in _NO_REASON) else "",
        nodes=placed,
        node_count=integer(row["NumNodes"]),
        cpus=integer(row["NumCPUs"]),
        submitted_at=moment(row["SubmitTime"]),
        eligible_at=moment(row["EligibleTime"]),
        started_at=start if placed and not waits else None,
        expected_start_at=start if waits else None,
        ended_at=end if state.terminal else None,
        restarts=integer(row["RestartCnt"]),
        exit_code=code,
        signal=signal,
        workdir=row["WorkDir"],
        command=row["Command"],
        time_limit_s=duration_s(row["TimeLimit"]),
        requeue={"1": True, "0": False}.get(row["Requeue"]),
        dependency=row["Dependency"],
        tres=row["tres-alloc"],
        features=row["Feature"],
        reservation=row["Reservation"],
        comment=row["Comment"],
        admin_comment=row["admin_comment"],
    )
    return with_paths(job, row["STDOUT"], row["STDERR"])


def _accounted(row: dict[str, str]) -> SlurmJob:
    word = slurm_word(row["State"])
    state = job_state(word)
    number = integer(row["JobIDRaw"].partition(".")[0])
    if number is None:
        raise _malformed("a job has no number", row)
    array, het = _ARRAY.fullmatch(row["JobID"]), _HET.fullmatch(row["JobID"])
    code, signal = _end(row["ExitCode"], state)
    by = re.search(r"CANCELLED by (\d+)", row["State"], re.IGNORECASE)
    limit = row["TimelimitRaw"]
    placed = nodes(row["NodeList"])
    return SlurmJob(
        id=row["JobID"] or str(number),
        number=number,
        array_job=int(array["job"]) if array else None,
        array_task=int(array["task"]) if array and array["task"] else None,
        array_tasks=array["tasks"] if array else None,
        het_job=int(het["leader"]) if het else None,
        het_offset=int(het["offset"]) if het else None,
        name=row["JobName"],
        user=row["User"],
        uid=integer(row["UID"]),
        account=row["Account"],
        partition=row["Partition"],
        qos=row["QOS"],
        state=state,
        slurm_state=word,
        # Accounting keeps why a job waited, whatever became of it.
        reason=row["Reason"] if state is State.QUEUED and row["Reason"] != "None" else "",
        nodes=placed,
        node_count=integer(row["NNodes"]),
        cpus=integer(row["AllocCPUS"]) or integer(row["ReqCPUS"]),
        submitted_at=moment(row["Submit"]),
        eligible_at=moment(row["Eligible"]),
        # A job that was cancelled while it waited has its end for a start, and no nodes.
        started_at=moment(row["Start"]) if placed else None,
        ended_at=moment(row["End"]) if state.terminal else None,
        exit_code=code,
        signal=signal,
        workdir=row["WorkDir"],
        time_limit_s=float(limit) * 60 if limit.isdigit() else duration_s(limit),
        tres=row["AllocTRES"] or row["ReqTRES"],
        features=row["Constraints"],
        reservation=row["Reservation"],
        comment=row["Comment"],
        admin_comment=row["AdminComment"],
        cancelled_by=int(by[1]) if by else None,
    )


_NO_REASON = frozenset({State.FINISHED, State.CANCELLED, State.RUNNING, State.STARTING})
_WAITING = frozenset({"PENDING", "REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD", "REQUEUE_FED", "EXPEDITING"})


def _array(row: dict[str, str]) -> tuple[int | None, int | None, str | None]:
    """Array, task, and tasks that wait together; a job that is no array is told as an array without a task."""
    task = row["ArrayTaskID"]
    if not task:
        return None, None, None
    if task.isdigit():
        return integer(row["ArrayJobID"]), int(task), None
    return integer(row["ArrayJobID"]), None, task.strip("[]")


def _end(text: str, state: State) -> tuple[int | None, int | None]:
    """Exit code and signal of a job that has ended: the 0 of one that was ended from outside tells nothing."""
    code, signal = exit_of(text) if state.terminal else (None, None)
    return code or (0 if code == 0 and state is State.FINISHED else None), signal


# ── cells ──


def integer(text: str) -> int | None:
    """A whole number that is not negative; None for anything else."""
    text = text.strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else None


def moment(text: str) -> int | None:
    """Seconds since the epoch as µs; None for 0, ``N/A``, ``Unknown``, ``NONE`` and the like."""
    seconds = integer(text)
    return seconds * 1_000_000 if seconds and seconds < 1 << 40 else None


def nodes(text: str) -> tuple[str, ...]:
    """The names of a node list.

    Raises:
        ValueError: it is none.
    """
    return tuple(expand_nodes(text))


def exit_of(text: str) -> tuple[int | None, int | None]:
    """Exit code and signal: of ``1:0``, or of the number that ``wait`` gives (squeue before 23.11)."""
    code, colon, signal = text.partition(":")
    first, second = integer(code), integer(signal)
    if first is None:
        return None, None
    if not colon:
        first, second = first >> 8 & 0xFF, first & 0x7F
    return first, second or None


def with_paths(job: SlurmJob, stdout: str, stderr: str) -> SlurmJob:
    """The job with the paths of its output, patterns filled in and made absolute."""
    if job.array_tasks is not None or job.het_offset:
        # Tasks that wait have no number of their own yet; of a heterogeneous job the leader's script alone writes.
        return job
    out = filled(stdout, job) if stdout else ""
    err = filled(stderr, job) if stderr else out
    return msgspec.structs.replace(job, stdout=out, stderr=err)


def filled(path: str, job: SlurmJob) -> str:
    """A path with Slurm's patterns filled in (``filename pattern`` of the ``sbatch`` manual).

    What only a step or node knows (``%t``, ``%N``, ``%n``, ``%s``) stands for the batch step: task 0, its first node.
    """
    values = {
        "A": str(job.array_job or job.number),
        "a": "4294967294" if job.array_task is None else str(job.array_task),
        "j": str(job.number),
        "J": str(job.number),
        "N": job.nodes[0] if job.nodes else "",
        "n": "0",
        "t": "0",
        "s": "batch",
        "u": job.user,
        "x": job.name,
        "b": "0" if job.array_task is None else str(job.array_task % 10),
        "%": "%",
    }

    def value(found: re.Match[str]) -> str:
        width, letter = min(int(found[1] or 0), 10), found[2]
        known = values.get(letter)
        if known is None:
            return found[0]
        return known.zfill(width) if known.isdigit() else known

    default = os.path.join(job.workdir, f"slurm-{job.number}.out")
    if job.array_task is not None and path == default:
        # squeue 22.05 tells the default of an array's task wrongly: the file is named by array and task.
        return os.path.join(job.workdir, f"slurm-{job.array_job}_{job.array_task}.out")
    # A backslash switches patterns off.
    text = path.replace("\\", "") if "\\" in path else _PATTERN.sub(value, path)
    return text if os.path.isabs(text) or not job.workdir else os.path.normpath(os.path.join(job.workdir, text))


def _malformed(words: str, row: dict[str, str]) -> ParseError:
    return ParseError(f"{words}: {str(row)[:200]}", code="slurm_malformed", sample=str(row)[:300])
