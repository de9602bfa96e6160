"""Writer folders: ``<root>/<run>/<writer>/`` with ``writer.json``, segments and the state of their delivery.

A *writer* is one process. It holds ``flock`` on its ``writer.json`` while it lives; where a file system has no locks,
pid, boot id and start time tell whether it lives. A writer whose run is not known yet is in ``<root>/pending/``.
"""

import contextlib
import fcntl
import os
import sys
import time
from typing import NamedTuple

import msgspec

from stepward.model.frames import Source

PENDING = "pending"
_META = "writer.json"
_STALE_S = 60.0


class WriterMeta(msgspec.Struct, frozen=True, kw_only=True):
    """Who writes a journal; ``<writer folder>/writer.json``.

    Attributes:
        project, run: where its frames belong; ``run`` is None until it is known.
        writer: ULID.
        source: as it is put on frames; a late rank replaces it.
        created_at: µs since the epoch.
        key: run key that ``run`` was or will be derived from, where there is one.
        started: start time of the process in clock ticks since boot, so that a pid can be trusted; 0 = not known.
        closed: nothing more will be written, though the process lives.
    """

    project: str
    run: str | None
    writer: str
    source: Source
    created_at: int
    key: str | None = None
    started: int = 0
    closed: bool = False


class Delivered(NamedTuple):
    """State of a writer's delivery: positions that the server acknowledged and that were ever sent."""

    acked: int
    sent: int


class Segment(NamedTuple):
    """A file of the journal: positions ``[start, start + size)``."""

    start: int
    size: int
    path: str

    @property
    def end(self) -> int:
        """Position behind the segment."""
        return self.start + self.size


def write_meta(folder: str, meta: WriterMeta) -> None:
    """Rewrite ``writer.json`` in place: the lock of its writer is on the open file, a rename would lose it."""
    data = msgspec.json.format(msgspec.json.encode(meta))
    fd = os.open(f"{folder}/{_META}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        # Blanks are legal behind JSON: a shorter text never leaves a torn tail of the longer one before it.
        size = os.fstat(fd).st_size
        os.pwrite(fd, data.ljust(size), 0)
    finally:
        os.close(fd)


def read_meta(folder: str) -> WriterMeta | None:
    """The writer's description; None where it is missing or not readable."""
    try:
        with open(f"{folder}/{_META}", "rb") as file:
            return msgspec.json.decode(file.read(), type=WriterMeta)
    except (OSError, msgspec.MsgspecError):
        return None


def hold(folder: str) -> int | None:
    """Lock ``writer.json`` for the life of this process; the descriptor, or None where there are no locks."""
    try:
        fd = os.open(f"{folder}/{_META}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        return None
    return fd


def finished(folder: str, meta: WriterMeta) -> bool:
    """Whether the writer will write no more: closed, or its process is gone."""
    if meta.closed:
        return True
    try:
        fd = os.open(f"{folder}/{_META}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(fd)
    source = meta.source
    return source.boot != boot_id() or started(source.pid) != meta.started or meta.started == 0


def segments(folder: str) -> list[Segment]:
    """The writer's segments in order; [] where there are none."""
    found = []
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            name = entry.name
            if name.endswith(".seg") and name[:-4].isdigit():
                with contextlib.suppress(OSError):
                    found.append(Segment(int(name[:-4]), entry.stat().st_size, entry.path))
    return sorted(segment for segment in found if segment.size)


def folders(parent: str) -> list[str]:
    """Names of the writers in a run's folder (or of the runs in a root), in order."""
    try:
        with os.scandir(parent) as entries:
            return sorted(e.name for e in entries if not e.name.startswith(".") and e.is_dir(follow_symlinks=False))
    except OSError:
        return []


def read_delivered(folder: str) -> Delivered | None:
    """What was delivered; None where nothing is known (the server then says what it has).

    The file is not synced to disk: what an earlier boot left may be older than what the server has.
    """
    try:
        with open(f"{folder}/acked") as file:
            acked, sent, boot = file.read(128).split(" ")
            return Delivered(int(acked), int(sent)) if boot == f"{boot_id()}\n" else None
    except (OSError, ValueError):
        return None


def write_delivered(folder: str, state: Delivered) -> None:
    """Keep the state of delivery; a failure costs a second transmission, never data."""
    with contextlib.suppress(OSError):
        fd = os.open(f"{folder}/acked", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.pwrite(fd, f"{state.acked:020d} {state.sent:020d} {boot_id()}\n".encode(), 0)
        finally:
            os.close(fd)


def sync_to_disk(folder: str, since: int) -> int:
    """Force the segments from position ``since`` on to the disk; where the newest begins (the next ``since``)."""
    flush = getattr(os, "fdatasync", os.fsync)
    for segment in segments(folder):
        if segment.end > since:
            with contextlib.suppress(OSError):
                fd = os.open(segment.path, os.O_RDONLY | os.O_CLOEXEC)
                try:
                    flush(fd)
                finally:
                    os.close(fd)
            since = segment.start
    return since


def lock_run(folder: str) -> int | None:
    """Become the one who ships the run's folder; the descriptor that holds the lock, or None while another does."""
    path = f"{folder}/lock"
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # The file may have been removed between open and lock (remove_run): a lock on it would bind nobody.
        if os.stat(path).st_ino == os.fstat(fd).st_ino:
            return fd
    except OSError:
        pass
    os.close(fd)
    return None


def remove_writer(folder: str, *, refused: bool = False) -> None:
    """Remove a writer's folder; frames that a server refused and that were kept aside stay with it, but for ``refused``."""
    with contextlib.suppress(OSError):
        kept = not refused and any(name.endswith(".refused") for name in os.listdir(folder))
        for name in os.listdir(folder):
            if not kept or name.endswith(".seg"):
                os.unlink(f"{folder}/{name}")
        if not kept:
            os.rmdir(folder)


def remove_run(folder: str) -> None:
    """Remove a run's folder without writers; only the holder of its lock may."""
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            # A process that was killed while it made its folder; whoever lives needs no minute for that.
            if name.startswith(".") and time.time() - os.stat(f"{folder}/{name}").st_mtime > _STALE_S:
                remove_writer(f"{folder}/{name}")
        if os.listdir(folder) == ["lock"]:
            os.unlink(f"{folder}/lock")
            os.rmdir(folder)


def boot_id() -> str:
    """Identity of this boot of the host; "" where the system does not tell."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip()
    except OSError:
        return ""


def started(pid: int) -> int:
    """Start time of a process in clock ticks since boot; 0 when there is none, or no /proc (macOS: 1 while it lives).

    A zombie is none: it waits for its parent alone, and writes no more.
    """
    if sys.platform != "linux":
        try:
            os.kill(pid, 0)
        except OSError:
            return 0
        return 1
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        return 0 if fields[0] in (b"Z", b"X") else int(fields[19])
    except (OSError, ValueError, IndexError):
        return 0


def make_folders(*folders: str) -> None:
    """Make private folders, parents first; those that are there stay as they are."""
    for folder in folders:
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, 0o700)


def move(before: str, after: str) -> None:
    """Move a writer's folder into another run's, which is made where it is missing."""
    if before != after:
        make_folders(os.path.dirname(after))
        os.rename(before, after)
