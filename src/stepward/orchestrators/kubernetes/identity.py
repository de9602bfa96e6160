"""Who a process is inside a Kubernetes pod, from variables that the pod's manifest exports.

A pod can't see its top owner: whoever writes the manifest (or injects into it) exports ``STEPWARD_K8S_OWNER_UID``, and
``JOBSET_RESTART_ATTEMPT`` from the label ``jobset.sigs.k8s.io/restart-attempt``.
"""

from typing import Any

from stepward.orchestrators.protocol import Environ, integer


def run_key(environ: Environ) -> str | None:
    """``k8s:<top owner uid>``; None where it is not exported."""
    uid = environ.get("STEPWARD_K8S_OWNER_UID")
    return f"k8s:{uid}" if uid else None


def attempt_part(environ: Environ) -> str | None:
    """``k8s.<restart>``; None where the owner is not exported."""
    return f"k8s.{integer(environ, 'JOBSET_RESTART_ATTEMPT') or 0}" if run_key(environ) else None


def job(environ: Environ) -> dict[str, Any] | None:
    """The owner for ``frames.Config.job``."""
    uid = environ.get("STEPWARD_K8S_OWNER_UID")
    return {"system": "kubernetes", "id": uid, "pod": environ.get("HOSTNAME", "")} if uid else None
