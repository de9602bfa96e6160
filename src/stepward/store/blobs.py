"""Blobs: bytes under a key that never change, in a folder.

A blob is written whole or not at all (temporary name, sync, rename); the same key written again is the same bytes again.
Keys are relative paths; the ids in them passed `model.frames`, which lets none be a path.
"""

import contextlib
import errno
import os
import shutil

from stepward.errors import NotFound, StorageFull, Unavailable


class Blobs:
    """Blobs below the folder ``root``, which is made on the first write."""

    def __init__(self, root: str) -> None:
        self._root = root

    def put(self, key: str, data: bytes) -> None:
        """Keep ``data`` under ``key``; on disk when this returns.

        Raises:
            StorageFull: ``disk_full``.
            Unavailable: ``store_failed``.
        """
        path = self._path(key)
        partial = f"{path}.partial"
        try:
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            with open(partial, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.rename(partial, path)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.remove(partial)
            raise _failed(path, error) from error

    def get(self, key: str) -> bytes:
        """The bytes under ``key``.

        Raises:
            NotFound: ``no_such_blob``.
            Unavailable: ``store_failed``.
        """
        path = self._path(key)
        try:
            with open(path, "rb") as file:
                return file.read()
        except FileNotFoundError:
            raise NotFound(f"{path} is gone", code="no_such_blob") from None
        except OSError as error:
            raise _failed(path, error) from error

    def delete_below(self, prefix: str) -> None:
        """Forget every blob whose key begins with ``prefix/``."""
        shutil.rmtree(self._path(prefix), ignore_errors=True)

    def copy(self, key: str, to: "Blobs") -> None:
        """Copy a blob to another folder, as a link to the same bytes where the file system can.

        Raises:
            NotFound: ``no_such_blob``.
            StorageFull: ``disk_full``.
            Unavailable: ``store_failed``.
        """
        target = to._path(key)
        try:
            os.makedirs(os.path.dirname(target), mode=0o700, exist_ok=True)
            with contextlib.suppress(FileExistsError):
                os.link(self._path(key), target)
        except OSError:
            to.put(key, self.get(key))

    def _path(self, key: str) -> str:
        return f"{self._root}/{key}"


def _failed(path: str, error: OSError) -> StorageFull | Unavailable:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StorageFull(f"no space for {path}", code="disk_full", hint="make space; serving goes on meanwhile")
    return Unavailable(f"{path}: {error.strerror}", code="store_failed")
