"""One agent a node: a lock that names its holder, and what the holder leaves to the next one."""

import contextlib
import fcntl
import os
from collections.abc import Mapping

import msgspec

from stepward.errors import Conflict
from stepward.spool.writers import boot_id


class Kept(msgspec.Struct):
    """What is in the file: who holds it, and what the next agent of this boot goes on with.

    Attributes:
        bad: check -> since when it is bad, µs since the epoch.
        kernel: number of the newest kernel record that was read; None where none was.
    """

    pid: int = 0
    boot: str = ""
    bad: dict[str, int] = {}
    kernel: int | None = None


class NodeLock:
    """The lock of a node, held as long as this process lives.

    Attributes:
        kept: what an earlier agent of this boot has left; then what ``keep`` changed.

    Raises:
        Conflict: ``agent_running``, with the pid of the one that runs.
    """

    def __init__(self, path: str) -> None:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        kept = self._read()
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._descriptor)
            raise Conflict(
                f"an agent of this node runs already, as process {kept.pid}",
                code="agent_running",
                hint="one agent a node is enough; stop the other one first",
                pid=kept.pid,
            ) from None
        self.kept = kept if kept.boot == boot_id() else Kept()
        self.keep()

    def keep(self, *, bad: Mapping[str, int] | None = None, kernel: int | None = None) -> None:
        """Leave word of what is bad, or of how far the kernel's log was read; a failure costs a gap there, no more."""
        bad = self.kept.bad if bad is None else dict(bad)
        kernel = self.kept.kernel if kernel is None else kernel
        self.kept = Kept(pid=os.getpid(), boot=boot_id(), bad=dict(bad), kernel=kernel)
        data = msgspec.json.encode(self.kept)
        with contextlib.suppress(OSError):
            # Blanks are legal behind JSON: a reader never sees the torn tail of a longer text.
            os.pwrite(self._descriptor, data.ljust(os.fstat(self._descriptor).st_size), 0)

    def release(self) -> None:
        """Let another agent begin."""
        os.close(self._descriptor)

    def _read(self) -> Kept:
        try:
            return msgspec.json.decode(os.pread(self._descriptor, 1 << 16, 0), type=Kept)
        except (OSError, msgspec.MsgspecError):
            return Kept()
