"""Segment files as their writer sees them: allocated, mapped, and closed where the writing was interrupted."""

import contextlib
import mmap
import os
from zlib import crc32

from stepward.spool import writers
from stepward.spool.records import OVERHEAD, U32, void_crc


def spool_bytes(root: str) -> int:
    """Bytes of all segments under a spool root."""
    runs = [f"{root}/{run}" for run in writers.folders(root)]
    all_writers = [f"{run}/{writer}" for run in runs for writer in writers.folders(run)]
    return sum(segment.size for folder in all_writers for segment in writers.segments(folder))


def allocate(path: str, size: int) -> memoryview:
    """A new segment, its blocks allocated before it is mapped: a map over a hole of a full disk kills the process."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(fd, 0, size)
        else:
            os.pwrite(fd, bytes(size), 0)
        return memoryview(mmap.mmap(fd, size))
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(path)
        raise
    finally:
        os.close(fd)


def close_record(view: memoryview, at: int, end: int) -> None:
    """Publish the record at [at, end), whose writing was interrupted: as it is where it is whole, else as void."""
    crc = crc32(view[at + 4 : end - 4])
    if U32.unpack_from(view, end - 4)[0] != crc:
        U32.pack_into(view, end - 4, void_crc(crc))
    U32.pack_into(view, at, end - at - OVERHEAD)
