"""Slurm as the rest of the house sees it: what it knows, and what it is told to do. Blocking, each call with a time-out.

Every method raises ``Unavailable`` (``slurm_unreachable``) where Slurm does not answer, ``CommandFailed``
(``slurm_missing``) where its commands are not here, ``ParseError`` (``slurm_malformed``) for an answer that is not
understood, and where a job is named ``NotFound`` (``unknown_job``).
"""

import contextlib
import os
import pwd
import re
from collections.abc import Iterable, Sequence

from stepward.errors import Conflict, NotFound, StepwardError, UsageError
from stepward.model.jobs import JobSubmission
from stepward.model.slurm_text import fold_nodes
from stepward.orchestrators.slurm.asking import ANSWER_S, Said, ask
from stepward.orchestrators.slurm.cluster_reading import read_config, read_nodes, read_partitions, read_ping
from stepward.orchestrators.slurm.reading import (
    ACCOUNTING_FIELDS,
    QUEUE_FIELDS,
    STEP_FIELDS,
    read_accounting,
    read_queue,
    read_steps,
)
from stepward.orchestrators.slurm.records import Controller, SlurmJob, SlurmNode, SlurmPartition, SlurmStep
from stepward.orchestrators.slurm.submission import arguments, batch_script, environment
from stepward.orchestrators.slurm.table import new_mark, squeue_format

_JOB = re.compile(r"\d{1,10}(?:_\d{1,10}|\+\d{1,5})?", re.ASCII)
_MANY_JOBS = re.compile(r"\d{1,10}(?:_\[[\d,:%.-]+\])", re.ASCII)
_NODE_STATES = frozenset(
    {"DOWN", "DRAIN", "FAIL", "FUTURE", "IDLE", "NORESP", "POWER_DOWN", "POWER_DOWN_ASAP", "POWER_DOWN_FORCE",
     "POWER_UP", "RESUME", "UNDRAIN", "CANCEL_REBOOT"}
)  # fmt: skip


def job_name(job: str) -> str:
    """A job's id as Slurm's commands take it: ``42``, ``42_7``, ``42+1``; of tasks that wait together the array.

    Raises:
        UsageError: ``bad_job``. Nothing else ever reaches a command line.
    """
    if _JOB.fullmatch(job):
        return job
    if _MANY_JOBS.fullmatch(job):
        return job.partition("_")[0]
    raise UsageError(f"{job[:80]!r} is no id of a Slurm job", code="bad_job", hint="as in 48211, 48211_3 or 48211+1")


class Slurm:
    """One Slurm.

    Args:
        conf: path of its slurm.conf; None for the one of this host (``SLURM_CONF`` or the built-in path).
        timeout_s: seconds that one command may take.
    """

    def __init__(self, conf: str | None = None, *, timeout_s: float = ANSWER_S) -> None:
        self.conf = conf
        self._timeout_s = timeout_s

    # ── what it knows ──

    def jobs(self) -> list[SlurmJob]:
        """All jobs that the controller knows: waiting, running, and ended within MinJobAge (300 s by default).

        Tasks of an array that wait together are one record.
        """
        return self._queue([])

    def job(self, job: str) -> SlurmJob:
        """A job as it stands: from the controller, and once that has forgotten it from accounting.

        Raises:
            NotFound: ``unknown_job``.
        """
        name = job_name(job)
        try:
            found = self._queue([f"--jobs={name}"])
        except NotFound:
            found = []
        if not found:
            found = self._accounted(name)[-1:]
        return _the_one(found, name)

    def attempts(self, job: str) -> list[SlurmJob]:
        """The launches of a job, the oldest first, as accounting has them; the last one is how the job stands.

        Raises:
            NotFound: ``unknown_job``: accounting has no such job (yet: it is told a moment later).
            Conflict: ``slurm_no_accounting``.
        """
        name = job_name(job)
        found = self._accounted(name)
        if not found:
            raise NotFound(f"accounting knows no job {name}", code="unknown_job", hint="sacct -j " + name)
        return found

    def history(self, since: int, until: int | None = None) -> list[SlurmJob]:
        """Every launch that waited, ran or ended since an instant (µs since the epoch), the oldest first.

        A job that was requeued has a record for each launch (``sacct -D``).

        Raises:
            Conflict: ``slurm_no_accounting``.
        """
        window = [f"--starttime={_slurm_time(since)}"] + ([f"--endtime={_slurm_time(until)}"] if until else [])
        return self._sacct(["--allusers", *window])

    def nodes(self) -> list[SlurmNode]:
        """All nodes."""
        return read_nodes(self._read(["scontrol", "-o", "show", "node"]))

    def node(self, name: str) -> SlurmNode:
        """One node.

        Raises:
            NotFound: ``unknown_node``.
        """
        for node in self.nodes():
            if node.name == name:
                return node
        raise NotFound(f"Slurm knows no node {name!r}", code="unknown_node", hint="stepward nodes lists them")

    def partitions(self) -> list[SlurmPartition]:
        """All partitions, hidden ones too."""
        return read_partitions(self._read(["scontrol", "-o", "-a", "show", "partition"]))

    def steps(self) -> list[SlurmStep]:
        """All steps that run."""
        mark = new_mark()
        return read_steps(self._read(["squeue", "-s", "-h", "-a", "-O", squeue_format(STEP_FIELDS, mark)]), mark)

    def config(self) -> dict[str, str]:
        """The configuration that the controller runs with, by key."""
        return read_config(self._read(["scontrol", "show", "config"]))

    def cluster(self) -> str:
        """``ClusterName``, as in run keys."""
        return self.config().get("ClusterName") or "cluster"

    def ping(self) -> list[Controller]:
        """The controllers and whether they are up: a controller that is down is no error here."""
        # It ends with 1 where a controller is down.
        return read_ping(ask(["scontrol", "ping"], self.conf, timeout_s=self._timeout_s, fine=(0, 1)).out)

    def describe(self, job: str) -> str:
        """What ``scontrol show job`` says, as text; empty where the controller has forgotten the job."""
        with contextlib.suppress(NotFound):
            return self._run(["scontrol", "show", "job", job_name(job)], read=False)
        return ""

    def account(self, job: str, fields: Sequence[str]) -> str:
        """What ``sacct -P -D`` says of a job and its steps, as text with a heading."""
        return self._run(["sacct", "-P", "-D", "-j", job_name(job), "-o", ",".join(fields)], read=False)

    # ── what it is told ──

    def submit(self, asked: JobSubmission) -> str:
        """Submit a job that ``submission.check`` has passed; its id.

        Raises:
            Conflict: ``slurm_refused``, with what Slurm said.
        """
        said = self._sbatch(asked, test_only=False).out
        found = re.search(r"^(\d+)(?:;\S+)?$", said.strip(), re.MULTILINE)
        if found is None:
            raise Conflict(f"sbatch gave no job id: {said.strip()[:200]}", code="slurm_refused", hint="docs/jobs.md")
        return found[1]

    def try_submit(self, asked: JobSubmission) -> str:
        """What Slurm says of a submission without taking it (``sbatch --test-only``): when and where it would start.

        Raises:
            Conflict: ``slurm_refused``.
        """
        said = re.sub(r"^sbatch: |Job \d+ ", "", self._sbatch(asked, test_only=True).err, flags=re.MULTILINE)
        # sbatch writes this time in its own way; it was run in UTC.
        return re.sub(r"(start at \d{4}-\d\d-\d\dT[\d:]+)", r"\1Z", said)[:400]

    def cancel(self, job: str) -> None:
        """End a job, whether it waits or runs; all tasks of an array where it is named."""
        name = self._living(job)
        self._run(["scancel", name], read=False)

    def requeue(self, job: str, *, hold: bool = False) -> None:
        """End a job and let it wait for its next start under the same id; with ``hold`` until it is released.

        Raises:
            Conflict: ``slurm_refused``: it cannot be requeued (submitted with --no-requeue, or not by sbatch).
        """
        self._run(["scontrol", "requeuehold" if hold else "requeue", job_name(job)], read=False)

    def hold(self, job: str) -> None:
        """Keep a waiting job from starting."""
        self._run(["scontrol", "hold", self._living(job)], read=False)

    def release(self, job: str) -> None:
        """Let a held job start."""
        self._run(["scontrol", "release", self._living(job)], read=False)

    def update_node(self, node: str | Iterable[str], *, state: str, reason: str = "") -> None:
        """Set a node's state (``DRAIN``, ``DOWN``, ``RESUME``, ...), with a reason where Slurm wants one.

        A dead node is set ``DOWN`` first: draining it leaves its jobs completing until SlurmdTimeout.

        Raises:
            UsageError: ``bad_node_state``.
        """
        names = fold_nodes([node] if isinstance(node, str) else node)
        if state.upper() not in _NODE_STATES:
            known = ", ".join(sorted(_NODE_STATES))
            raise UsageError(f"{state!r} is no state that a node can be set to", code="bad_node_state", hint=known)
        change = [f"NodeName={_plain(names)}", f"State={state.upper()}"]
        change += [f"Reason={_plain(reason)}"] if reason else []
        self._run(["scontrol", "update", *change], read=False)

    def set_admin_comment(self, job: str, comment: str) -> None:
        """Write the administrator's comment of a job (an operator's right): where people find its run."""
        self._run(["scontrol", "update", f"JobId={job_name(job)}", f"AdminComment={_plain(comment)}"], read=False)

    # ── commands ──

    def _queue(self, which: list[str]) -> list[SlurmJob]:
        mark = new_mark()
        argv = ["squeue", "-h", "-a", "-t", "all", *which, "-O", squeue_format(QUEUE_FIELDS, mark)]
        return read_queue(self._read(argv), mark)

    def _accounted(self, name: str) -> list[SlurmJob]:
        return self._sacct([f"--jobs={name}"])

    def _sacct(self, which: list[str]) -> list[SlurmJob]:
        mark = new_mark()
        shape = ["-D", "-X", "-n", "-p", f"--delimiter={mark}", f"--format={','.join(ACCOUNTING_FIELDS)}"]
        found = read_accounting(self._read(["sacct", *shape, *which]), mark)
        # By submission: a requeue gives a job a new one. sort() is stable, sacct's own order breaks ties.
        return sorted(found, key=lambda job: (job.submitted_at or 0, job.started_at or 1 << 62))

    def _sbatch(self, asked: JobSubmission, *, test_only: bool) -> Said:
        user = pwd.getpwuid(os.getuid())
        conf = self.conf or os.environ.get("SLURM_CONF")
        own = environment(asked, user.pw_name, user.pw_dir, conf)
        # By a descriptor of a file without a name: an environment may hold secrets, an argument is seen by everybody.
        descriptor = os.memfd_create("environment", 0)
        try:
            os.write(descriptor, own)
            os.lseek(descriptor, 0, os.SEEK_SET)
            argv = arguments(asked, environment_fd=descriptor, test_only=test_only)
            return ask(
                argv,
                self.conf,
                read=test_only,
                stdin=batch_script(asked).encode(),
                timeout_s=self._timeout_s,
                pass_fds=(descriptor,),
            )
        finally:
            os.close(descriptor)

    def _living(self, job: str) -> str:
        """The name of a job that has not ended: scancel says nothing of one that Slurm does not know."""
        name = job_name(job)
        found = self.job(name)
        if found.state.terminal and found.array_tasks is None and not self._array_lives(name):
            raise Conflict(
                f"job {name} has ended ({found.slurm_state})",
                code="job_ended",
                hint="`stepward jobs requeue` starts it again while Slurm remembers it",
            )
        return name

    def _array_lives(self, name: str) -> bool:
        with contextlib.suppress(StepwardError):
            return any(not job.state.terminal for job in self._queue([f"--jobs={name}"]))
        return False

    def _read(self, argv: Sequence[str]) -> str:
        return self._run(argv, read=True)

    def _run(self, argv: Sequence[str], *, read: bool) -> str:
        return ask(argv, self.conf, read=read, timeout_s=self._timeout_s).out


def _the_one(found: list[SlurmJob], name: str) -> SlurmJob:
    """Of several records for a name: the one with that very id, else the one that says most of how it stands."""
    if not found:
        raise NotFound(
            f"Slurm knows no job {name}", code="unknown_job", hint="`stepward jobs ls` lists those that it knows"
        )
    exact = [job for job in found if name in (job.id, str(job.number), job.key)]
    living = [job for job in exact or found if not job.state.terminal]
    return (living or exact or found)[-1]


def _plain(text: str) -> str:
    """A value of ``scontrol update`` on one line, without what could end it."""
    return re.sub(r"[\x00-\x1f\x7f\"]+", " ", text).strip()[:1024]


def _slurm_time(at_us: int) -> str:
    """An instant as sacct takes it, in UTC as commands are run: never later than it is."""
    from datetime import UTC, datetime

    return datetime.fromtimestamp(max(at_us, 0) // 1_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%S")
