"""Checkpoints on disk: a folder each, there whole or not at all, with a manifest that says what must be in it.

Layout below the root, which all ranks share::

    step-000000000500/            complete: the user's files and manifest.json
    damaged-step-000000000600.…   not what its manifest says: put aside at a resume
    .step-000000000750.ab12cd34   being written by the attempt with that mark; a dead attempt's is swept away

Ranks write into one stage; each leaves a mark when its part is done, and rank 0 then lists and hashes the files, syncs
them and renames the stage. Only what the manifest holds, with its size and SHA-256, is ever resumed from.
"""

import os
import time
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from stepward.errors import Unavailable

SCHEMA = "stepward.checkpoint/1"
MANIFEST = "manifest.json"
_DONE = ".rank-"
_CHUNK = 1 << 20


class FileEntry(msgspec.Struct, frozen=True):
    """A file of a checkpoint; ``path`` is below its folder."""

    path: str
    bytes: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What a complete checkpoint holds.

    Attributes:
        step: last optimizer step that is in it.
        world: number of ranks that wrote it.
        created_at: when it was complete, µs since the epoch.
    """

    schema: str
    step: int
    world: int
    run: str
    attempt: str
    created_at: int
    files: list[FileEntry]


class Damage(NamedTuple):
    """A checkpoint that cannot be resumed from, and why."""

    step: int
    path: str
    why: str


class CheckpointFolder:
    """The checkpoints of one run.

    Args:
        root: folder that all ranks share.
        run, attempt: whose they are.
        keep: complete ones that stay.
    """

    def __init__(self, root: str, *, run: str, attempt: str, keep: int) -> None:
        # Imported on use: only runs that checkpoint pay for it.
        from hashlib import sha256

        self.root, self.keep = root, keep
        self.mark = sha256(attempt.encode(errors="replace")).hexdigest()[:8]
        self._run, self._attempt = run, attempt

    def path(self, step: int) -> str:
        """Where the complete checkpoint of ``step`` lies."""
        return f"{self.root}/step-{step:012d}"

    def stage(self, step: int) -> str:
        """The folder into which this attempt writes its checkpoint of ``step``; made if need be."""
        path = f"{self.root}/.step-{step:012d}.{self.mark}"
        os.makedirs(path, exist_ok=True)
        return path

    def part_done(self, step: int, rank: int) -> None:
        """This rank has written its part."""
        with open(f"{self.stage(step)}/{_DONE}{rank}", "wb"):
            pass

    def parts_missing(self, step: int, world: int) -> list[int]:
        """Ranks whose part is not there yet."""
        stage = self.stage(step)
        return [rank for rank in range(world) if not os.path.exists(f"{stage}/{_DONE}{rank}")]

    def complete(self, step: int, world: int) -> Manifest:
        """Make the stage of ``step`` a checkpoint, and let older ones go.

        Raises:
            OSError: the storage failed; the stage stays and nothing else has changed.
        """
        stage = self.stage(step)
        for rank in range(world):
            os.unlink(f"{stage}/{_DONE}{rank}")
        manifest = Manifest(
            schema=SCHEMA,
            step=step,
            world=world,
            run=self._run,
            attempt=self._attempt,
            created_at=time.time_ns() // 1000,
            files=[_entry(stage, path, sync=True) for path in sorted(_files(stage))],
        )
        _write_synced(f"{stage}/{MANIFEST}", msgspec.json.encode(manifest))
        _sync_folder(stage)
        self._put_in_place(stage, self.path(step))
        self._prune()
        return manifest

    def steps(self) -> list[int]:
        """Steps that have a complete checkpoint, by its name, the newest first."""
        try:
            names = os.listdir(self.root)
        except FileNotFoundError:
            return []
        return sorted(
            (int(name[5:]) for name in names if name.startswith("step-") and name[5:].isdigit()), reverse=True
        )

    def verify(self, step: int) -> Damage | None:
        """Read a checkpoint whole; None where every file is as the manifest says."""
        path = self.path(step)
        try:
            with open(f"{path}/{MANIFEST}", "rb") as file:
                manifest = msgspec.json.decode(file.read(), type=Manifest)
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
            return Damage(step, path, f"{MANIFEST}: {error}")
        if manifest.schema != SCHEMA or manifest.step != step:
            return Damage(step, path, f"{MANIFEST} is of {manifest.schema}, step {manifest.step}")
        for entry in manifest.files:
            try:
                found = _entry(path, entry.path, expected=entry.bytes)
            except OSError as error:
                return Damage(step, path, f"{entry.path}: {error.strerror or error}")
            if found != entry:
                size = (
                    f"{found.bytes} bytes, not {entry.bytes}"
                    if found.bytes != entry.bytes
                    else "its content has changed"
                )
                return Damage(step, path, f"{entry.path}: {size}")
        return None

    def put_aside(self, step: int) -> str:
        """Rename a damaged checkpoint, so that it counts no more but can be looked at; returns where it lies."""
        aside = f"{self.root}/damaged-{os.path.basename(self.path(step))}.{self.mark}"
        try:
            os.rename(self.path(step), aside)
        except OSError:  # read-only, or gone
            return self.path(step)
        return aside

    def sweep(self) -> None:
        """Remove what attempts before this one have left unfinished."""
        with os.scandir(self.root) as entries:
            for entry in entries:
                if entry.name.startswith((".step-", ".stop.", ".resume.")) and self.mark not in entry.name.split("."):
                    _remove(entry.path)

    def read_note(self, name: str) -> bytes | None:
        """A note that a rank of this attempt has left for the others."""
        try:
            with open(self._note(name), "rb") as file:
                return file.read() or None
        except FileNotFoundError:
            return None

    def leave_note(self, name: str, content: bytes) -> bytes:
        """Leave a note unless there is one; returns the one that stands."""
        os.makedirs(self.root, exist_ok=True)
        draft = f"{self._note(name)}.{os.getpid()}"
        _write_synced(draft, content)
        try:
            # link() fails where the name exists, on network file systems too: the first note stands, whole.
            os.link(draft, self._note(name))
        except FileExistsError:
            return self.read_note(name) or content
        finally:
            os.unlink(draft)
        return content

    def take_back(self, name: str) -> None:
        """Remove a note that may still lie there."""
        _remove(self._note(name))

    def _note(self, name: str) -> str:
        return f"{self.root}/.{name}.{self.mark}"

    def _put_in_place(self, stage: str, path: str) -> None:
        replaced = f"{stage}.replaced"
        if os.path.exists(path):  # damaged, and computed again
            os.rename(path, replaced)
        os.rename(stage, path)
        _sync_folder(self.root)
        _remove(replaced)

    def _prune(self) -> None:
        for step in self.steps()[self.keep :]:
            _remove(self.path(step))


def check_root(root: str) -> None:
    """Make the folder of checkpoints.

    Raises:
        Unavailable: ``checkpoint_folder``: it cannot be written.
    """
    try:
        os.makedirs(root, exist_ok=True)
        probe = f"{root}/.probe.{os.getpid()}"
        with open(probe, "wb"):
            pass
        os.unlink(probe)
    except OSError as error:
        raise Unavailable(
            f"checkpoints cannot be written to {root}: {error.strerror or error}",
            code="checkpoint_folder",
            hint="name a folder that all ranks share and may write: folder=...",
        ) from error


def _files(folder: str) -> Iterator[str]:
    """Paths of all files below a folder, relative to it."""
    for where, _, names in os.walk(folder):
        for name in names:
            yield os.path.relpath(f"{where}/{name}", folder)


def _entry(folder: str, path: str, *, sync: bool = False, expected: int | None = None) -> FileEntry:
    """Size and digest of a file; where the size is not the ``expected`` one, its content is not read."""
    from hashlib import sha256

    digest = sha256()
    with open(f"{folder}/{path}", "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if expected in (None, size):
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
        if sync:
            os.fsync(file.fileno())
    return FileEntry(path, size, digest.hexdigest())


def _write_synced(path: str, content: bytes) -> None:
    with open(path, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove(path: str) -> None:
    """Remove a file or a folder, as far as it goes: what stays only takes space."""
    from shutil import rmtree

    if os.path.isdir(path):
        rmtree(path, ignore_errors=True)
    else:
        try:
            os.unlink(path)
        except OSError:
            return
