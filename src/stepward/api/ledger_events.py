"""A run's records in the stores, as the events of its ledger: all at once, or what came since.

Steps are read in pages by their start, so that a run of any length needs the memory of a page; the live ledger gets them
in order of time with everything else that is known.
"""

import heapq
from collections.abc import Iterable, Iterator, Mapping
from statistics import median
from typing import NamedTuple

from stepward.goodput.events import US, Event
from stepward.goodput.live import LiveLedger, time_of
from stepward.goodput.sources import steplines
from stepward.goodput.sources.records import (
    TYPES,
    AttemptRecord,
    Happening,
    Span,
    StepRecord,
    events_of,
    frame,
    of_steps,
)
from stepward.goodput.sources.waits import TYPES as WAITS
from stepward.goodput.tracks import BUCKET_PHASES
from stepward.model.launches import attempt_numbers
from stepward.model.resources import microseconds
from stepward.model.states import State
from stepward.store.catalog.ledgers import AttemptFacts, EventFacts, LedgerHead, Ledgers, RunFacts
from stepward.store.logs import LogStore
from stepward.store.points.protocol import PointsStore, StepSpan, TimedStep

PAGE_STEPS = 50_000
PAGE_LINES, MOST_PAGES = 5000, 40
LONGEST_WAIT_S = 3600.0
"""Steps are told when they end: a live ledger waits for four usual ones, and never longer than that."""
BEGIN_US = -(1 << 62)


class Records(NamedTuple):
    """What the stores know of a run before its steps are read."""

    head: LedgerHead
    facts: RunFacts
    spans: list[StepSpan]

    @property
    def steps(self) -> int:
        """How many steps were told, over all ranks."""
        return sum(span.steps for span in self.spans)

    @property
    def ended(self) -> str | None:
        """The state in which the run has ended."""
        return self.head.state if State(self.head.state).terminal else None


class LedgerEvents:
    """Reads the records of runs."""

    def __init__(self, ledgers: Ledgers, points: PointsStore, logs: LogStore) -> None:
        self._ledgers, self._points, self._logs = ledgers, points, logs

    def records(self, head: LedgerHead) -> Records:
        """What is known of a run."""
        return Records(head, self._ledgers.facts(head.id), self._points.step_spans(head.project, head.id))

    def everything(self, records: Records, now_us: int) -> list[Event]:
        """All events of a run, in no order."""
        steps: Iterable[StepRecord] = (step for page in self._pages(records, BEGIN_US) for step in page)
        if not records.spans:
            steps = self._printed(records)
        happenings = [*_happenings(self._ledgers.events(records.head.id, TYPES))]
        return events_of(_attempts(records), steps, happenings, ended=records.ended, now_us=now_us)

    def catch_up(self, records: Records, live: LiveLedger, now_us: int) -> None:
        """Tell a live ledger everything that it has not read for good."""
        numbers, offsets = _numbers(records.facts), records.facts.offsets
        span = Span()
        for told in records.spans:
            number, offset = numbers.get(told.attempt, 0), offsets.get((told.attempt, told.rank), 0)
            span.step(number, told.rank, told.start_us + offset, told.end_us + offset)
        # What ends behind that instant may have begun before it.
        since_us = max((live.read_until - live.lateness) // US, BEGIN_US)
        run = records.head.id
        found = [*self._ledgers.events(run, TYPES - WAITS, since_us), *self._ledgers.events(run, WAITS)]
        others = sorted(frame(_attempts(records), [*_happenings(found)], span, now_us=now_us), key=time_of)
        live.begin_again()
        last = 0
        for event in heapq.merge(others, self._stream(records, live, since_us), key=time_of):
            live.feed_again(event)
            last = max(last, event.until or event.t)
        if records.ended is not None:
            over = [attempt.ended_us * US for attempt in records.facts.attempts if attempt.ended_us is not None]
            live.feed_again(Event(max([last, *over]), "job_ended", reason=records.ended))

    def _stream(self, records: Records, live: LiveLedger, since_us: int) -> Iterator[Event]:
        """The events of the steps from an instant on, in order of time."""
        skew = max((abs(offset) for offset in records.facts.offsets.values()), default=0)
        held: list[Event] = []
        for page in self._pages(records, max(since_us - skew, BEGIN_US)):
            live.wait_for(min(4 * median(step.duration_s for step in page), LONGEST_WAIT_S))
            held += of_steps(page, Span())
            held.sort(key=time_of)
            certain = (max(step.start_us for step in page) - 2 * skew) * US
            upto = next((at for at, event in enumerate(held) if event.t >= certain), len(held))
            yield from held[:upto]
            del held[:upto]
        yield from held

    def _pages(self, records: Records, since_us: int) -> Iterator[list[StepRecord]]:
        head, numbers, offsets = records.head, _numbers(records.facts), records.facts.offsets
        last: set[tuple[str, int, int, int]] = set()
        while True:
            rows = self._points.timed_steps(
                head.project, head.id, phases=BUCKET_PHASES, since_us=since_us, limit=PAGE_STEPS
            )
            fresh = [row for row in rows if _key(row) not in last]
            if fresh:
                yield [_step(row, numbers, offsets) for row in fresh]
            if len(rows) < PAGE_STEPS or not fresh:
                return
            since_us = rows[-1].start_us
            last = {_key(row) for row in rows if row.start_us == since_us}

    def _printed(self, records: Records) -> list[StepRecord]:
        """The steps that a run without the SDK printed: of each attempt's first stream that has step lines."""
        numbers, head = _numbers(records.facts), records.head
        found: dict[int, list[StepRecord]] = {}
        for stream in self._logs.streams(head.project, head.id, attempts=numbers):
            if stream.attempt not in found and stream.rank in (None, 0):
                steps = steplines.steps_of(self._step_lines(head, numbers, stream.id), stream.attempt)
                if steps:
                    found[stream.attempt] = steps
        return [step for steps in found.values() for step in steps]

    def _step_lines(self, head: LedgerHead, numbers: dict[str, int], stream: str) -> Iterator[steplines.Line]:
        from_n = 1
        for _ in range(MOST_PAGES):
            page = self._logs.page(
                head.project, head.id, stream, attempts=numbers, from_n=from_n, limit=PAGE_LINES, q=steplines.QUERY
            )
            for line in page.lines:
                if line.at is not None:
                    yield steplines.Line(microseconds(line.at) / 1e6, line.text)
            if len(page.lines) < PAGE_LINES:
                return
            from_n = page.lines[-1].n + 1


def _numbers(facts: RunFacts) -> dict[str, int]:
    return attempt_numbers((attempt.key, attempt.number) for attempt in facts.attempts)


def _key(row: TimedStep) -> tuple[str, int, int, int]:
    return row.attempt, row.rank, row.step, row.start_us


def _step(row: TimedStep, numbers: Mapping[str, int], offsets: Mapping[tuple[str, int], int]) -> StepRecord:
    start = row.start_us + offsets.get((row.attempt, row.rank), 0)
    return StepRecord(numbers.get(row.attempt, 0), row.rank, row.step, start, row.duration_s, row.phases)


def _attempts(records: Records) -> list[AttemptRecord]:
    told: dict[str, int] = {}
    for span in records.spans:
        told[span.attempt] = max(told.get(span.attempt, span.last), span.last)
    return [
        AttemptRecord(
            attempt.number,
            attempt.started_us,
            attempt.ended_us,
            attempt.state if State(attempt.state).terminal else None,
            attempt.ranks or None,
            queued=attempt.state == State.QUEUED,
            unstepped=attempt.joined and attempt.last_step is None and attempt.key not in told,
            begun=_begun(attempt, told.get(attempt.key)),
        )
        for attempt in records.facts.attempts
    ]


def _begun(attempt: AttemptFacts, told: int | None) -> int | None:
    """The step that an attempt died or hangs in; a heartbeat names it, a row of it never came."""
    state = State(attempt.state)
    died = state is State.HUNG or (state.terminal and state is not State.FINISHED)
    if not died or told is None or attempt.last_step is None or attempt.last_step <= told:
        return None
    return attempt.last_step


def _happenings(events: Iterable[EventFacts]) -> Iterator[Happening]:
    """What events say to the ledger. Of a detector's, only what is confirmed counts."""
    for event in events:
        if event.data.get("certainty", "confirmed") != "confirmed":
            continue
        yield Happening(
            event.type,
            event.attempt,
            event.rank,
            event.step,
            event.started_us,
            event.ended_us,
            str(event.data.get("reason" if event.type == "queued" else "name", "")),
        )
