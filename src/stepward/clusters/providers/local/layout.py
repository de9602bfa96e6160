"""Where everything of a local cluster lies: below its own folder, nothing elsewhere (but control groups, see ``cgroups``)."""

import os
import re

import msgspec

from stepward.errors import UsageError

_USABLE = re.compile(r"/[A-Za-z0-9/._+-]*")
LONGEST = 84
"""A socket's path may have 107 bytes, and ``/munge/munge.sock`` is below."""


class Layout(msgspec.Struct, frozen=True):
    """Paths of a cluster below ``folder``."""

    folder: str

    @property
    def conf(self) -> str:
        """What SLURM_CONF must be."""
        return f"{self.folder}/etc/slurm.conf"

    @property
    def munge_socket(self) -> str:
        """Socket of the cluster's own munged."""
        return f"{self.folder}/munge/munge.sock"

    @property
    def jwt_key(self) -> str:
        """Key that signs the tokens of the REST API."""
        return f"{self.folder}/etc/jwt_hs256.key"

    def path(self, *parts: str) -> str:
        """A path below the folder."""
        return "/".join((self.folder, *parts))

    def log(self, role: str) -> str:
        """Where the output of a daemon goes."""
        return self.path("log", f"{role}.out")

    def switch(self, node: str) -> str:
        """The file that says whether a node is switched on."""
        return self.path("power", node)

    def make(self, nodes: list[str]) -> None:
        """Make the folders; those of ``nodes`` too."""
        os.makedirs(self.folder, mode=0o755, exist_ok=True)
        for name, mode in _FOLDERS.items():
            os.makedirs(self.path(name), exist_ok=True)
            os.chmod(self.path(name), mode)
        for node in nodes:
            os.makedirs(self.path("spool", node), exist_ok=True)


_FOLDERS = {
    "etc": 0o755,
    "run": 0o755,
    "log": 0o755,
    "state": 0o700,
    "spool": 0o755,
    "dev": 0o755,
    "bin": 0o755,
    "power": 0o755,
    "munge": 0o711,
    "database": 0o700,
    "tmp": 0o700,
    "agents": 0o700,
}


def check_folder(folder: str) -> None:
    """Refuse a folder whose path Slurm's configuration or a socket cannot hold.

    Raises:
        UsageError: ``bad_cluster_folder``.
    """
    if not _USABLE.fullmatch(folder) or len(folder.encode()) > LONGEST:
        raise UsageError(
            f"a cluster cannot live in {folder}: Slurm takes paths of letters, digits and / . _ + - alone, and sockets "
            f"at most {LONGEST} bytes of them",
            code="bad_cluster_folder",
            hint="start the server with another folder: stepward up --data DIR",
        )
