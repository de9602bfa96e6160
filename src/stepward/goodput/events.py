"""Events of a run as the ledger takes them, read from JSON lines; what can't be one is rejected with its reason.

Times are whole nanoseconds from here on (rounded to the microsecond when read), so that all sums are exact.
"""

import itertools
import operator
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

import msgspec

Kind = Literal[
    "job_submitted",
    "attempt_started",
    "phase_started",
    "phase_ended",
    "step_started",
    "step_ended",
    "checkpoint_durable",
    "stall",
    "attempt_ended",
    "job_ended",
]

_NEEDS: dict[str, tuple[str, ...]] = {
    "job_submitted": (),
    "attempt_started": ("attempt",),
    "phase_started": ("attempt", "phase"),
    "phase_ended": ("attempt", "phase"),
    "step_started": ("attempt", "step"),
    "step_ended": ("attempt", "step"),
    "checkpoint_durable": ("step",),
    "stall": ("attempt", "until"),
    "attempt_ended": ("attempt",),
    "job_ended": (),
}

# At the same instant (rule 1): ends before starts, the job's own end last.
ORDER: dict[str, int] = {
    "job_submitted": 0,
    "step_ended": 1,
    "phase_ended": 1,
    "attempt_ended": 2,
    "attempt_started": 3,
    "step_started": 4,
    "phase_started": 4,
    "stall": 4,
    "checkpoint_durable": 4,
    "job_ended": 5,
}

US = 1_000  # nanoseconds
LATEST_S = 1e15
"""Seconds beyond which a float no longer tells microseconds by far, and sums would leave what a report can write."""


class Event(msgspec.Struct, gc=False):
    """One fact of a run's history; ``t`` and ``until`` in ns, ``line`` is where it was read (0: nowhere)."""

    t: int
    kind: str
    attempt: int | None = None
    rank: int | None = None
    step: int | None = None
    phase: str | None = None
    until: int | None = None
    every: int | None = None
    devices: int | None = None
    resume_step: int | None = None
    reason: str | None = None
    line: int = 0

    @property
    def identity(self) -> tuple[object, ...]:
        """What makes two lines one event (rule 1)."""
        return (self.kind, self.attempt, self.rank, self.step, self.phase, self.t, self.until)


def in_order(events: Iterable[Event]) -> list[Event]:
    """Events by time and, at one instant, by rule 1; each once."""
    ordered = list(events)
    instants = [event.t * 8 + ORDER[event.kind] for event in ordered]
    if not all(map(operator.le, instants, itertools.islice(instants, 1, None))):
        order = sorted(range(len(ordered)), key=instants.__getitem__)
        ordered, instants = [ordered[at] for at in order], [instants[at] for at in order]
    unique: list[Event] = []
    at = 0
    for first, last in _ties(instants):
        once: dict[tuple[object, ...], Event] = {}
        for event in ordered[first:last]:
            known = once.get(event.identity)
            if known is None or _fullness(event) > _fullness(known):
                once[event.identity] = event
        unique += ordered[at:first]
        unique += sorted(once.values(), key=lambda e: (e.step or 0, e.phase or "", e.rank or 0))
        at = last
    return unique + ordered[at:]


def _fullness(event: Event) -> tuple[int, int, int, str]:
    """Of two lines that are one event, the one that says more is it, whichever came first."""
    return (
        event.every or 0,
        event.devices or 0,
        -1 if event.resume_step is None else event.resume_step,
        event.reason or "",
    )


def _ties(instants: Sequence[int]) -> Iterator[tuple[int, int]]:
    """[first, last) of each stretch of ordered instants that are the same."""
    end = 0
    for at in itertools.compress(itertools.count(), map(operator.eq, instants, itertools.islice(instants, 1, None))):
        if at >= end:
            end = at + 2
            while end < len(instants) and instants[end] == instants[at]:
                end += 1
            yield at, end


class Rejection(msgspec.Struct, frozen=True):
    """A line that is not folded in, and why."""

    line: int
    reason: str


def read(lines: Iterable[bytes | str]) -> tuple[list[Event], list[Rejection]]:
    """Events of JSON lines, in their order; blank lines are skipped."""
    events: list[Event] = []
    rejected: list[Rejection] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        event = _event(line, number)
        if isinstance(event, Event):
            events.append(event)
        else:
            rejected.append(Rejection(number, event))
    return events, rejected


decode = msgspec.json.Decoder().decode


def _event(line: bytes | str, number: int) -> Event | str:
    try:
        fields = decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return "not JSON"
    if not isinstance(fields, dict):
        return "not a JSON object"
    kind = fields.get("kind")
    if not isinstance(kind, str) or kind not in _NEEDS:
        return f"unknown kind {str(kind)[:40]!r}"
    t = _nanoseconds(fields.get("t"))
    if t is None:
        return "t is not a finite number of seconds"
    missing = [name for name in _NEEDS[kind] if fields.get(name) is None]
    if missing:
        return f"{kind} without {missing[0]}"
    return _checked(fields, kind, t, number)


def _checked(fields: dict[str, Any], kind: str, t: int, number: int) -> Event | str:
    for name in ("attempt", "rank", "step", "every", "devices", "resume_step"):
        value = fields.get(name)
        if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
            return f"{name} is not a whole number"
    for name in ("every", "devices"):
        if fields.get(name) is not None and fields[name] < 1:
            return f"{name} is below 1"
    until = None
    if kind == "stall":
        until = _nanoseconds(fields["until"])
        if until is None or until < t:
            return "until is before t, or not a finite number"
    phase, reason = fields.get("phase"), fields.get("reason")
    if phase is not None and not isinstance(phase, str):
        return "phase is not a string"
    return Event(
        t,
        kind,
        fields.get("attempt"),
        fields.get("rank"),
        fields.get("step"),
        phase,
        until,
        fields.get("every"),
        fields.get("devices"),
        fields.get("resume_step"),
        reason if isinstance(reason, str) else None,
        number,
    )


def _nanoseconds(seconds: object) -> int | None:
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        return None
    if not -LATEST_S <= seconds <= LATEST_S:  # NaN neither
        return None
    return seconds * 1_000_000_000 if isinstance(seconds, int) else round(seconds * 1e6) * US
