"""What a scheduler says of a run's waiting, as events of the ledger: queue, provisioning, requeues.

Types of events: ``job_submitted`` (a moment), ``queued`` (an interval, with the scheduler's reason), ``provision`` (an
interval: nodes are made ready), ``requeued`` (a moment). An attempt begins where its waiting ends, whoever heard of it
before. A job that waits again after a loss waits for nodes; held back on purpose (by a hold, a dependency or a begin time)
it waits for nobody's nodes, and is down. Before the first attempt all waiting is ``queue_wait``.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from stepward.goodput.events import US, Event

if TYPE_CHECKING:
    from stepward.goodput.sources.records import Happening

TYPES = frozenset({"job_submitted", "queued", "provision", "requeued"})
HELD_BACK = frozenset(
    {"JobHeldUser", "JobHeldAdmin", "JobHoldMaxRequeue", "Dependency", "DependencyNeverSatisfied", "BeginTime"}
)
"""Reasons of Slurm (squeue(1), job reason codes) for which a job would not start on free nodes either."""


class Waits:
    """The waiting of one run.

    Args:
        ended: attempts that are over, and when, µs.
    """

    def __init__(self, happenings: "Sequence[Happening]", ended: Mapping[int, int | None]) -> None:
        self._moments = sorted(h.started_us for h in happenings if h.type in ("job_submitted", "requeued"))
        self._queued: dict[int, list[Happening]] = {}
        self._provisioned: dict[int, list[Happening]] = {}
        for happening in happenings:
            if happening.attempt is not None:
                of_type = {"queued": self._queued, "provision": self._provisioned}.get(happening.type)
                if of_type is not None:
                    of_type.setdefault(happening.attempt, []).append(happening)
        self._ended = ended
        self._heard: dict[int, int] = {}

    def start(self, number: int, known_us: int, first_us: int | None) -> int | None:
        """When an attempt began, µs; None where it waits, or never did.

        Args:
            known_us: when it began by all other accounts.
            first_us: when something of it happened for the first time.
        """
        waits = [*self._queued.get(number, ()), *self._provisioned.get(number, ())]
        over = self._ended.get(number)
        open_end = any(wait.ended_us is None for wait in waits)
        until = max([wait.ended_us for wait in waits if wait.ended_us is not None], default=known_us)
        in_queue = max((w.ended_us or w.started_us for w in self._queued.get(number, ())), default=None)
        if first_us is None and (open_end or (over is not None and in_queue is not None and in_queue >= over)):
            return None
        begun = max(known_us, until)
        return begun if first_us is None else min(begun, first_us)

    def submitted(self, number: int, heard_us: int) -> None:
        """An attempt that has not begun was first heard of."""
        self._heard[number] = heard_us

    def events(self, starts: Mapping[int, int]) -> Iterator[Event]:
        """The submissions and provisioning.

        Args:
            starts: the attempts that began, µs.
        """
        known = {*starts, *self._queued, *self._heard}
        first = min(known, default=1)
        claims: dict[int, int] = dict(self._heard)
        for moment in self._moments:
            later = (number for number in known if number not in starts or starts[number] >= moment)
            number = min(later, default=max(known, default=0) + 1)
            claims[number] = min(claims.get(number, moment), moment)
        for number, waits in self._queued.items():
            wanted = [wait.started_us for wait in waits if number == first or wait.word not in HELD_BACK]
            if number == first:
                wanted += [claims[number]] if number in claims else []
            if wanted:
                claims[number] = min(wanted)
            else:
                claims.pop(number, None)
        for number, moment in claims.items():
            if number not in starts or moment <= starts[number]:
                yield Event(moment * US, "job_submitted", number)
        for number, waits in self._provisioned.items():
            for wait in waits:
                yield Event(wait.started_us * US, "phase_started", number, phase="provision")
                if wait.ended_us is not None and wait.ended_us >= wait.started_us:
                    yield Event(wait.ended_us * US, "phase_ended", number, phase="provision")
