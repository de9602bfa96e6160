"""The data folder: made private, owned by one process, never opened across formats or on a network file system.

``<data>/format`` holds the folder's format number, ``lock`` the owner's flock and pid, ``token`` the local user's secret.
"""

import fcntl
import os
import secrets
import stat

from stepward.errors import Conflict, IncompatibleVersion, UsageError

FORMAT = 1
_NETWORK = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "lustre", "glusterfs", "ceph", "beegfs", "gpfs", "9p", "afs", "fuse.sshfs"}
)


class DataFolder:
    """An opened data folder; the lock lives as long as this object is open.

    Args:
        force: accept a network file system.

    Raises:
        UsageError: ``data_unwritable``, ``network_data_folder``.
        IncompatibleVersion: ``newer_format``; nothing was touched.
        Conflict: ``data_locked`` with the holder's ``pid``.
    """

    def __init__(self, path: str, *, force: bool = False) -> None:
        self.path = os.path.abspath(path)
        if not force:
            _refuse_network(self.path)
        check_format(self.path)
        self._make()
        self._lock = self._take_lock()
        self._write_format()

    def token(self) -> str:
        """The secret of ``<data>/token``, made where there is none."""
        path = f"{self.path}/token"
        try:
            with open(path) as file:
                secret = file.read().strip()
        except FileNotFoundError:
            secret = ""
        if len(secret) < 16:
            secret = f"sw_{secrets.token_urlsafe(32)}"
            _write_private(path, secret + "\n")
        os.chmod(path, 0o600)
        return secret

    def close(self) -> None:
        """Let go of the folder."""
        os.close(self._lock)

    def _make(self) -> None:
        try:
            os.makedirs(self.path, mode=0o700, exist_ok=True)
            if os.stat(self.path).st_uid == os.getuid():
                os.chmod(self.path, 0o700)
        except OSError as error:
            raise _unwritable(self.path, error) from error
        if not os.access(self.path, os.W_OK | os.X_OK):
            raise _unwritable(self.path, PermissionError(13, "Permission denied"))

    def _take_lock(self) -> int:
        try:
            lock = os.open(f"{self.path}/lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise _unwritable(self.path, error) from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.read(lock, 32).decode(errors="replace").strip()
            os.close(lock)
            raise Conflict(
                f"{self.path} is in use by the server with pid {holder or 'unknown'}",
                code="data_locked",
                hint="stop that server, or name another folder by --data",
                pid=int(holder) if holder.isdigit() else None,
            ) from None
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
        return lock

    def _write_format(self) -> None:
        path = f"{self.path}/format"
        if not os.path.exists(path):
            try:
                _write_private(path, f"{FORMAT}\n")
            except OSError as error:
                self.close()
                raise _unwritable(self.path, error) from error


def check_format(folder: str) -> None:
    """Refuse a data folder or backup of a newer format, without touching it.

    Raises:
        IncompatibleVersion: ``newer_format``.
        UsageError: ``data_unwritable`` where it cannot even be read.
    """
    try:
        with open(f"{folder}/format", encoding="utf-8", errors="replace") as file:
            found = file.read().strip()
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise _unwritable(folder, error) from error
    if not found.isdigit() or int(found) > FORMAT:
        raise IncompatibleVersion(
            f"{folder} was written by a newer stepward (format {found!r}, this one knows {FORMAT})",
            code="newer_format",
            hint="upgrade stepward, or name another folder by --data",
        )


def file_system(path: str) -> str:
    """The type of the file system that ``path`` is, or will be, on; empty where it cannot be told."""
    path = os.path.abspath(path)
    while not os.path.exists(path):
        path = os.path.dirname(path)
    device = os.stat(path).st_dev
    try:
        with open("/proc/self/mountinfo") as file:
            lines = file.read().splitlines()
    except OSError:
        return ""
    for line in reversed(lines):
        head, _, tail = line.partition(" - ")
        major, minor = head.split()[2].split(":")
        if os.makedev(int(major), int(minor)) == device:
            return tail.split()[0]
    return ""


def _refuse_network(path: str) -> None:
    kind = file_system(path)
    if kind in _NETWORK:
        raise UsageError(
            f"{path} is on a network file system ({kind}), where databases lose data when the network fails",
            code="network_data_folder",
            hint="name a folder on a local disk by --data, or insist with --force",
        )


def _write_private(path: str, content: str) -> None:
    descriptor = os.open(f"{path}.partial", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, stat.S_IRUSR | stat.S_IWUSR)
    with os.fdopen(descriptor, "w") as file:
        file.write(content)
    os.replace(f"{path}.partial", path)


def _unwritable(path: str, error: OSError) -> UsageError:
    return UsageError(
        f"the data folder {path} cannot be used: {error.strerror}",
        code="data_unwritable",
        hint="name a folder of your own by --data",
    )
