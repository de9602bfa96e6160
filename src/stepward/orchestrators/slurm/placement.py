"""Which Slurm job a process belongs to, as its cgroup or its environment says. Pure: texts in, a placement out.

slurmstepd makes ``slurm[_<node>]/uid_<n>/job_<id>/step_<id>`` below each controller of cgroup version 1, and
``[<node>_]slurmstepd.scope/job_<id>/step_<id>`` in version 2; the node's name is there where several slurmd share a host
(src/plugins/cgroup of SchedMD/slurm). Without cgroups its environment says it, which a process may have changed.
"""

import re

import msgspec

from stepward.orchestrators.protocol import Environ

_V1 = re.compile(r"/slurm(?:_(?P<node>[^/]+))?/uid_\d+/job_(?P<job>\d+)(?:/step_(?P<step>[^/]+))?")
_V2 = re.compile(r"/(?:(?P<node>[^/]+)_)?slurmstepd\.scope/job_(?P<job>\d+)(?:/step_(?P<step>[^/]+))?")


class Placement(msgspec.Struct, frozen=True):
    """Job (Slurm's own number), step (``0``, ``batch``, ``extern``) and node, None where they are not said."""

    job: str
    step: str | None = None
    node: str | None = None


def of_cgroup(text: str) -> Placement | None:
    """The placement in the text of ``/proc/<pid>/cgroup``."""
    if "slurm" not in text:
        return None
    found = _V1.search(text) or _V2.search(text)
    return Placement(found["job"], found["step"], found["node"]) if found else None


def of_environ(environ: Environ) -> Placement | None:
    """The placement in the environment of a process."""
    job = environ.get("SLURM_JOB_ID", "")
    if not job.isdigit():
        return None
    return Placement(job, environ.get("SLURM_STEP_ID") or None, environ.get("SLURMD_NODENAME") or None)


def job_folder(path: str) -> str | None:
    """The cgroup of the job that a path of a cgroup lies in; None outside of one."""
    found = re.match(r".*?/job_\d+(?=/|$)", path) if "slurm" in path else None
    return found[0] if found else None
