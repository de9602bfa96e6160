"""What Slurm knows of a job, as inputs of ``stepward diagnose``: accounting, the controller's record, the job's output.

Each of the three may be missing: the controller forgets a job minutes after its end, a cluster may keep no accounting,
output may be another user's. What is missing is said; the diagnosis goes on with the rest.
"""

import os
from collections.abc import Callable
from typing import NamedTuple

from stepward.diagnose.sources import Source
from stepward.errors import NotFound, StepwardError
from stepward.model.states import State
from stepward.orchestrators.slurm.commands import Slurm, job_name

_FIELDS = (
    "JobID", "JobName", "State", "ExitCode", "DerivedExitCode", "Elapsed", "Timelimit", "ReqMem", "MaxRSS", "NodeList",
    "Reason",
)  # fmt: skip


class Asked(NamedTuple):
    """What Slurm gave, and in words what it did not."""

    sources: list[Source]
    missing: list[str]


def ask_slurm(job: str, folder: str) -> Asked:
    """Write what Slurm knows of a job into ``folder``; the job's own output files are sources where they are.

    Raises:
        UsageError: ``bad_job``.
        NotFound: ``unknown_job``.
        StepwardError: what ``Slurm`` raises, where neither controller nor accounting answer.
    """
    name, slurm = job_name(job), Slurm()
    told, no_accounting = _try(lambda: slurm.account(name, _FIELDS))
    shown, no_controller = _try(lambda: slurm.describe(name))
    if no_accounting is not None and no_controller is not None:
        raise no_controller
    has_rows = told.count("\n") > 1
    if not has_rows and not shown:
        raise (
            no_controller
            or no_accounting
            or NotFound(f"Slurm knows no job {name}", code="unknown_job", hint="its id, and the cluster (SLURM_CONF)")
        )
    missing = [f"no accounting: {no_accounting.message}"] if no_accounting is not None else []
    missing += [f"no controller: {no_controller.message}"] if no_controller is not None else []
    for file, text in (("sacct.txt", told if has_rows else ""), ("scontrol.txt", shown)):
        if text:
            with open(os.path.join(folder, file), "w", encoding="utf-8") as out:
                out.write(text)
    sources, unread = _output(slurm, name, bool(shown))
    return Asked(sources, missing + unread)


def _output(slurm: Slurm, name: str, known: bool) -> tuple[list[Source], list[str]]:
    """The output files of a job that can be read here, and in words those that cannot."""
    if not known:
        return [], [f"job {name} has left the controller, and its output's path with it: give the file as PATH"]
    record = slurm.job(name)
    if record.state is State.QUEUED and not record.restarts:
        return [], []
    sources: list[Source] = []
    missing: list[str] = []
    for path in dict.fromkeys(path for path in (record.stdout, record.stderr) if path):
        try:
            with open(path, "rb"):
                sources.append(Source(path, os.path.basename(path), alone=True))
        except OSError as error:
            missing.append(f"output {path} of {record.user or 'another user'} cannot be read here: {error.strerror}")
    return sources, missing


def _try(ask: Callable[[], str]) -> tuple[str, StepwardError | None]:
    try:
        return ask(), None
    except NotFound:
        return "", None
    except StepwardError as error:
        return "", error
