"""What is remembered of a cluster, in its own folder: ``cluster.json``, and its operations beside it.

Files and not tables of the catalog, because the record is about processes and files of this host: it must be readable by the
programs that Slurm calls, by a library without a server, and must not come back with a restored catalog when the cluster
itself does not. Each write is atomic; whoever changes a cluster holds the lock of its folder.
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from typing import TypeVar

import msgspec

from stepward.clusters.spec import ClusterSpec
from stepward.errors import Conflict, NotFound, StorageFull, Unavailable
from stepward.model.clusters import ClusterState, Operation

T = TypeVar("T")
RECORD, LOCK = "cluster.json", "lock"
"""Files in a cluster's folder: what is remembered of it, and what is held while it changes."""
_LONGEST_NAME = 63
"""Beyond every name that is given here, and short enough for a file's in any encoding."""


class Ports(msgspec.Struct, kw_only=True):
    """TCP ports on loopback, remembered for the cluster's life."""

    controller: int
    accounting: int
    database: int
    rest: int
    nodes: dict[str, int] = {}


class ClusterRecord(msgspec.Struct, kw_only=True):
    """A cluster as it was asked for, and how far that is true.

    Attributes:
        name: its name on this server.
        slurm_name: Slurm's ClusterName, unique for good: the run keys of its jobs hold it.
        spec: what was asked for last.
        applied: what the running cluster was made from; None until it was ready once.
        operation: id of the newest operation.
        created_at: µs since the epoch.
    """

    name: str
    slurm_name: str
    spec: ClusterSpec
    applied: ClusterSpec | None = None
    state: ClusterState = "creating"
    ports: Ports | None = None
    operation: str | None = None
    created_at: int = 0


class Records:
    """The records of a server's clusters.

    Args:
        root: folder of the clusters, one folder each.
        operations: folder of the operations' records; they outlive their cluster.
    """

    KEPT = 500
    """Operations that are kept; the oldest go first."""

    def __init__(self, root: str, operations: str) -> None:
        self.root = root
        self._operations = operations

    def folder(self, name: str) -> str:
        """The folder of a cluster; it need not exist."""
        return f"{self.root}/{name}"

    def names(self) -> list[str]:
        """The clusters that there are, half-made ones too."""
        try:
            entries = [entry.name for entry in os.scandir(self.root) if entry.is_dir()]
        except FileNotFoundError:
            return []
        return sorted(name for name in entries if os.path.exists(f"{self.root}/{name}/{RECORD}"))

    def get(self, name: str) -> ClusterRecord:
        """A cluster.

        Raises:
            NotFound: ``no_such_cluster``.
            Unavailable: ``cluster_record_damaged``.
        """
        found = _read(f"{self.folder(name)}/{RECORD}", ClusterRecord) if _plain(name) else None
        if found is None:
            raise _unknown(name)
        return found

    def find(self, named: str) -> ClusterRecord:
        """A cluster by its name on this server, or by Slurm's ClusterName, as runs and nodes know it. Raises as ``get``."""
        for name in self.names() if "_" in named else []:
            record = self.get(name)
            if record.slurm_name == named:
                return record
        return self.get(named)

    def put(self, record: ClusterRecord) -> None:
        """Remember a cluster as it is now."""
        write_atomically(f"{self.folder(record.name)}/{RECORD}", msgspec.json.encode(record))

    def operation(self, id: str) -> Operation:
        """An operation.

        Raises:
            NotFound: ``no_such_operation``.
        """
        found = _read(f"{self._operations}/{id}.json", Operation) if _plain(id) else None
        if found is None:
            raise NotFound(f"there is no operation {id!r}", code="no_such_operation")
        return found

    def put_operation(self, operation: Operation) -> None:
        """Remember an operation as it is now."""
        os.makedirs(self._operations, mode=0o700, exist_ok=True)
        write_atomically(f"{self._operations}/{operation.id}.json", msgspec.json.encode(operation))

    def operations(self) -> list[Operation]:
        """The kept operations, newest first; older ones are forgotten."""
        try:
            names = sorted((entry.name for entry in os.scandir(self._operations)), reverse=True)
        except FileNotFoundError:
            return []
        for name in names[self.KEPT :]:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"{self._operations}/{name}")
        found = [
            _read(f"{self._operations}/{name}", Operation) for name in names[: self.KEPT] if name.endswith(".json")
        ]
        return [operation for operation in found if operation is not None]

    @contextlib.contextmanager
    def locked(self, name: str, *, make: bool = False) -> Iterator[None]:
        """Hold a cluster; with ``make`` its folder is made where there is none.

        Raises:
            Conflict: ``cluster_busy``: somebody else holds it.
            NotFound: ``no_such_cluster``.
        """
        folder = self.folder(name)
        if make:
            os.makedirs(folder, mode=0o755, exist_ok=True)
        path = f"{folder}/{LOCK}"
        try:
            lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:
            raise _unknown(name) from None
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise busy(name) from None
            if not _same_file(lock, path):
                raise busy(name)  # it was ended between the opening and the locking
            yield
        finally:
            os.close(lock)


def _unknown(name: str) -> NotFound:
    return NotFound(f"there is no cluster {name!r}", code="no_such_cluster", hint="`stepward cluster list` lists them")


def _same_file(descriptor: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def busy(name: str) -> Conflict:
    """The error of a second operation on a cluster."""
    return Conflict(
        f"another operation on cluster {name!r} goes on",
        code="cluster_busy",
        hint="`stepward cluster get` shows it; try again when it has ended",
    )


def write_atomically(path: str, content: bytes, mode: int = 0o600) -> None:
    """Replace a file by new content that is on the disk before the name is.

    Raises:
        StorageFull: ``disk_full``.
    """
    try:
        descriptor = os.open(f"{path}.partial", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(f"{path}.partial", path)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(f"{path}.partial")
        raise StorageFull(
            f"{path} could not be written: {error.strerror}", code="disk_full", hint="free space on its disk"
        ) from error


def _plain(name: str) -> bool:
    return len(name) <= _LONGEST_NAME and "/" not in name and "\0" not in name and name not in ("", ".", "..")


def _read(path: str, kind: type[T]) -> T | None:
    try:
        with open(path, "rb") as file:
            return msgspec.json.decode(file.read(), type=kind)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except msgspec.MsgspecError as error:
        raise Unavailable(
            f"{path} is damaged: {error}", code="cluster_record_damaged", hint="mend it, or remove the cluster's folder"
        ) from None
