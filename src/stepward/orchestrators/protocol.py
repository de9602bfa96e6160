"""The words between the orchestrators and those who ask them: facts that go in, an identity that comes out.

Nothing here reads the environment or /proc; ``local.proc`` does.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

Environ = Mapping[str, str]


class Ancestor(msgspec.Struct, frozen=True):
    """A process above this one.

    Attributes:
        pid: its process id.
        start: its start time, clock ticks since boot; with ``pid`` and the boot id it names the process for good.
        rank: ``RANK`` of its environment as it was started; None where it has none or it cannot be read.
    """

    pid: int
    start: int
    rank: str | None = None


class ProcFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What the kernel says about this process.

    Attributes:
        host: host name.
        boot: boot id of the host; empty where the system has none.
        pid, start: this process, as in ``Ancestor``.
        ancestors: nearest first; empty where they cannot be read.
    """

    host: str = ""
    boot: str = ""
    pid: int = 0
    start: int = 0
    ancestors: tuple[Ancestor, ...] = ()


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """Who a process is (ARCHITECTURE.md, Identity).

    Attributes:
        key: run key; None for a run that nothing names.
        run: run id, the same for every process with the same key.
        attempt: attempt key.
        rank: number of this process in the attempt.
        local_rank: its number on this node; None where no launcher says.
        world: number of ranks; None where no launcher says.
        node: host name as the scheduler knows it.
        job: the scheduler's object, for ``frames.Config.job``.
        alone: ``run`` and ``attempt`` are this process's guess: ranks elsewhere can't derive the same, so rank 0's hold.
    """

    key: str | None
    run: str
    attempt: str
    rank: int = 0
    local_rank: int | None = None
    world: int | None = None
    node: str = ""
    job: dict[str, Any] | None = None
    alone: bool = False


def integer(environ: Environ, name: str) -> int | None:
    """A variable that holds a number of 0 or more; None where it is absent or anything else."""
    text = environ.get(name, "").strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def first_integer(environ: Environ, *names: str) -> int | None:
    """The first of several variables that holds a number."""
    return next((n for n in (integer(environ, name) for name in names) if n is not None), None)
