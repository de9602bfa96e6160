"""Backups: a folder with the catalog, the points and the output of one moment, taken while serving; and putting one back.

The catalog is copied first: at start the server applies to it what the points store holds beyond, so the pieces need not
be of the same instant. Secrets are not copied; the catalog holds only hashes of tokens.
"""

import contextlib
import errno
import os
import shutil
from collections.abc import Callable
from datetime import UTC, datetime

from stepward.errors import Conflict, NotFound, StorageFull, UsageError
from stepward.model.resources import Backup, instant
from stepward.server.folder import FORMAT, DataFolder, check_format
from stepward.store.catalog import Database
from stepward.store.logs import LogStore
from stepward.store.points.protocol import PointsStore

_FULL = (errno.ENOSPC, errno.EDQUOT)
_PARTIAL = ".partial"
_OWN = frozenset({"token", "lock", "format", "backups", f"restoring{_PARTIAL}"})
"""Entries of a data folder that are not the data."""


def backup(
    data: str, path: str | None, *, catalog: Database, points: PointsStore, logs: LogStore, now: Callable[[], int]
) -> Backup:
    """Write a backup into ``path``, or a new folder below ``<data>/backups``; it appears whole or not at all.

    Raises:
        Conflict: ``backup_exists``.
        UsageError: ``bad_backup_path``.
        StorageFull: ``disk_full``; nothing is left of it.
    """
    created_at = now()
    target = path or f"{data}/backups/{datetime.fromtimestamp(created_at / 1e6, UTC):%Y%m%dT%H%M%S.%fZ}"
    if not os.path.isabs(target) or "\0" in target:
        raise UsageError(f"{target!r} is not an absolute path", code="bad_backup_path")
    partial = target + _PARTIAL
    for there in (target, partial):
        if os.path.lexists(there):
            raise Conflict(f"{there} exists", code="backup_exists", hint="name a new folder")
    try:
        os.makedirs(partial, mode=0o700)
    except FileExistsError:
        raise Conflict(f"{partial} is being written", code="backup_exists", hint="name a new folder") from None
    except OSError as error:
        raise _unwritable(target, error) from error
    try:
        catalog.backup(f"{partial}/catalog.db")
        logs.backup(partial)
        points.backup(partial)
        with open(f"{partial}/format", "w") as file:
            file.write(f"{FORMAT}\n")
        os.rename(partial, target)
    except OSError as error:
        shutil.rmtree(partial, ignore_errors=True)
        raise _unwritable(target, error) from error
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    return Backup(target, _size(target), instant(created_at))


def remove_unfinished(data: str) -> None:
    """Remove what a server that was killed has left of backups into its own folder."""
    with contextlib.suppress(FileNotFoundError):
        for entry in os.scandir(f"{data}/backups"):
            if entry.name.endswith(_PARTIAL) and entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, ignore_errors=True)


def restore(archive: str, data: str) -> None:
    """Put a backup back into a data folder that is new or empty; no server may run on it.

    Raises:
        NotFound: ``no_such_backup``.
        Conflict: ``data_not_empty``, ``data_locked``.
        IncompatibleVersion: ``newer_format``.
        UsageError: ``data_unwritable``.
        StorageFull: ``disk_full``.
    """
    if not os.path.isfile(f"{archive}/catalog.db") or archive.rstrip("/").endswith(_PARTIAL):
        raise NotFound(f"{archive} is no backup", code="no_such_backup", hint="a backup is a folder with a catalog.db")
    check_format(archive)
    kept = set(os.listdir(data)) - _OWN if os.path.isdir(data) else set()
    if kept:
        raise Conflict(
            f"{data} holds data already: {', '.join(sorted(kept))}",
            code="data_not_empty",
            hint="restore into a new folder, then start the server on it",
        )
    folder = DataFolder(data)
    staged = f"{folder.path}/restoring{_PARTIAL}"
    try:
        shutil.rmtree(staged, ignore_errors=True)
        shutil.copytree(archive, staged)
        for name in sorted(set(os.listdir(staged)) - _OWN):
            os.rename(f"{staged}/{name}", f"{folder.path}/{name}")
    except OSError as error:
        if error.errno in _FULL:
            raise StorageFull(f"no space to restore into {data}", code="disk_full", hint="make space") from error
        raise UsageError(f"cannot restore into {data}: {error}", code="data_unwritable") from error
    finally:
        shutil.rmtree(staged, ignore_errors=True)
        folder.close()


def _unwritable(target: str, error: OSError) -> StorageFull | UsageError:
    if error.errno in _FULL:
        return StorageFull(f"no space for a backup at {target}", code="disk_full", hint="name a folder on another disk")
    return UsageError(
        f"no backup at {target}: {error.strerror}", code="bad_backup_path", hint="name a folder that can be written"
    )


def _size(folder: str) -> int:
    return sum(os.path.getsize(os.path.join(at, name)) for at, _, names in os.walk(folder) for name in names)
