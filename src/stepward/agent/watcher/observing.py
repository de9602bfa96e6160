"""Which launches of which job an answer of Slurm is about: the queue knows how things stand, accounting how they went.

A launch is named by the number of requeues before it. The queue says that number; accounting (22.05) does not, but the
submit time, which Slurm sets anew at each requeue, tells the launches of a job apart and puts them in order. Pure.
"""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from stepward.agent.watcher.known import Job
from stepward.model.states import State
from stepward.orchestrators.slurm.records import SlurmJob

MAX_WAITING_TASKS = 64
"""Tasks of an array that wait together and are runs already; of larger arrays a task becomes a run when it starts."""
SAME_SUBMIT_US = 1_000_000
"""Queue and accounting may round the same instant differently."""
_RANGE = re.compile(r"(\d+)(?:-(\d+)(?::(\d+))?)?")


class Sighting(NamedTuple):
    """What Slurm says of a job: its launches by number, in order; the last one is how the job stands."""

    launches: list[tuple[int, SlurmJob]]
    again: bool
    """Slurm has used the id of a job that has ended for another one."""


def by_name(records: Iterable[SlurmJob]) -> dict[str, list[SlurmJob]]:
    """Job -> its records, in the order given: each task of an array by itself, the parts of a heterogeneous job as one."""
    found: dict[str, list[SlurmJob]] = {}
    for record in records:
        for one in _tasks(record):
            of_job = found.setdefault(one.key, [])
            whole = next((at for at, other in enumerate(of_job) if _one_launch(other, one)), None)
            if whole is None:
                of_job.append(one)
            else:
                of_job[whole] = _joined(of_job[whole], one)
    return found


def _one_launch(one: SlurmJob, other: SlurmJob) -> bool:
    """Whether two records are parts of one launch of a heterogeneous job."""
    return one.het_job is not None and one.het_offset != other.het_offset and one.submitted_at == other.submitted_at


def _joined(one: SlurmJob, other: SlurmJob) -> SlurmJob:
    """The leader's record, with the nodes of both."""
    leader, rest = sorted((one, other), key=lambda part: part.het_offset or 0)
    return msgspec.structs.replace(leader, nodes=tuple(dict.fromkeys((*leader.nodes, *rest.nodes))))


def _tasks(record: SlurmJob) -> Iterable[SlurmJob]:
    if record.array_job is None or record.array_task is not None or record.array_tasks is None:
        return [record]
    numbers = waiting_tasks(record.array_tasks)
    return [
        msgspec.structs.replace(record, id=f"{record.array_job}_{number}", array_task=number, array_tasks=None)
        for number in numbers
    ]


def waiting_tasks(text: str) -> list[int]:
    """The tasks of ``1,3-9:2%4``; none where they are more than ``MAX_WAITING_TASKS``, or Slurm has shortened the text."""
    numbers: list[int] = []
    for piece in text.partition("%")[0].split(","):
        found = _RANGE.fullmatch(piece.strip())
        if found is None:
            return []
        first, last = int(found[1]), int(found[2] or found[1])
        some = range(first, last + 1, max(1, int(found[3] or 1)))
        if len(numbers) + len(some) > MAX_WAITING_TASKS:
            return []
        numbers += some
    return numbers


def from_queue(
    known: Job | None, record: SlurmJob, accounted: Sequence[SlurmJob] | None, *, guess: bool
) -> Sighting | None:
    """What a record of the queue says; None where accounting must tell first how earlier launches ended.

    Args:
        accounted: the launches of the job as accounting has them; None where it was not asked.
        guess: do without accounting: it has had its time, or there is none.
    """
    number = record.restarts or 0
    again = known is not None and used_again(known, record)
    told = known.launches if known is not None and not again else []
    ended = {launch.number for launch in told if launch.end}
    missing = [earlier for earlier in range(number) if earlier not in ended]
    if not missing:
        return Sighting([(number, record)], again)
    before = [row for row in accounted or [] if _before(row, record)]
    # The newest is the one before this; accounting may have forgotten the oldest.
    rows = {number - back: row for back, row in enumerate(reversed(before), 1)}
    launches: list[tuple[int, SlurmJob]] = []
    for earlier in missing:
        row = rows.get(earlier)
        if row is not None and row.state.terminal:
            launches.append((earlier, row))
        elif not guess:
            return None
        elif row is not None or any(launch.number == earlier for launch in told):
            launches.append((earlier, _guessed(known, earlier, record)))
    return Sighting([*launches, (number, record)], again)


def from_accounting(known: Job | None, rows: Sequence[SlurmJob]) -> Sighting:
    """What accounting says of a job that the queue has forgotten.

    Args:
        rows: of this job, by submit time; all of it where nothing is known of the job yet.
    """
    launches: list[tuple[int, SlurmJob]] = []
    again = False
    last = known.last if known is not None and known.launches else None
    number, submitted, before = (last.number, last.submitted_at, None) if last else (-1, None, None)
    for row in rows:
        same = next(
            (one for one in (known.launches if known and not again else []) if _same(one.submitted_at, row)), None
        )
        if same is not None:
            launches.append((same.number, row))
        elif submitted is None or (row.submitted_at or 0) > submitted:
            if (before is not None and not _requeue_of(before, row)) or (before is None and _another(known, row)):
                launches, again, number = [], known is not None or again, -1
            number += 1
            launches.append((number, row))
            submitted = row.submitted_at
        before = row
    return Sighting(launches, again)


def used_again(known: Job, record: SlurmJob) -> bool:
    """Whether a record of the queue is of another job that got the id of a known one: submitted later, requeued no more often.

    A requeued job is submitted anew twice: when it is asked for, and when the launch before has ended at last.
    """
    if not known.launches:
        return False
    number, last = record.restarts or 0, known.last
    newer = (record.submitted_at or 0) > (last.submitted_at or 0) + SAME_SUBMIT_US
    return number < last.number or (number == last.number and newer and (number == 0 or known.ended))


def own_rows(known: Job, rows: Sequence[SlurmJob]) -> list[SlurmJob]:
    """Of what accounting has under a job's id, the ends of the launches that are known of it."""
    return [row for row in rows if row.state.terminal and any(_same(one.submitted_at, row) for one in known.launches)]


def _before(row: SlurmJob, record: SlurmJob) -> bool:
    return (row.submitted_at or 0) < (record.submitted_at or 0) - SAME_SUBMIT_US


def _same(submitted_at: int | None, row: SlurmJob) -> bool:
    return submitted_at is not None and abs(submitted_at - (row.submitted_at or 0)) <= SAME_SUBMIT_US


_STARTED_AGAIN = frozenset({"REQUEUED", "NODE_FAIL", "BOOT_FAIL", "PREEMPTED", "LAUNCH_FAILED"})


def _requeue_of(before: SlurmJob, row: SlurmJob) -> bool:
    """Whether ``row`` is the next launch of the job of ``before``, and not another job that got its id."""
    return before.slurm_state in _STARTED_AGAIN or (before.user, before.name) == (row.user, row.name)


def _another(known: Job | None, row: SlurmJob) -> bool:
    if known is None or not known.ended:
        return False
    return known.last.end not in _STARTED_AGAIN and (known.user, known.title) != (row.user, row.name)


def _guessed(known: Job | None, number: int, record: SlurmJob) -> SlurmJob:
    """The end of a launch that nobody can tell of: it ended no later than the next one was submitted."""
    told = next((launch for launch in known.launches if launch.number == number), None) if known else None
    return msgspec.structs.replace(
        record,
        state=State.CANCELLED,
        slurm_state="REQUEUED",
        submitted_at=told.submitted_at if told else None,
        started_at=told.started_at if told else None,
        nodes=told.nodes if told else (),
        ended_at=record.submitted_at,
        reason="",
    )
