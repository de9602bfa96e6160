"""Who a process is inside a Slurm job, from the variables that slurmstepd sets.

No time is in the key: Slurm gives a requeued job a new submit time but the same id. Variables of a job are inherited by
everything below it, so SLURM_PROCID names a rank only where no other launcher stands between.
"""

from typing import Any

from stepward.orchestrators.protocol import Environ, first_integer, integer

_FIRST_SPECIAL_STEP = 4_294_967_000
"""Slurm numbers its own steps (batch, extern, interactive) from the top of 32 bits; real steps are far below."""


def job_id(environ: Environ) -> str | None:
    """``42``, or ``40_3`` for a task of an array; the leader's id for a heterogeneous job; None outside of Slurm."""
    array, task = environ.get("SLURM_ARRAY_JOB_ID"), environ.get("SLURM_ARRAY_TASK_ID")
    if array and task:
        return f"{array}_{task}"
    return environ.get("SLURM_HET_JOB_ID") or environ.get("SLURM_JOB_ID") or environ.get("SLURM_JOBID") or None


def run_key(environ: Environ) -> str | None:
    """``slurm:<cluster>:<job>[_task]``; None outside of Slurm."""
    job = job_id(environ)
    return f"slurm:{environ.get('SLURM_CLUSTER_NAME') or 'cluster'}:{job}" if job else None


def attempt_part(environ: Environ, *, in_step: bool) -> str | None:
    """``slurm.<restart>``, and with ``in_step`` the job step that ``srun`` started: a second srun is a new launch.

    ``in_step`` is for what srun starts itself. Below torchrun the step is left out: scripts that start one srun a node
    would else see each node as an attempt of its own.
    """
    if job_id(environ) is None:
        return None
    restart, step = integer(environ, "SLURM_RESTART_COUNT") or 0, _step(environ)
    return f"slurm.{restart}/step.{step}" if in_step and step is not None else f"slurm.{restart}"


def _step(environ: Environ) -> int | None:
    text = environ.get("SLURM_STEP_ID") or environ.get("SLURM_STEPID") or ""
    return int(text) if text.isdigit() and int(text) < _FIRST_SPECIAL_STEP else None


def rank(environ: Environ) -> int | None:
    """Number of the task that srun started."""
    return integer(environ, "SLURM_PROCID")


def local_rank(environ: Environ) -> int | None:
    """Number of the task on its node."""
    return integer(environ, "SLURM_LOCALID")


def world(environ: Environ) -> int | None:
    """Tasks of the step that srun started; None in a batch script, whose process is one whatever the job asked for."""
    if _step(environ) is None:
        return None
    return first_integer(environ, "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS")


def job(environ: Environ) -> dict[str, Any] | None:
    """The job for ``frames.Config.job``; ``id`` is what ``scontrol show job`` takes."""
    name = job_id(environ)
    if name is None:
        return None
    facts = {
        "cluster": environ.get("SLURM_CLUSTER_NAME"),
        "name": environ.get("SLURM_JOB_NAME"),
        "partition": environ.get("SLURM_JOB_PARTITION"),
        "account": environ.get("SLURM_JOB_ACCOUNT"),
        "nodes": environ.get("SLURM_JOB_NODELIST"),
        "restart": integer(environ, "SLURM_RESTART_COUNT") or 0,
    }
    return {"system": "slurm", "id": name, **{k: v for k, v in facts.items() if v is not None}}
