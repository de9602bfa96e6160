"""Records of the SDK and of ``stepward run`` as events of the ledger.

Assumed: a step's phases follow one another from its start (the records hold their seconds, not their places); the time
between an attempt's start and its first step is ``init`` where no phase says otherwise; an attempt begins and ends no
later than its records say, whatever the server's clock saw. Device clocks only annotate: host phases are what was waited.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from stepward.goodput.events import Event
from stepward.goodput.tracks import BUCKET_PHASES

US = 1_000  # ns
LONGEST_S = 1e9
"""Some thirty years: a step that took longer was timed by a broken clock, and says nothing."""
ASSUMPTIONS = (
    "from an attempt's start to its first step is init, where no phase says otherwise",
    "phases of a step follow one another from its start",
)


class AttemptRecord(NamedTuple):
    """One attempt; ``reason`` is its terminal state, None while it runs. Times in µs."""

    number: int
    started_us: int
    ended_us: int | None
    reason: str | None
    devices: int | None


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
    """An event of the catalog: ``phase`` (``name``), ``checkpoint_durable`` (``step``) or ``hang``."""

    type: str
    attempt: int | None
    rank: int | None
    step: int | None
    started_us: int
    ended_us: int | None
    name: str = ""


def events_of(
    attempts: Iterable[AttemptRecord],
    steps: Iterable[StepRecord],
    happenings: Iterable[Happening] = (),
    *,
    ended: str | None,
) -> list[Event]:
    """The events of a run, in no order.

    Args:
        ended: the terminal state of the run, None while more is expected.
    """
    told: list[Event] = []
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for record in steps:
        if not abs(record.duration_s) <= LONGEST_S:  # NaN as well
            continue
        told += _step(record)
        _widen(first, last, record.attempt, record.start_us, record.start_us + round(record.duration_s * 1e6))
    begun = dict(first)
    for happening in happenings:
        told += _happening(happening)
        if happening.attempt is not None and happening.type == "phase":
            _widen(first, last, happening.attempt, happening.started_us, happening.ended_us or happening.started_us)
    known = list(attempts)
    for attempt in known:
        told += _attempt(attempt, first.get(attempt.number), last.get(attempt.number), begun.get(attempt.number))
    if ended is not None and told:
        told.append(Event(max(event.until or event.t for event in told), "job_ended", reason=ended))
    return told


def _widen(first: dict[int, int], last: dict[int, int], attempt: int, start: int, end: int) -> None:
    first[attempt] = min(first.get(attempt, start), start)
    last[attempt] = max(last.get(attempt, end), end)


def _attempt(attempt: AttemptRecord, first: int | None, last: int | None, stepped: int | None) -> Iterator[Event]:
    start = min(attempt.started_us, first if first is not None else attempt.started_us)
    yield Event(start * US, "attempt_started", attempt.number, devices=attempt.devices)
    if stepped is not None and stepped > start:
        yield Event(start * US, "phase_started", attempt.number, phase="init")
        yield Event(stepped * US, "phase_ended", attempt.number, phase="init")
    if attempt.reason is not None:
        end = max(attempt.ended_us or start, last or start, start)
        yield Event(end * US, "attempt_ended", attempt.number, reason=attempt.reason)


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


def _happening(happening: Happening) -> Iterator[Event]:
    if happening.type == "checkpoint_durable" and happening.step is not None:
        yield Event(happening.started_us * US, "checkpoint_durable", step=happening.step)
    if happening.attempt is None or happening.ended_us is None or happening.ended_us < happening.started_us:
        return
    start, end = happening.started_us * US, happening.ended_us * US
    if happening.type == "phase" and happening.name:
        yield Event(start, "phase_started", happening.attempt, happening.rank, phase=happening.name)
        yield Event(end, "phase_ended", happening.attempt, happening.rank, phase=happening.name)
    elif happening.type == "hang":
        yield Event(start, "stall", happening.attempt, until=end)
