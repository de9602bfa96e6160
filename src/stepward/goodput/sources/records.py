"""Records of the SDK, of ``stepward run``, of a scheduler's watcher and of detectors as events of the ledger.

Assumed: a step's phases follow one another from its start (the records hold their seconds, not their places); a step that
an attempt died or hangs in began where the one before it ended (only steps that end are recorded); the time between an
attempt's start and its first step is ``init`` where no phase says otherwise, and all of an attempt that never came to a
step; an attempt begins and ends no later than its records say, whatever the server's clock saw. Device clocks only annotate:
host phases are what was waited. What a scheduler tells is in ``waits``.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from stepward.goodput.events import US, Event
from stepward.goodput.sources.waits import TYPES as WAITS
from stepward.goodput.sources.waits import Waits
from stepward.goodput.tracks import BUCKET_PHASES

LONGEST_S = 1e9
"""Some thirty years: a step that took longer was timed by a broken clock, and says nothing."""
TYPES = frozenset({"phase", "checkpoint_durable", "hang", "node_failed"}) | WAITS
"""Types of events that say something to the ledger."""
ASSUMPTIONS = (
    "from an attempt's start to its first step is init, where no phase says otherwise",
    "phases of a step follow one another from its start",
)


class AttemptRecord(NamedTuple):
    """One attempt; ``reason`` is its terminal state, None while it runs. Times in µs.

    Attributes:
        queued: it has not begun; ``started_us`` is when it was first heard of.
        unstepped: its processes told that they will make steps, and no step was heard of.
        begun: of one that ended badly or hangs, the step that had begun last and was not told, if any.
    """

    number: int
    started_us: int
    ended_us: int | None
    reason: str | None
    devices: int | None
    queued: bool = False
    unstepped: bool = False
    begun: int | None = None


class StepRecord(NamedTuple):
    """One step of one rank, with the host seconds of its phases; ``every`` steps in a row where one line stands for them."""

    attempt: int
    rank: int | None
    step: int
    start_us: int
    duration_s: float
    phases: Mapping[str, float]
    every: int | None = None


class Happening(NamedTuple):
    """An event of the catalog, of ``TYPES``; ``word`` is a phase's name, or the reason for which a job waits.

    Of what detectors say, only what is confirmed belongs here.
    """

    type: str
    attempt: int | None
    rank: int | None
    step: int | None
    started_us: int
    ended_us: int | None
    word: str = ""


def events_of(
    attempts: Iterable[AttemptRecord],
    steps: Iterable[StepRecord],
    happenings: Iterable[Happening] = (),
    *,
    ended: str | None,
    now_us: int | None = None,
) -> list[Event]:
    """The events of a run, in no order.

    Args:
        ended: the terminal state of the run, None while more is expected.
        now_us: until when a hang that goes on has lasted.
    """
    span, known = Span(), list(attempts)
    told = list(of_steps(steps, span))
    told += frame(known, list(happenings), span, now_us=now_us)
    if ended is not None and told:
        last = max(event.until or event.t for event in told)
        # An attempt that ended in the queue has no event of its own.
        over = (attempt.ended_us * US for attempt in known if attempt.ended_us is not None)
        told.append(Event(max([last, *over]), "job_ended", reason=ended))
    return told


class Span:
    """Where the records of each attempt begin and end, µs, its first step, and which rank (-1: none) ended one last."""

    def __init__(self) -> None:
        self.stepped: dict[int, int] = {}
        self.first: dict[int, int] = {}
        self.last: dict[int, int] = {}
        self.reached: dict[int, tuple[int, int]] = {}

    def widen(self, attempt: int, start: int, end: int) -> None:
        """Something of an attempt was in [start, end]."""
        self.first[attempt] = min(self.first.get(attempt, start), start)
        self.last[attempt] = max(self.last.get(attempt, end), end)

    def step(self, attempt: int, rank: int | None, start: int, end: int) -> None:
        """A step of a rank was."""
        self.reached[attempt] = max(self.reached.get(attempt, (end, -1)), (end, -1 if rank is None else rank))
        self.stepped[attempt] = min(self.stepped.get(attempt, start), start)
        self.widen(attempt, start, end)


def of_steps(steps: Iterable[StepRecord], span: Span) -> Iterator[Event]:
    """The events of steps; ``span`` learns where they lie."""
    for record in steps:
        if not abs(record.duration_s) <= LONGEST_S:  # NaN as well
            continue
        span.step(record.attempt, record.rank, record.start_us, record.start_us + round(record.duration_s * 1e6))
        yield from _step(record)


def frame(
    attempts: Sequence[AttemptRecord], happenings: Sequence[Happening], span: Span, *, now_us: int | None = None
) -> Iterator[Event]:
    """The events of everything but steps, whose ``span`` is known by now."""
    for happening in happenings:
        if happening.attempt is not None and happening.type == "phase":
            span.widen(happening.attempt, happening.started_us, happening.ended_us or happening.started_us)
    failed = {happening.attempt for happening in happenings if happening.type == "node_failed"}
    waits = Waits(happenings, {attempt.number: attempt.ended_us for attempt in attempts if attempt.reason is not None})
    ends: dict[int, tuple[int, int | None]] = {}
    for attempt in attempts:
        number, first = attempt.number, span.first.get(attempt.number)
        start = waits.start(number, attempt.started_us, first)
        if start is None or (attempt.queued and first is None):
            waits.submitted(number, attempt.started_us)
            continue
        end = None
        if attempt.reason is not None:
            end = max(attempt.ended_us or start, span.last.get(number, start), start)
        ends[number] = start, end
        reason = "node_failed" if number in failed and attempt.reason != "finished" else attempt.reason
        yield from _attempt(attempt._replace(reason=reason), start, end, span.stepped.get(number))
        if attempt.begun is not None and number in span.reached:
            at, rank = span.reached[number]
            yield Event(at * US, "step_started", number, None if rank < 0 else rank, attempt.begun)
    yield from waits.events({number: start for number, (start, _) in ends.items()})
    for happening in happenings:
        if happening.type == "hang":
            yield from _stall(happening, ends, now_us)
        else:
            yield from _happening(happening)


def _attempt(attempt: AttemptRecord, start: int, end: int | None, stepped: int | None) -> Iterator[Event]:
    number = attempt.number
    yield Event(start * US, "attempt_started", number, devices=attempt.devices)
    if stepped is not None and stepped > start:
        yield Event(start * US, "phase_started", number, phase="init")
        yield Event(stepped * US, "phase_ended", number, phase="init")
    elif stepped is None and attempt.unstepped:
        yield Event(start * US, "phase_started", number, phase="init")
    if end is not None:
        yield Event(end * US, "attempt_ended", number, reason=attempt.reason)


def _step(record: StepRecord) -> Iterator[Event]:
    attempt, rank, number = record.attempt, record.rank, record.step
    start = record.start_us
    end = start + max(round(record.duration_s * 1e6), 0)
    yield Event(start * US, "step_started", attempt, rank, number, every=record.every)
    at = start
    for name, seconds in record.phases.items():
        if name not in BUCKET_PHASES or not seconds > 0:  # NaN: not measured
            continue
        until = min(at + round(min(seconds, record.duration_s) * 1e6), end)
        if until > at:
            yield Event(at * US, "phase_started", attempt, rank, phase=name)
            yield Event(until * US, "phase_ended", attempt, rank, phase=name)
            at = until
    yield Event(end * US, "step_ended", attempt, rank, number)


def _stall(hang: Happening, ends: Mapping[int, tuple[int, int | None]], now_us: int | None) -> Iterator[Event]:
    """A hang within its attempt; one that goes on has lasted until the attempt's end, or until now."""
    if hang.attempt is None or hang.attempt not in ends:
        return
    start, end = ends[hang.attempt]
    last = now_us if end is None else end
    until = hang.ended_us if last is None else last if hang.ended_us is None else min(hang.ended_us, last)
    begun = max(hang.started_us, start)
    if until is not None and until > begun:
        yield Event(begun * US, "stall", hang.attempt, until=until * US)


def _happening(happening: Happening) -> Iterator[Event]:
    if happening.type == "checkpoint_durable" and happening.step is not None:
        yield Event(happening.started_us * US, "checkpoint_durable", step=happening.step)
    if happening.attempt is None or happening.ended_us is None or happening.ended_us < happening.started_us:
        return
    start, end = happening.started_us * US, happening.ended_us * US
    if happening.type == "phase" and happening.word:
        yield Event(start, "phase_started", happening.attempt, happening.rank, phase=happening.word)
        yield Event(end, "phase_ended", happening.attempt, happening.rank, phase=happening.word)
