"""What befalls the demo's run: which fault, on which rank, at which step, and the striking itself.

``plan`` chooses from a seed; ``stage`` gives what only the host can (a small disk, a memory limit); the trainer calls the
hooks of an ``Ordeal``, which does to its own process what a dying machine would. The run is not told: the plan and the
record of the strike are two local files of the demo's folder, and only the story reads them, at its end.
"""

import os
import random
import resource
import signal
import time
from collections.abc import Iterator
from enum import StrEnum

import msgspec

from stepward.demo.models import Vector
from stepward.demo.text import Batch

PLAN_VARIABLE = "STEPWARD_DEMO_PLAN"
"""Environment variable that gives a trainer the path of its plan."""

_LOADER_DELAY_S, _LOADER_SLOW_STEPS = 0.4, 35
_LEAK_BYTES = 64 << 20
_HEADROOM_BYTES = 256 << 20


class Kind(StrEnum):
    """The faults; a seed picks number ``seed % 6``."""

    KILLED = "killed"
    """SIGKILL, as by an impatient operator or a failing host."""
    LOADER = "loader"
    """Every batch takes longer, then none comes: the loader's time-out ends the rank."""
    NAN = "nan"
    """One weight of one rank becomes NaN, as by a flipped bit; the all-reduce spreads it."""
    STOPPED = "stopped"
    """SIGSTOP: the rank hangs, the others wait, a watchdog kills it later."""
    DISK = "disk"
    """The checkpoint's disk is filled by somebody else's file."""
    MEMORY = "memory"
    """The rank leaks until its memory limit strikes."""


class Plan(msgspec.Struct, frozen=True):
    """A fault to come.

    Attributes:
        by: what stands for it: ``signal``, ``tmpfs``, ``cgroup``; ``rlimit`` where the host has no right to those.
    """

    kind: Kind
    rank: int
    step: int
    by: str


class Strike(msgspec.Struct, frozen=True):
    """A fault that came: the process that met it, at which step, when (s since the epoch)."""

    pid: int
    rank: int
    step: int
    at: float


def plan(seed: int, *, steps: int, save_every: int, ranks: int, by: dict[Kind, str]) -> Plan:
    """The fault of a seed: in the middle of the run, after the first checkpoint and not on one."""
    kind = list(Kind)[seed % len(Kind)]
    dice = random.Random(seed)
    # Only rank 0 saves, so only rank 0 can meet a full disk.
    rank = 0 if kind is Kind.DISK else dice.randrange(ranks)
    step = dice.randrange(int(steps * 0.4), int(steps * 0.6))
    if step % save_every in (0, save_every - 1):
        step += 2
    return Plan(kind, rank, step, by.get(kind, "signal"))


class Record(msgspec.Struct, frozen=True):
    """What really happened, as the processes that it happened to wrote it down.

    Attributes:
        strike: the fault.
        last_step: last step that any rank completed before.
        resumed_step: first step of the attempt after it; None while there is none.
    """

    strike: Strike
    last_step: int
    resumed_step: int | None


def read_record(plan_path: str, ranks: int) -> Record | None:
    """What happened so far, None before the strike."""
    strike = read_strike(plan_path)
    if strike is None:
        return None
    steps = [_read_number(f"{plan_path}.rank{rank}") for rank in range(ranks)]
    return Record(
        strike, max((step for step in steps if step is not None), default=-1), _read_number(_resumed(plan_path))
    )


def strike_path(plan_path: str) -> str:
    """Where the strike is recorded, beside the plan."""
    return f"{plan_path}.struck"


def read_strike(plan_path: str) -> Strike | None:
    """The strike, None while it has not come."""
    try:
        with open(strike_path(plan_path), "rb") as file:
            return msgspec.json.decode(file.read(), type=Strike)
    except (FileNotFoundError, msgspec.DecodeError):
        return None


class Ordeal:
    """The hooks that a trainer calls; they do nothing on other ranks, at other times, without a plan, or a second time."""

    def __init__(self, rank: int) -> None:
        self._path = os.environ.get(PLAN_VARIABLE, "")
        self._plan: Plan | None = None
        self._hoard: list[bytearray] = []
        self._progress = -1
        if self._path and read_strike(self._path) is None:
            with open(self._path, "rb") as file:
                found = msgspec.json.decode(file.read(), type=Plan)
            self._plan = found if found.rank == rank else None
            self._progress = os.open(f"{self._path}.rank{rank}", os.O_RDWR | os.O_CREAT, 0o600)

    def begin(self, step: int) -> None:
        """Write down where this attempt begins, if it is the one after the strike."""
        if self._path and self._progress < 0:
            _write_number(_resumed(self._path), step)

    def batches(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        """The loader, as it is or slowed."""
        for batch in batches:
            if self._due(Kind.LOADER, batch.step):
                self._record(batch.step)
                if batch.step >= self._step + _LOADER_SLOW_STEPS:
                    raise TimeoutError(f"data loader: no batch for step {batch.step} within 2 s")
                time.sleep(_LOADER_DELAY_S)
            yield batch

    def before_step(self, step: int, parameters: Vector) -> None:
        """Whatever strikes between two steps."""
        if self._due(Kind.KILLED, step, once=True):
            os.kill(os.getpid(), signal.SIGKILL)
        if self._due(Kind.STOPPED, step, once=True):
            os.kill(os.getpid(), signal.SIGSTOP)
        if self._due(Kind.NAN, step, once=True):
            parameters[0] = float("nan")
        if self._due(Kind.MEMORY, step):
            self._leak(step)

    def after_step(self, step: int) -> None:
        """Write down that a step is done; a kill -9 right after does not undo it."""
        if self._progress >= 0:
            os.pwrite(self._progress, b"%20d" % step, 0)

    def before_save(self, step: int, folder: str) -> None:
        """Whatever makes a checkpoint fail."""
        if self._due(Kind.DISK, step, once=True):
            if self._plan is not None and self._plan.by == "tmpfs":
                _fill(folder)
            else:
                resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))

    @property
    def _step(self) -> int:
        return self._plan.step if self._plan else 0

    def _due(self, kind: Kind, step: int, *, once: bool = False) -> bool:
        if self._plan is None or self._plan.kind is not kind or step < self._plan.step:
            return False
        return not once or self._record(step)

    def _record(self, step: int) -> bool:
        """Write the strike down before it lands; False when it was before."""
        path = strike_path(self._path)
        if os.path.exists(path):
            return False
        strike = Strike(os.getpid(), self._plan.rank if self._plan else 0, step, time.time())
        with open(f"{path}.new", "wb") as file:
            file.write(msgspec.json.encode(strike))
            os.fsync(file.fileno())
        os.replace(f"{path}.new", path)
        return True

    def _leak(self, step: int) -> None:
        if self._record(step) and self._plan is not None and self._plan.by == "rlimit":
            limit = _address_space() + _HEADROOM_BYTES
            resource.setrlimit(resource.RLIMIT_AS, (limit, resource.getrlimit(resource.RLIMIT_AS)[1]))
        self._hoard.append(bytearray(b"\1") * _LEAK_BYTES)


def _resumed(plan_path: str) -> str:
    return f"{plan_path}.resumed"


def _read_number(path: str) -> int | None:
    try:
        with open(path, "rb") as file:
            return int(file.read())
    except (FileNotFoundError, ValueError):
        return None


def _write_number(path: str, number: int) -> None:
    with open(path, "wb") as file:
        file.write(b"%d" % number)


def _fill(folder: str) -> None:
    """Take all space of ``folder``'s disk; the name is that of a leftover, which the next attempt sweeps away."""
    with open(f"{folder}/somebody-else.tmp", "wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(1 << 16))
        except OSError:
            return


def _address_space() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * os.sysconf("SC_PAGESIZE")
