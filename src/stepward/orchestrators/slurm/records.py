"""What Slurm knows, as Structs: jobs, nodes, partitions, steps. Read by ``reading``, asked for by ``commands``.

Instants are µs since the epoch, durations seconds. Slurm's own words are kept beside ours, so that nothing is lost where
a newer Slurm has a word that we don't know.
"""

import msgspec

from stepward.model.jobs import JobFacts
from stepward.model.states import State


class SlurmJob(JobFacts, frozen=True, kw_only=True):
    """A job, a task of an array, the tasks of an array that wait together, or a part of a heterogeneous job.

    Attributes:
        number: Slurm's own number of it; a task of an array that has begun has one of its own.
        array_job, array_task: the array and the task of it; no task for those that wait together.
        array_tasks: the tasks that wait together, as in ``1-9%2``; Slurm shortens long ones with ``...``.
        het_job, het_offset: leader of a heterogeneous job, and which part this is.
        nodes: empty as long as it has none.
        submitted_at: Slurm sets it anew at each requeue.
        started_at, ended_at: None as long as it hasn't.
        expected_start_at: when Slurm expects a waiting job to start.
        signal: the number of the one that ended it.
        time_limit_s: infinity for no limit.
        cancelled_by: user id of who cancelled it, where Slurm says so.
    """

    number: int
    array_job: int | None = None
    array_task: int | None = None
    array_tasks: str | None = None
    het_job: int | None = None
    het_offset: int | None = None
    uid: int | None = None
    nodes: tuple[str, ...] = ()
    submitted_at: int | None = None
    eligible_at: int | None = None
    started_at: int | None = None
    expected_start_at: int | None = None
    ended_at: int | None = None
    signal: int | None = None
    time_limit_s: float | None = None
    reservation: str = ""
    admin_comment: str = ""
    cancelled_by: int | None = None

    @property
    def key(self) -> str:
        """The name that stays over requeues, as in run keys: ``42``, ``40_3``, the leader of a heterogeneous job.

        The same as ``identity.job_id`` gives inside the job. For tasks that wait together it is the array's number.
        """
        if self.array_job is not None:
            return str(self.array_job) if self.array_task is None else f"{self.array_job}_{self.array_task}"
        return str(self.het_job or self.number)

    @property
    def held(self) -> bool:
        """Whether it waits until somebody releases it."""
        if self.state is not State.QUEUED:
            return False
        reason = self.reason.replace("_", " ")
        return self.slurm_state in _HELD_STATES or reason.startswith("JobHeld") or reason in _HELD_REASONS


_HELD_STATES = frozenset({"REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD"})
_HELD_REASONS = frozenset({"JobHoldMaxRequeue", "launch failed requeued held"})


class SlurmNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node as the controller sees it.

    Attributes:
        base: ``IDLE``, ``ALLOCATED``, ``MIXED``, ``DOWN``, ``ERROR``, ``FUTURE``, ``UNKNOWN``.
        flags: further states: ``DRAIN``, ``NOT_RESPONDING``, ``CLOUD``, ``POWERED_DOWN``, ``MAINTENANCE``, ...
        reason, reason_by, reason_at: why somebody took it out of service.
        memory_mb, allocated_memory_mb, free_memory_mb: MiB.
        address, port: where its slurmd listens.
        gres: generic resources as configured, ``gpu:h100:8``; gres_used where the answer has it.
        boot_at, slurmd_start_at: µs since the epoch.
    """

    name: str
    base: str
    flags: frozenset[str] = frozenset()
    reason: str = ""
    reason_by: str = ""
    reason_at: int | None = None
    partitions: tuple[str, ...] = ()
    address: str = ""
    port: int = 6818
    host: str = ""
    cpus: int = 0
    allocated_cpus: int = 0
    memory_mb: int = 0
    allocated_memory_mb: int = 0
    free_memory_mb: int | None = None
    load: float | None = None
    gres: str = ""
    gres_used: str = ""
    tres: str = ""
    allocated_tres: str = ""
    features: str = ""
    boot_at: int | None = None
    slurmd_start_at: int | None = None
    version: str = ""
    comment: str = ""
    extra: str = ""

    @property
    def powered_down(self) -> bool:
        """Whether it is switched off on purpose, or about to be."""
        return bool(self.flags & {"POWERED_DOWN", "POWERING_DOWN"})

    @property
    def responding(self) -> bool:
        """Whether the controller hears its slurmd."""
        return "NOT_RESPONDING" not in self.flags and not self.powered_down and self.base != "UNKNOWN"

    @property
    def usable(self) -> bool:
        """Whether a job may be placed on it now, or once it is powered up."""
        return self.base in _USABLE and not self.flags & _OUT

    @property
    def state(self) -> str:
        """One word for people, in small letters: as ``sinfo`` says it, the most hindering first."""
        if self.base in {"DOWN", "ERROR", "FUTURE"}:
            return self.base.lower()
        if "DRAIN" in self.flags:
            return "draining" if self.base in {"ALLOCATED", "MIXED"} or "COMPLETING" in self.flags else "drained"
        for flag in _SHOWN_FLAGS:
            if flag in self.flags:
                return flag.lower()
        return self.base.lower()


_USABLE = frozenset({"IDLE", "ALLOCATED", "MIXED"})
_OUT = frozenset({"DRAIN", "FAIL", "NOT_RESPONDING", "MAINTENANCE", "INVALID_REG", "REBOOT_ISSUED"})
_SHOWN_FLAGS = (
    "FAIL", "INVALID_REG", "REBOOT_ISSUED", "MAINTENANCE", "RESERVED", "POWERING_DOWN", "POWERED_DOWN", "POWERING_UP",
    "NOT_RESPONDING", "COMPLETING", "PLANNED",
)  # fmt: skip


class SlurmPartition(msgspec.Struct, frozen=True, kw_only=True):
    """A partition. Limits are None where there is none; ``state`` is ``UP``, ``DOWN``, ``DRAIN`` or ``INACTIVE``."""

    name: str
    state: str
    default: bool = False
    nodes: tuple[str, ...] = ()
    node_count: int = 0
    cpu_count: int = 0
    max_time_s: float | None = None
    default_time_s: float | None = None
    min_nodes: int = 0
    max_nodes: int | None = None
    allow_accounts: tuple[str, ...] | None = None
    allow_groups: tuple[str, ...] | None = None
    qos: str = ""
    tres: str = ""


class SlurmStep(msgspec.Struct, frozen=True, kw_only=True):
    """A step that runs: ``id`` as in ``42.0`` or ``42_7.batch``, ``job`` the part before the dot."""

    id: str
    job: str
    name: str = ""
    slurm_state: str = ""
    nodes: tuple[str, ...] = ()
    tasks: int | None = None
    started_at: int | None = None
    uid: int | None = None


class Controller(msgspec.Struct, frozen=True):
    """What a controller answers to a ping."""

    host: str
    up: bool
