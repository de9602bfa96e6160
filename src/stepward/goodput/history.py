"""Which events make sense together (rule 1), and what they say of attempts, steps and phases (rule 3).

A history is what the rest of the ledger works on: attempts with an end each, per-rank steps and phases with an end each.
"""

from collections.abc import Iterable, Sequence

import msgspec

from stepward.goodput.events import ORDER, Event, Rejection, in_order
from stepward.goodput.steps import Block, Rank


class Phase(msgspec.Struct, gc=False):
    """A phase of one rank: [start, end)."""

    name: str
    start: int
    end: int


class Attempt(msgspec.Struct):
    """One launch: [start, end), why it ended (None: it is running), what its ranks reported.

    ``after``: steps up to this one are not among ``steps``, they are accounted for elsewhere (``live``), and ``stepped`` is
    when the first of them began.
    """

    number: int
    start: int
    end: int
    reason: str | None = None
    devices: int | None = None
    resume_step: int | None = None
    steps: dict[Rank, list[Block]] = {}
    phases: dict[Rank, list[Phase]] = {}
    stalls: list[tuple[int, int]] = []
    after: int | None = None
    stepped: int | None = None

    @property
    def running(self) -> bool:
        """Whether nothing has ended it yet."""
        return self.reason is None


class History(msgspec.Struct):
    """The accepted history of a run; ``attempts`` in the order of their starts."""

    start: int
    end: int
    attempts: list[Attempt]
    submitted: dict[int | None, int]
    durable: list[tuple[int, int]]
    early_phases: list[Phase]
    ended: bool
    reason: str | None
    rejected: list[Rejection]


def build(events: Iterable[Event], rejected: Iterable[Rejection], now: int | None = None) -> History | None:
    """The history that the events tell; None when nothing of it was accepted.

    Args:
        events: in any order, repeated or not.
        rejected: what reading refused before.
        now: end of the wall of a run that has not ended, ns.
    """
    refused, told = list(rejected), list(events)
    reader = Reader(list(refused))
    if not reader.read_as_told(told):
        reader = Reader(refused)
        reader.read(in_order(told))
    return reader.history(now)


class _Open(msgspec.Struct, gc=False):
    """What one rank of an attempt has open: its step, its phases, and when its last step began (phases end there, rule 3)."""

    attempt: Attempt
    steps: list[Block]
    phases: dict[str, Phase]
    step: Block | None = None
    last_step_start: int | None = None

    def begin(self, event: Event) -> None:
        """A step begins; whatever was open is closed."""
        assert event.step is not None
        self.step = Block(event.step, event.t, _OPEN_END, False, event.every)
        self.last_step_start = event.t
        self.steps.append(self.step)

    def end(self, event: Event) -> bool:
        """The open step ends; False if it is another one, or none."""
        step = self.step
        if step is None or step.step != event.step:
            return False
        step.end, step.ended, self.step = event.t, True, None
        if event.every:
            step.every = event.every
        return True


class Reader:
    """Takes events in the order of ``in_order``, accepting or rejecting each; ``history`` closes what is open."""

    def __init__(self, rejected: list[Rejection]) -> None:
        self.rejected = rejected
        self.attempts: dict[int, Attempt] = {}
        self.submitted: dict[int | None, int] = {}
        self.durable: list[tuple[int, int]] = []
        self.open: dict[tuple[int, Rank], _Open] = {}
        self.last_event: dict[int, int] = {}
        self.last_t: int | None = None
        self.first_t: int | None = None
        self.job_end: Event | None = None
        self.waiting: dict[tuple[int, Rank, str], Phase] = {}
        self.early: list[Phase] = []

    def read_as_told(self, events: Sequence[Event]) -> bool:
        """Take in events that are in order but for those of one instant; False when they are not, and all is void then.

        The way of nearly every timeline, and of nearly every event in it: a step that fits.
        """
        at, count = 0, len(events)
        while at < count:
            at = self._read_plain(events, at)
            if at == count:
                break
            # What is not plain is read with all that is left of its instant.
            t, end = events[at].t, at + 1
            while end < count and events[end].t == t:
                end += 1
            rest = events[at:end]
            if at and (events[at - 1].t > t or (events[at - 1].t == t and _precedes(events[at - 1], rest))):
                return False
            self.read(in_order(rest))
            at = end
        return True

    def _read_plain(self, events: Sequence[Event], first: int) -> int:
        """Take in steps that fit, as long as each event comes strictly after the one before; where they end."""
        is_open: _Open | None = None
        attempt = rank = number = None
        last = events[first - 1].t if first else -_OPEN_END
        until = len(events)
        for at in range(first, len(events)):
            event = events[at]
            t, kind = event.t, event.kind
            until = at
            if t <= last and (t < last or ORDER[kind] <= ORDER[events[at - 1].kind]):
                break
            if is_open is None or event.attempt != attempt or event.rank != rank:
                if number is not None:
                    self.last_event[number] = last
                attempt, rank = event.attempt, event.rank
                is_open = self.open.get((attempt, rank))  # type: ignore[arg-type]  # no attempt: nothing is found
                if is_open is None or is_open.attempt.reason is not None or self.job_end is not None:
                    break
            step = is_open.step
            if kind == "step_ended":
                if step is None or step.step != event.step:
                    break
                step.end, step.ended, is_open.step = t, True, None
                if event.every:
                    step.every = event.every
            elif kind == "step_started" and step is None:
                step = Block(event.step, t, _OPEN_END, False, event.every)  # type: ignore[arg-type]  # reading saw to it
                is_open.step, is_open.last_step_start = step, t
                is_open.steps.append(step)
            else:
                break
            last, number = t, attempt
        else:
            until = len(events)
        if number is not None:
            self.last_t = self.last_event[number] = last
        return until

    def read(self, events: Sequence[Event]) -> None:
        """Take in events that are in order, and later than those read before."""
        early_ends: list[Event] = []
        take_plain = self._take_plain
        for event in events:
            if not early_ends and take_plain(event):
                continue
            # An end whose own start has the same t and is not open yet follows it (rule 1).
            if early_ends and (event.t != early_ends[0].t or event.kind == "job_ended"):
                self._take_all(early_ends)
                early_ends = []
            if event.kind in _ENDS and self._opens_later(event):
                early_ends.append(event)
            else:
                self._take_or_reject(event)
        self._take_all(early_ends)

    def history(self, now: int | None) -> History | None:
        """The history, with an end for everything; nothing can be read after that."""
        if self.first_t is None or self.last_t is None:
            return None
        end = self.job_end.t if self.job_end else self.last_t if now is None else now
        return self._closed(self.first_t, max(end, self.first_t))

    # ── acceptance ──

    def _take_plain(self, event: Event) -> bool:
        """Take in what is nearly every event of nearly every run, a step that fits; the long way would do the same."""
        rank = self.open.get((event.attempt, event.rank))  # type: ignore[arg-type]  # no attempt: nothing is found
        if rank is None or rank.attempt.reason is not None:
            return False
        if event.kind == "step_ended":
            if not rank.end(event):
                return False
        elif event.kind == "step_started" and rank.step is None and self.job_end is None:
            rank.begin(event)
        else:
            return False
        self.last_t = self.last_event[rank.attempt.number] = event.t
        return True

    def _take_all(self, events: Iterable[Event]) -> None:
        for event in events:
            self._take_or_reject(event)

    def _take_or_reject(self, event: Event) -> None:
        why = self._take(event)
        if why is not None:
            self.rejected.append(Rejection(event.line, why))
            return
        self.last_t = event.t
        if event.attempt is not None:
            self.last_event[event.attempt] = event.t

    def _opens_later(self, event: Event) -> bool:
        """Whether this end belongs to something that is not open, but starts at the same instant."""
        assert event.attempt is not None
        rank = self.open.get((event.attempt, event.rank))
        if event.kind == "step_ended":
            return rank is None or rank.step is None or rank.step.step != event.step
        waiting = (event.attempt, event.rank, event.phase or "") in self.waiting
        return not waiting and (rank is None or event.phase not in rank.phases)

    def _take(self, event: Event) -> str | None:
        """Take one event in; the reason if it is rejected."""
        kind = event.kind
        if kind == "checkpoint_durable":
            assert event.step is not None
            self.durable.append((event.t, event.step))
            return None
        if kind == "job_ended":
            return self._take_job_ended(event)
        if kind == "job_submitted":
            return self._take_submitted(event)
        assert event.attempt is not None
        if kind == "attempt_started":
            return self._take_attempt_started(event)
        attempt = self.attempts.get(event.attempt)
        if attempt is None:
            return self._take_before_start(event)
        if attempt.reason is not None:
            return f"attempt {event.attempt} had ended"
        if kind == "attempt_ended":
            attempt.end, attempt.reason = event.t, event.reason or "unknown"
            return None
        if self.job_end is not None and kind not in {"step_ended", "phase_ended"}:
            return "the job had ended"
        return self._take_inside(event, attempt)

    def _take_job_ended(self, event: Event) -> str | None:
        if self.job_end is not None:
            return "job_ended came before, at another t"
        self.job_end = event
        return None

    def _take_submitted(self, event: Event) -> str | None:
        if event.attempt in self.submitted:
            return "job_submitted came before, at another t"
        attempt = self.attempts.get(event.attempt) if event.attempt is not None else None
        if self.job_end is not None or (attempt is not None and attempt.reason is not None):
            return "submitted after the end"
        self.submitted[event.attempt] = event.t
        self._first(event.t)
        return None

    def _take_attempt_started(self, event: Event) -> str | None:
        assert event.attempt is not None
        if event.attempt in self.attempts:
            return "attempt_started came before, at another t"
        if self.job_end is not None:
            return "the job had ended"
        self.attempts[event.attempt] = Attempt(
            event.attempt, event.t, event.t, None, event.devices, event.resume_step, {}, {}, []
        )
        for (number, _, _), phase in self.waiting.items():
            if number == event.attempt:
                phase.end = event.t
        self._first(event.t)
        return None

    def _first(self, t: int) -> None:
        self.first_t = t if self.first_t is None else min(self.first_t, t)

    def _take_before_start(self, event: Event) -> str | None:
        """Phases ``provision`` and ``wait_for_nodes`` of an attempt that starts later."""
        if event.phase not in ("provision", "wait_for_nodes"):
            return f"attempt {event.attempt} had not started"
        assert event.attempt is not None and event.phase is not None
        key = (event.attempt, event.rank, event.phase)
        if event.kind == "phase_ended":
            phase = self.waiting.pop(key, None)
            if phase is None:
                return f"no phase {event.phase} is open"
            phase.end = event.t
            return None
        if self.job_end is not None:
            return "the job had ended"
        if key in self.waiting:
            return f"phase {event.phase} is open"
        self.waiting[key] = phase = Phase(event.phase, event.t, _OPEN_END)
        self.early.append(phase)
        return None

    def _take_inside(self, event: Event, attempt: Attempt) -> str | None:
        assert event.attempt is not None
        if event.kind == "stall":
            assert event.until is not None
            attempt.stalls.append((event.t, event.until))
            return None
        rank = self.open.get((event.attempt, event.rank))
        if rank is None:
            steps = attempt.steps.setdefault(event.rank, [])
            rank = self.open[(event.attempt, event.rank)] = _Open(attempt, steps, {})
        if event.kind == "step_started":
            return self._start_step(event, rank)
        if event.kind == "step_ended":
            return None if rank.end(event) else f"step {event.step} is not open"
        return self._phase(event, attempt, rank)

    @staticmethod
    def _start_step(event: Event, rank: _Open) -> str | None:
        if rank.step is not None:
            if rank.step.step == event.step:
                return f"step {event.step} is open"
            rank.step.end = event.t
        rank.begin(event)
        return None

    def _phase(self, event: Event, attempt: Attempt, rank: _Open) -> str | None:
        assert event.phase is not None and event.attempt is not None
        phase = rank.phases.get(event.phase)
        if event.kind == "phase_ended":
            if phase is None:
                early = self.waiting.pop((event.attempt, event.rank, event.phase), None)
                if early is None:
                    return f"no phase {event.phase} is open"
                # It began before its attempt and reaches into it: there it is an ordinary phase of the attempt.
                attempt.phases.setdefault(event.rank, []).append(Phase(event.phase, attempt.start, event.t))
                return None
            phase.end = event.t
            del rank.phases[event.phase]
            return None
        if phase is not None:
            stepped = rank.last_step_start
            if stepped is None or stepped <= phase.start:
                return f"phase {event.phase} is open"
            phase.end = self._next_step_start(attempt, event.rank, phase.start)
        # One that began before the attempt, and is not ended yet, ended with the attempt's start.
        self.waiting.pop((event.attempt, event.rank, event.phase), None)
        phases = attempt.phases.setdefault(event.rank, [])
        rank.phases[event.phase] = phase = Phase(event.phase, event.t, _OPEN_END)
        phases.append(phase)
        return None

    @staticmethod
    def _next_step_start(attempt: Attempt, rank: Rank, after: int) -> int:
        """Start of the first step of the rank later than ``after``; the open end if there is none."""
        later = [step.start for step in reversed(attempt.steps.get(rank, ())) if step.start > after]
        return later[-1] if later else _OPEN_END

    # ── closing what nobody ended (rule 3) ──

    def _closed(self, start: int, end: int) -> History:
        attempts = sorted(self.attempts.values(), key=lambda a: (a.start, a.number))
        for attempt in attempts:
            if attempt.reason is None:
                self._close(attempt, newest=attempt is attempts[-1], wall_end=end)
        for (number, rank), is_open in self.open.items():
            attempt = self.attempts[number]
            if is_open.step is not None:
                is_open.step.end = max(attempt.end, is_open.step.start)
                is_open.step.open = True
            for phase in is_open.phases.values():
                phase.end = min(self._next_step_start(attempt, rank, phase.start), max(attempt.end, phase.start))
        for phase in self.early:
            phase.end = min(phase.end, end)
        reason = None
        if self.job_end is not None:
            reason = self.job_end.reason or (attempts[-1].reason if attempts else None) or "finished"
        return History(
            start,
            end,
            attempts,
            self.submitted,
            self.durable,
            self.early,
            self.job_end is not None,
            reason,
            self.rejected,
        )

    def _close(self, attempt: Attempt, *, newest: bool, wall_end: int) -> None:
        if not newest:
            attempt.end, attempt.reason = self.last_event[attempt.number], "lost"
        elif self.job_end is not None:
            attempt.end, attempt.reason = self.job_end.t, self.job_end.reason or "finished"
        else:
            attempt.end = wall_end


def _precedes(before: Event, rest: Sequence[Event]) -> bool:
    """Whether some of the rest of an instant might have its place before the step that was read of it already."""
    order, place = ORDER[before.kind], (before.attempt, before.rank)
    return any(
        ORDER[event.kind] < order or (ORDER[event.kind] == order and (event.attempt, event.rank) == place)
        for event in rest
    )


_OPEN_END = 1 << 62
_ENDS = frozenset({"step_ended", "phase_ended"})
