"""The end of a job's output file, read with more rights than its owner may have: only what is surely the job's own.

The path is the owner's choice, so that ``--output=/etc/shadow`` must not show that file to anybody: it has to be a regular
file that belongs to the job's user, reached without a link in its last part.
"""

import errno
import os
import stat
from typing import NamedTuple

from stepward.errors import NotFound, PermissionDenied

MAX_BYTES = 512 << 10
"""Bytes that are read from the end."""


class Tail(NamedTuple):
    """The last lines of a file, and how many bytes are before them."""

    lines: list[bytes]
    skipped_bytes: int


def tail(path: str, uid: int | None, count: int) -> Tail:
    """The last ``count`` lines of a job's output.

    Args:
        uid: the job's user.

    Raises:
        NotFound: ``no_output``.
        PermissionDenied: ``output_refused``.
    """
    descriptor = _opened(path)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise _refused(path, "it is no regular file")
        if uid is None or found.st_uid != uid:
            raise _refused(path, "it does not belong to the job's user")
        start = max(0, found.st_size - MAX_BYTES)
        data = os.pread(descriptor, MAX_BYTES, start)
    finally:
        os.close(descriptor)
    lines = data.splitlines(keepends=True)
    if start and len(lines) > 1:
        del lines[0]  # its beginning was not read
    shown = lines[-count:] if count else []
    skipped = start + len(data) - sum(map(len, shown))
    return Tail([line.rstrip(b"\r\n") for line in shown], skipped)


def _opened(path: str) -> int:
    if not os.path.isabs(path):
        raise NotFound(
            "Slurm does not say, or no longer says, where the job writes",
            code="no_output",
            hint="it forgets minutes after the end (MinJobAge); output that a run keeps stays",
        )
    try:
        return os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise _refused(path, "it is a link") from None
        if error.errno in (errno.EACCES, errno.EPERM):
            raise _refused(path, "this server may not read it") from None
        raise NotFound(
            f"there is no output {path}: {error.strerror}",
            code="no_output",
            hint="the job has not begun, or writes to a file system that this host does not see",
        ) from None


def _refused(path: str, why: str) -> PermissionDenied:
    return PermissionDenied(f"{path} is not shown: {why}", code="output_refused", hint="docs/jobs.md says what is")
