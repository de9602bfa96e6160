"""Which bytes of a job's output files are new. The file is the buffer: nothing is read that cannot be kept.

A job names its output file, so that the name alone proves nothing: only a regular file that belongs to the job's user is
read, however privileged the watcher is. Files are open while they are read and not longer.
"""

import os
import stat
from typing import NamedTuple

from stepward.agent.watcher.known import Job, Launch, Output
from stepward.model.frames import Event, LogChunk
from stepward.orchestrators.slurm.records import SlurmJob

READ_BYTES = 256 << 10
"""Bytes that are taken of one file at once; a frame's worth of compressed text."""
FOLLOW_AFTER_US = 10 * 1_000_000
"""A wrapper or an SDK inside that sends the output itself has been heard by then."""
LAST_LOOK_US = 5 * 1_000_000
"""After a job's end its file may still grow for a moment, and file systems show it late."""


class News(NamedTuple):
    """What a file has given: new bytes, or that it cannot be read."""

    chunk: LogChunk | None = None
    event: Event | None = None
    done: bool = False


def files_of(record: SlurmJob) -> list[Output]:
    """The output files of a job, each once."""
    paths = dict.fromkeys(path for path in (record.stdout, record.stderr) if path.startswith("/"))
    return [Output(path=path, stream=path) for path in paths if path != "/dev/null"]


def due(job: Job, launch: Launch, now: int) -> bool:
    """Whether a launch's files may be looked at."""
    if job.covered or launch.started_at is None:
        return False
    return bool(launch.end) or now >= launch.started_at + FOLLOW_AFTER_US


def begin(job: Job, launch: Launch, output: Output, *, append: bool) -> bool:
    """Make ready to read a file; False while an earlier launch's part of it is not read to its end.

    Args:
        append: a requeued job writes behind what it wrote before.
    """
    if output.begun:
        return True
    earlier = [
        one
        for number, files in job.outputs.items()
        for one in files
        if int(number) < launch.number and one.path == output.path
    ]
    if not all(one.done for one in earlier):
        return False
    output.begun = True
    if append and earlier:
        # The stream of a launch begins at 0, wherever in the file its part does.
        output.offset = max(one.offset for one in earlier)
        output.base = -output.offset
    return True


def follow(job: Job, launch: Launch, output: Output, now: int) -> News:
    """The next bytes of a file; sets ``output.done`` at its end."""
    over = launch.ended_at is not None and now >= launch.ended_at + LAST_LOOK_US
    try:
        descriptor = os.open(output.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except FileNotFoundError:
        # It appears when the job begins to write, on another node's view of the file system later than here.
        output.done = over
        return News(done=over)
    except OSError as error:
        return _unreadable(launch, output, now, error.strerror or str(error))
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            return _unreadable(launch, output, now, "it is no regular file")
        if job.uid is None or found.st_uid != job.uid:
            return _unreadable(launch, output, now, "it does not belong to the job's user")
        if found.st_size < output.offset:
            output.base, output.offset = output.base + output.offset, 0
        data = os.pread(descriptor, READ_BYTES, output.offset)
    except OSError as error:
        return _unreadable(launch, output, now, error.strerror or str(error))
    finally:
        os.close(descriptor)
    if not data:
        output.done = over
        return News(done=over)
    at = output.base + output.offset
    output.offset += len(data)
    return News(LogChunk(stream=output.stream, offset=at, data=data, marks=[(0, now)]))


def covered_event(launch: Launch, now: int) -> Event:
    """Says that the output comes from inside, and what that leaves out."""
    return Event(
        id=f"slurm-output-{launch.number}",
        type="output_from_inside",
        started_at=now,
        ended_at=now,
        title="the program's own output is shown; the job's output file is not followed",
        data={},
    )


def _unreadable(launch: Launch, output: Output, now: int, why: str) -> News:
    output.done = True
    event = Event(
        id=f"slurm-unreadable-{launch.number}-{output.path}",
        type="output_unreadable",
        started_at=now,
        ended_at=now,
        title=f"{output.path} is not followed: {why}",
        data={"path": output.path, "why": why},
    )
    return News(event=event, done=True)
