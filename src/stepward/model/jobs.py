"""The JSON of jobs: what Slurm has in its queue and its accounting, what may be submitted, what was done about it."""

from typing import Any, Literal

import msgspec

from stepward.model.resources import LogLine, Number
from stepward.model.states import State


class JobAttempt(msgspec.Struct, kw_only=True):
    """One launch of a job, as accounting remembers it; the last one is how the job stands."""

    number: int
    state: State
    slurm_state: str
    reason: str = ""
    nodes: list[str] = []
    submitted_at: str | None = None
    started_at: str | None = None
    ended_at: str | None = None
    exit_code: int | None = None
    signal: str | None = None


class Job(msgspec.Struct, kw_only=True):
    """A job of a cluster.

    ``id`` is as people write it: ``42``, ``42_7``, ``42_[1-9%2]`` for tasks of an array that wait together, ``42+1``.
    ``state`` is ours, ``slurm_state`` Slurm's. ``reason_words`` and ``advice`` say what ``reason`` means and what to do.
    ``run`` is the id of the run that watches or joined it. ``tres`` is what it has or asks for. ``time_limit_s`` is
    "Infinity" for none. ``attempts`` are there where one job is asked for, and accounting knows them.
    """

    id: str
    cluster: str
    name: str = ""
    user: str = ""
    account: str = ""
    partition: str = ""
    qos: str = ""
    state: State
    slurm_state: str
    held: bool = False
    reason: str = ""
    reason_words: str = ""
    advice: str = ""
    nodes: list[str] = []
    node_count: int | None = None
    cpus: int | None = None
    tres: str = ""
    submitted_at: str | None = None
    eligible_at: str | None = None
    expected_start_at: str | None = None
    started_at: str | None = None
    ended_at: str | None = None
    time_limit_s: Number | None = None
    restarts: int | None = None
    requeue: bool | None = None
    exit_code: int | None = None
    signal: str | None = None
    dependency: str = ""
    features: str = ""
    command: str = ""
    workdir: str = ""
    stdout: str = ""
    stderr: str = ""
    comment: str = ""
    run: str | None = None
    attempts: list[JobAttempt] = []


class JobPage(msgspec.Struct, kw_only=True):
    """A page of jobs, the newest first; ``total`` counts what the filters match, ``next`` is the following page's cursor.

    ``history_missing`` says why ended jobs are not among them (no accounting, or it does not answer).
    """

    items: list[Job]
    total: int
    next: str | None = None
    history_missing: str | None = None


class JobSubmission(msgspec.Struct, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A job to submit: either ``script`` (its text) or ``command`` (argv).

    Attributes:
        mem: memory a node, ``64G`` (K, M, G, T; without a letter MiB).
        gres: generic resources a node, ``gpu:8`` or ``gpu:h100:8``; gpus: GPUs of the whole job.
        time_limit: ``minutes``, ``hours:minutes:seconds``, ``days-hours:minutes:seconds``, or ``UNLIMITED``.
        array: ``0-9``, ``0-9:2``, ``1,3,5-7%2``.
        dependency: ``afterok:42:43,afterany:44`` or ``singleton``.
        requeue: whether Slurm starts it again after a node failure; None leaves it to the cluster.
        signal: ``B:USR1@110``: signal that many seconds before the time limit, ``B:`` to the batch shell alone.
        workdir: absolute; the home of the server's user by default.
        output, error: paths, Slurm's patterns (``%j``) allowed.
        env: the whole environment of the job, beside a plain PATH, HOME, USER, LANG and Slurm's own variables.
        nodelist: nodes that it must have. A job that is pinned waits for ever once one of them is dead.
        exclude: nodes that it must not have.
    """

    script: str | None = None
    command: list[str] | None = None
    name: str | None = None
    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    nodes: int | None = None
    ntasks: int | None = None
    ntasks_per_node: int | None = None
    cpus_per_task: int | None = None
    mem: str | None = None
    gres: str | None = None
    gpus: int | None = None
    time_limit: str | None = None
    array: str | None = None
    dependency: str | None = None
    requeue: bool | None = None
    signal: str | None = None
    workdir: str | None = None
    output: str | None = None
    error: str | None = None
    env: dict[str, str] = {}
    comment: str | None = None
    constraint: str | None = None
    reservation: str | None = None
    exclusive: bool = False
    hold: bool = False
    nodelist: str | None = None
    exclude: str | None = None


class SubmittedJob(msgspec.Struct, kw_only=True):
    """What became of a submission. With ``dry_run`` nothing was: ``argv`` is what would be run, ``id`` is None.

    ``expected`` is what Slurm says of a start (of a dry run).
    """

    id: str | None = None
    dry_run: bool = False
    argv: list[str] = []
    warnings: list[str] = []
    expected: str = ""


class JobChange(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Why a job is changed; kept in the audit."""

    reason: str = ""


class JobChanged(msgspec.Struct, kw_only=True):
    """What was done to a job, or with ``dry_run`` would be. ``action`` is the id of its record in the audit."""

    id: str
    kind: Literal["cancel", "requeue", "hold", "release"]
    dry_run: bool = False
    action: str


class JobOutput(msgspec.Struct, kw_only=True):
    """The end of one output of a job; ``path`` where it was read from a file, ``skipped_bytes`` before it."""

    stream: str
    path: str | None = None
    lines: list[LogLine] = []
    skipped_bytes: int = 0


class JobLogs(msgspec.Struct, kw_only=True):
    """Output of a job: of its run where one watches it, else of the files that Slurm names."""

    id: str
    run: str | None = None
    outputs: list[JobOutput] = []


class Action(msgspec.Struct, kw_only=True):
    """Something that was done to a cluster, node, job or run, or that a dry run would have done: the audit's record.

    Attributes:
        actor: who did it: the name of a token, or ``stepward`` for a policy.
        kind: ``submit``, ``cancel``, ``requeue``, ``drain``, ...
        policy: the rule that allowed it; empty for a person.
        outcome: ``done``, ``refused``, ``failed``, or ``begun`` as long as nobody knows.
    """

    id: str
    at: str
    actor: str
    kind: str
    cluster: str = ""
    node: str = ""
    job: str = ""
    run: str | None = None
    reason: str = ""
    policy: str = ""
    dry_run: bool = False
    outcome: str
    data: dict[str, Any] = {}


class ActionPage(msgspec.Struct):
    """A page of actions, the newest first."""

    items: list[Action]
    next: str | None = None
