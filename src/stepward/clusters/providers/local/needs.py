"""What this host must have for the local provider; each missing piece is named with the Debian package that brings it."""

import glob
import os
import shutil

from stepward.clusters.providers.local.commands import PATH
from stepward.clusters.spec import ClusterSpec, Storage
from stepward.errors import StepwardError, UsageError

_ALWAYS = {
    "munged": "munge",
    "slurmctld": "slurmctld",
    "slurmd": "slurmd",
    "scontrol": "slurm-client",
    "sinfo": "slurm-client",
    "setsid": "util-linux",
    "setpriv": "util-linux",
}
_ACCOUNTING = {"mariadbd": "mariadb-server", "mariadb-install-db": "mariadb-server", "slurmdbd": "slurmdbd"}
_REST = {"slurmrestd": "slurmrestd"}
_PLUGINS = ("/usr/lib/*/slurm-wlm", "/usr/lib/*/slurm", "/usr/lib64/slurm", "/usr/local/lib/slurm")
_KINDS = {"nfs": ("nfs", "nfs4"), "lustre": ("lustre",)}


def check(spec: ClusterSpec) -> None:
    """Refuse a cluster that this host cannot carry, before anything is touched.

    Raises:
        UsageError: ``cluster_needs``, with everything that is ``missing``.
    """
    missing = missing_pieces(spec)
    if missing:
        packages = sorted({package for _, package in missing if package})
        raise UsageError(
            f"this host cannot carry the cluster: {'; '.join(what for what, _ in missing)}",
            code="cluster_needs",
            hint=f"apt-get install --no-install-recommends {' '.join(packages)}" if packages else None,
            missing=[what for what, _ in missing],
        )


def missing_pieces(spec: ClusterSpec) -> list[tuple[str, str | None]]:
    """What is missing, in words, and the package that brings it (None where no package does)."""
    found: list[tuple[str, str | None]] = []
    if os.geteuid() != 0:
        found.append(("the server does not run as root, which Slurm's daemons need", None))
    programs = _ALWAYS | (_ACCOUNTING if spec.controller.accounting else {}) | (_REST if spec.controller.rest else {})
    found += [(f"no {name}", package) for name, package in programs.items() if not shutil.which(name, path=PATH)]
    if spec.controller.rest and not _plugin("auth_jwt.so"):
        found.append(("no JWT plugin of Slurm (auth_jwt.so)", "slurm-wlm-jwt-plugin"))
    if not _plugin("select_cons_tres.so"):
        found.append(("no plugins of Slurm (select_cons_tres.so)", "slurm-wlm-basic-plugins"))
    found += [(problem, None) for storage in spec.storage if (problem := _missing_storage(storage))]
    return found


def is_usable() -> StepwardError | None:
    """Why no local cluster with accounting and REST can be made here; None where it can. Tests ask this before they begin."""
    from stepward.clusters.reading import spec_of

    pool = {"id": "a", "max_nodes": 1, "shape": {"cpus": 1, "memory_mb": 64}}
    try:
        check(spec_of({"display_name": "a", "node_pools": [pool], "partitions": [{"id": "a", "node_pools": ["a"]}]}))
    except StepwardError as error:
        return error
    return None


def _plugin(name: str) -> bool:
    return any(glob.glob(f"{folder}/{name}") for folder in _PLUGINS)


def _missing_storage(storage: Storage) -> str | None:
    """The local provider mounts nothing: what a specification wants must be there."""
    if storage.kind == "local":
        return None if os.path.isdir(storage.mount) else f"no folder {storage.mount} (storage, kind local)"
    kind = _mounted_kind(storage.mount)
    fits = kind.startswith("fuse") if storage.kind == "fuse" else kind in _KINDS[storage.kind]
    return None if fits else f"{storage.mount} is no mount of kind {storage.kind}; mount it first"


def _mounted_kind(mount: str) -> str:
    with open("/proc/self/mounts") as file:
        kinds = [fields[2] for line in file if (fields := line.split())[1] == (mount.rstrip("/") or "/")]
    return kinds[-1] if kinds else ""
