"""Starts one process in a session of its own, with nothing of the wrapper's in it.

``posix_spawn`` and not ``fork``: the wrapper has threads. A session of its own keeps the terminal's signals away from
the ranks (the wrapper forwards them, once) and lets rank 0 read the terminal without job control. There is no
parent-death signal: a wrapper that dies takes nobody with it.
"""

import errno
import os
import signal
from collections.abc import Iterable, Mapping, Sequence

from stepward.errors import CommandFailed

NOT_FOUND, NOT_EXECUTABLE = 127, 126
"""Exit codes by which shells tell that a command did not start."""


def spawn(
    command: Sequence[str],
    environ: Mapping[str, str],
    *,
    stdin: int | None,
    stdout: int,
    stderr: int,
    mask: Iterable[signal.Signals | int] = (),
    keep: Sequence[int] = (),
) -> int:
    """Start ``command`` and return its pid, which is its process group and session too.

    Args:
        stdin: descriptor to read from; None for nothing.
        mask: signals that it begins with blocked, as they were before the wrapper blocked its own.
        keep: descriptors that it inherits under the numbers 3, 4, ...

    Raises:
        CommandFailed: ``command_not_started``; ``exit_code`` is what a shell would end with.
        OSError: the system has no room for another process.
    """
    actions: list[tuple[int, ...] | tuple[int, int, str, int, int]] = []
    if stdin is None:
        actions.append((os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0))
    elif stdin != 0:
        actions.append((os.POSIX_SPAWN_DUP2, stdin, 0))
    actions += [(os.POSIX_SPAWN_DUP2, stdout, 1), (os.POSIX_SPAWN_DUP2, stderr, 2)]
    actions += [(os.POSIX_SPAWN_DUP2, descriptor, 3 + n) for n, descriptor in enumerate(keep)]
    # Python ignores these for itself; a program expects the default.
    defaults = [signal.SIGPIPE, signal.SIGXFSZ]
    try:
        return os.posix_spawnp(
            command[0],
            list(command),
            environ,
            file_actions=actions,
            setsid=True,
            setsigmask=list(mask),
            setsigdef=defaults,
        )
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.ENOMEM):
            raise
        code = NOT_EXECUTABLE if isinstance(error, PermissionError) else NOT_FOUND
        raise CommandFailed(
            f"{command[0]}: {error.strerror}", code="command_not_started", exit_code=code, argv=list(command)
        ) from None


def no_room(started: int, wanted: int, error: OSError) -> CommandFailed:
    """The system has no process or descriptor left for one more rank."""
    return CommandFailed(
        f"only {started} of {wanted} ranks could be started: {error.strerror}",
        code="command_not_started",
        hint="fewer --ranks, or more by `ulimit -n` and `ulimit -u`",
        exit_code=NOT_EXECUTABLE,
    )
