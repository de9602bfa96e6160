"""What a watcher knows of a job and has told of it: kept from poll to poll and over its own death."""

import msgspec

from stepward.model.frames import Event
from stepward.model.identity import derived_run_id
from stepward.model.states import Exit, State

MAX_WAITS = 50
"""Intervals of one reason that are kept of a launch's waiting; the last one then stands for the rest."""


class Wait(msgspec.Struct):
    """A stretch of a launch's time in the queue with one reason; µs since the epoch."""

    reason: str
    since: int
    until: int | None = None


class Launch(msgspec.Struct):
    """One launch of a job, as it was told.

    Attributes:
        number: requeues before it, as in the attempt key ``slurm.<number>``.
        writer: who tells of it, ULID.
        submitted_at: Slurm sets it anew at each requeue, so that it names the launch.
        state, reason, paused: of the newest word.
        provisioned_at: since when nodes are made ready; ``ready_at`` until when.
        end: Slurm's state at the end; "" as long as it lives.
        exit: what was told of the end; happened: the events beside it.
        requeued: it was said that another launch follows.
    """

    number: int
    writer: str
    submitted_at: int | None = None
    state: State | None = None
    reason: str = ""
    paused: bool = False
    waits: list[Wait] = []
    provisioned_at: int | None = None
    ready_at: int | None = None
    started_at: int | None = None
    nodes: tuple[str, ...] = ()
    ended_at: int | None = None
    end: str = ""
    exit: Exit | None = None
    happened: list[Event] = []
    requeued: bool = False

    @property
    def attempt(self) -> str:
        """The attempt key."""
        return f"slurm.{self.number}"


class Output(msgspec.Struct):
    """A file that a job writes to, and how far it was followed.

    Attributes:
        stream: name of the log stream.
        offset: bytes of the file that were taken.
        base: bytes that were taken before the file was begun anew.
        begun: it was looked at.
        done: nothing more is read.
    """

    path: str
    stream: str
    offset: int = 0
    base: int = 0
    begun: bool = False
    done: bool = False


class Job(msgspec.Struct):
    """One job, or one task of an array.

    Attributes:
        name: the job part of its run key: ``42``, ``40_3``.
        generation: 1, and one more each time that Slurm has used the id again.
        key, project, run: where it is told.
        covered: its output comes from inside.
        link: what was written into its AdminComment; comment: what was there when it was last seen.
        outputs: launch -> its files.
        seen_at: when Slurm last named it, µs.
    """

    name: str
    generation: int
    key: str
    project: str
    run: str
    user: str = ""
    uid: int | None = None
    title: str = ""
    covered: bool = False
    link: str = ""
    comment: str = ""
    launches: list[Launch] = []
    outputs: dict[str, list[Output]] = {}
    seen_at: int = 0

    @property
    def last(self) -> Launch:
        """The newest launch."""
        return self.launches[-1]

    @property
    def ended(self) -> bool:
        """Whether the newest launch has ended."""
        return bool(self.launches) and bool(self.last.end)


def new_job(cluster: str, name: str, generation: int, project: str) -> Job:
    """A job that is seen for the first time, or whose id is used again."""
    key = f"slurm:{cluster}:{name}" + (f"@{generation}" if generation > 1 else "")
    return Job(name=name, generation=generation, key=key, project=project, run=derived_run_id(project, key))
