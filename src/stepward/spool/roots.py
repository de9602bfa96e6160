"""Where the spool lives: a local folder that only this user can read.

A journal is a memory map; on a network file system a map may lose writes or kill the process, so such roots are passed
over, with one warning, for ``/var/tmp/stepward-<uid>``, then the temporary folder. The choice is the same in every
process of a host, so that writer and shipper meet.
"""

import os
import stat
import sys

_NETWORK = frozenset(
    {"nfs", "nfs4", "lustre", "cifs", "smb3", "smbfs", "ceph", "beegfs", "gpfs", "glusterfs", "afs", "9p"}
    | {"wekafs", "pvfs2", "orangefs", "panfs", "ocfs2", "gfs2", "ncpfs", "coda"}
)
_resolved: dict[str, str | None] = {}


def resolve(root: str) -> str | None:
    """The folder that is used for ``root``: itself where it will do, else the next best; None where none will do."""
    if root not in _resolved:
        _resolved[root] = _choose(root)
    return _resolved[root]


def default_root() -> str:
    """The spool where nothing else is said."""
    return f"/var/tmp/stepward-{os.getuid()}"


def _choose(root: str) -> str | None:
    default = default_root()
    given = root if root == default else os.path.realpath(root)
    temporary = f"{os.environ.get('TMPDIR') or '/tmp'}/stepward-{os.getuid()}"
    reasons: list[str] = []
    for candidate in dict.fromkeys((given, default, temporary)):
        reason = _unfit(candidate)
        if reason is None:
            if reasons:
                warn(f"{'; '.join(reasons)}; the spool is kept in {candidate}")
            return candidate
        reasons.append(f"{candidate} {reason}")
    warn(f"{'; '.join(reasons)}; nothing can be kept, all points are dropped")
    return None


def _unfit(folder: str) -> str | None:
    """Why ``folder`` cannot hold the spool; makes it (0700) where it is missing."""
    kind = file_system(folder)
    if is_network(kind):
        return f"is on a network file system ({kind})"
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        found = os.lstat(folder)
    except OSError as error:
        return f"cannot be made ({error.strerror})"
    if not stat.S_ISDIR(found.st_mode):
        return "is no folder"
    if found.st_uid != os.getuid():
        return f"belongs to another user ({found.st_uid})"
    return None if os.access(folder, os.W_OK | os.X_OK) else "is not writable"


def is_network(kind: str) -> bool:
    """Whether a type of file system lives elsewhere, or in a process that may stand still."""
    return kind in _NETWORK or kind.startswith("fuse.")


def file_system(path: str, mounts: str = "/proc/mounts") -> str:
    """Type of the file system that holds ``path``, which need not exist; "" where it cannot be told."""
    real = os.path.realpath(path)
    best, kind = "", ""
    try:
        with open(mounts, encoding="utf-8", errors="surrogateescape") as file:
            lines = file.read().splitlines()
    except OSError:
        return ""
    for line in lines:
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        point = _unescape(fields[1])
        # A later line mounts over an earlier one of the same point.
        if len(point) >= len(best) and (real == point or real.startswith(point.rstrip("/") + "/")):
            best, kind = point, fields[2]
    return kind


def _unescape(point: str) -> str:
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        point = point.replace(code, character)
    return point


def warn(message: str) -> None:
    """One line for the user; a closed stderr is no reason to fail."""
    try:
        print(f"stepward: {message}", file=sys.stderr, flush=True)
    except (OSError, ValueError, AttributeError):
        return
