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


class JobFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What Slurm says of a job in the same form inside of the house and in its JSON.

    Attributes:
        id: as people write it: ``42``, ``42_7``, ``42_[1-9%2]`` for tasks of an array that wait together, ``42+1``.
        state: ours; slurm_state: Slurm's, in capitals, with what it appends taken off.
        reason: Slurm's code of why it waits or ended (``Resources``); empty where it gives none.
        node_count: nodes that it has or asks for.
        restarts: how often it was requeued; None where the answer does not tell (accounting of Slurm 22.05).
        requeue: whether Slurm starts it again after its node has failed.
        exit_code: as Slurm has it at the end.
        tres: what it has, else what it asks for: ``cpu=16,mem=64000M,node=2,billing=16,gres/gpu=16``.
        stdout, stderr: paths with the patterns filled in; empty where they are not known.
    """

    id: str
    name: str = ""
    user: str = ""
    account: str = ""
    partition: str = ""
    qos: str = ""
    state: State
    slurm_state: str
    reason: str = ""
    node_count: int | None = None
    cpus: int | None = None
    tres: str = ""
    restarts: int | None = None
    requeue: bool | None = None
    exit_code: int | None = None
    dependency: str = ""
    features: str = ""
    command: str = ""
    workdir: str = ""
    stdout: str = ""
    stderr: str = ""
    comment: str = ""


class Job(JobFacts, frozen=True, kw_only=True):
    """A job of a cluster.

    ``reason_words`` and ``advice`` say what ``reason`` means and what to do. ``run`` is the id of the run that watches or
    joined it. ``time_limit_s`` is "Infinity" for none. ``attempts`` are there where one job is asked for, and accounting
    knows them.
    """

    cluster: str
    held: bool = False
    reason_words: str = ""
    advice: str = ""
    nodes: list[str] = []
    submitted_at: str | None = None
    eligible_at: str | None = None
    expected_start_at: str | None = None
    started_at: str | None = None
    ended_at: str | None = None
    time_limit_s: Number | None = None
    signal: str | None = None
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
