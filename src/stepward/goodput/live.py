"""The ledger of a run that goes on: fed event by event, it answers at any time what ``replay`` would answer by now.

What is older than ``fold_steps`` steps is folded into segments (``settled``), so that memory does not grow with the run;
the rest is accounted for exactly, with the ledger itself. Figures are provisional: events more than ``lateness_s`` behind
the newest are refused, a resume into the middle of a folded interval takes its share, and a window that begins inside a
folded segment takes an even share of it. A finished run is replayed.
"""

import copy
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from stepward.goodput.blocks import blocks_of
from stepward.goodput.events import Event, Rejection, in_order
from stepward.goodput.history import Attempt, History, Reader
from stepward.goodput.ideal import WINDOW, RollingMedian, same
from stepward.goodput.ledger import BUCKETS, Accountant, Ledger, Part
from stepward.goodput.settled import Interval, Owner, Segment, Totals, add, joined, share_of
from stepward.goodput.steps import Block, Rank
from stepward.goodput.survival import NEVER

NS = 1_000_000_000
LATENESS_S = 60.0
"""Events of different writers may overtake each other by this much."""
FOLD_STEPS = 512
"""Steps of a rank that are kept one by one before they are folded."""
BATCH = 256
MAX_INTERVALS = 1024
"""Segments and intervals that are kept; beyond, the oldest are joined two by two."""
MAX_REJECTIONS = 1000


class Standing(NamedTuple):
    """The ledger by now, those of the last so many ns of the wall, and each attempt's buckets, by its number.

    ``history`` has all attempts; of their steps and phases only what is not folded.
    """

    whole: Ledger
    windows: list[Ledger]
    by_attempt: dict[int, dict[str, int]]
    history: History
    devices: list[int]


class LiveLedger:
    """The ledger of one run, up to now.

    Attributes:
        late: events that came too late to be taken in.
    """

    def __init__(self, *, lateness_s: float = LATENESS_S, fold_steps: int = FOLD_STEPS) -> None:
        self.late = 0
        self._lateness = round(lateness_s * NS)
        self._fold_steps = fold_steps
        self._reader = Reader([])
        self._waiting: list[Event] = []
        self._newest = self._read_until = -NEVER
        self._since: int | None = None
        self._segments: list[Segment] = []
        self._medians = RollingMedian()
        self._lost_steps = self._overlap = 0
        self._pending = 0

    def feed(self, event: Event) -> None:
        """Take one event in."""
        if event.t < self._read_until:
            self.late += 1
            return
        self._waiting.append(event)
        self._newest = max(self._newest, event.t)
        if len(self._waiting) >= BATCH and self._newest - self._lateness > self._read_until:
            self._read()

    def feed_all(self, events: Iterable[Event]) -> None:
        """Take events in."""
        for event in events:
            self.feed(event)

    def wait_for(self, seconds: float) -> None:
        """From now on events may overtake each other by that much, if it is more than before."""
        self._lateness = max(self._lateness, round(seconds * NS))

    @property
    def lateness(self) -> int:
        """By how much events may overtake each other, ns."""
        return self._lateness

    @property
    def read_until(self) -> int:
        """What lies before that instant (ns) has been read for good."""
        return self._read_until

    def catch_up(self, events: Iterable[Event]) -> None:
        """Take in all that there is from ``read_until`` on, in any order; what waited from an earlier time is replaced."""
        self.begin_again()
        for event in sorted(events, key=time_of):
            self.feed_again(event)

    def begin_again(self) -> None:
        """Forget what waits to be read: everything from ``read_until`` on is told again, by ``feed_again``."""
        self._waiting = []

    def feed_again(self, event: Event) -> None:
        """As ``feed``; what lies before ``read_until`` has been read, but for the rest of a hang that goes on."""
        if event.until is not None and event.t < self._read_until < event.until:
            event = msgspec.structs.replace(event, t=self._read_until)
        if event.t >= self._read_until:
            self.feed(event)

    def ledger(self, now: int | None = None) -> Ledger | None:
        """The ledger by now (ns; None: by the newest event); None as long as nothing has begun."""
        standing = self.standing(now)
        return None if standing is None else standing.whole

    def standing(self, now: int | None = None, windows: Sequence[int] = ()) -> Standing | None:
        """The ledger by now with those of the last ``windows`` ns; None as long as nothing has begun."""
        reader = self._twin()
        reader.read(in_order(self._waiting))
        history = reader.history(now)
        if history is None:
            return None
        begun, rest = history.start, history
        if self._since is not None:
            rest = msgspec.structs.replace(history, start=min(self._since, history.end))
        ideal = self._ideal_with(rest)
        whole, totals, devices = self._since_start(rest, ideal, begun)
        by_attempt: dict[int, dict[str, int]] = {}
        for (number, _), own in totals.items():
            if number is not None:
                mine = by_attempt.setdefault(number, dict.fromkeys(own, 0))
                for bucket, ns in own.items():
                    mine[bucket] += ns
        parts = [self._since_start(rest, whole.ideal, max(begun, history.end - window))[0] for window in windows]
        return Standing(whole, parts, by_attempt, history, devices)

    def rejections(self) -> list[Rejection]:
        """What was refused, the first ``MAX_REJECTIONS``."""
        return list(self._reader.rejected)

    # ── reading ──

    def _read(self) -> None:
        """Read what nothing can overtake any more, and fold once that is much."""
        until = self._newest - self._lateness
        ready = [event for event in self._waiting if event.t < until]
        self._waiting = [event for event in self._waiting if event.t >= until]
        self._read_until = until
        self._reader.read(in_order(ready))
        del self._reader.rejected[MAX_REJECTIONS:]
        self._pending += len(ready)
        if self._pending >= 2 * self._fold_steps and self._reader.job_end is None:
            self._pending = 0
            self._fold()

    def _twin(self) -> Reader:
        return copy.deepcopy(self._reader)

    # ── folding ──

    def _fold(self) -> None:
        snapshot = self._twin().history(self._read_until)
        if snapshot is None:
            return
        blocks = [blocks_of(attempt) for attempt in snapshot.attempts]
        until = self._boundary(blocks)
        since = snapshot.start if self._since is None else self._since
        if until <= since:
            return
        segment, last = _cut(snapshot, blocks, since, until)
        accountant = Accountant(segment, self._ideal())
        self._settle(accountant, segment)
        self._forget(snapshot, segment, last)
        if segment.durable:
            durable = accountant.survival.durable
            later = [(t, step) for t, step in self._reader.durable if t >= until]
            self._reader.durable = [(until - 1, -NEVER if durable is None else durable), *later]
        self._since = until

    def _boundary(self, blocks: list[list[Block]]) -> int:
        """The latest instant up to which everything is known and that cuts no step in two."""
        reader = self._reader
        # Time behind the last accepted event is not the run's yet.
        until = min(self._read_until, reader.last_t or 0)
        newest = max(reader.attempts.values(), key=lambda a: (a.start, a.number), default=None)
        for rank in reader.open.values():
            if rank.attempt is not newest or newest.reason is not None:
                continue
            if rank.step is not None:
                until = min(until, rank.step.start)
            for phase in rank.phases.values():
                if rank.last_step_start is None or rank.last_step_start <= phase.start:
                    until = min(until, phase.start)
        for _ in blocks:
            for own in blocks:
                until = min([until, *(block.start for block in own if block.start < until < block.end)])
        return until

    def _settle(self, accountant: Accountant, history: History) -> None:
        """Take a stretch of the history into a segment: its steps into intervals, the rest of its time into buckets."""
        for start in accountant.survival.starts:
            for segment in self._segments:
                segment.lose(start.t, start.step, accountant.account_part)
        segment = Segment(history.start, history.end, {}, [])
        self._segments.append(segment)
        checkpoints = sorted({step for _, step in history.durable})
        for index, (attempt, devices) in enumerate(zip(history.attempts, accountant.devices, strict=True)):
            owner: Owner = attempt.number, devices
            interval: Interval | None = None
            for block in accountant.blocks[index]:
                for part in accountant.parts(index, block):
                    if not part.kept or not part.complete:
                        accountant.account_part(accountant.by_owner[index], part)
                        continue
                    if interval is None or block.rewind or _between(checkpoints, interval.last, part.step):
                        interval = Interval.of(owner, block.start, part.step)
                        segment.intervals.append(interval)
                    interval.add(part)
                    self._sample(interval, part)
            accountant.account_outside(index)
            if any(accountant.by_owner[index].values()):
                segment.add(owner, accountant.by_owner[index])
        for start_ns, end_ns, bucket, devices in accountant.ownerless():
            segment.add((None, devices), {bucket: end_ns - start_ns})
        self._lost_steps += accountant.lost_steps
        self._overlap += accountant.overlap()
        self._thin_out()

    def _sample(self, interval: Interval, part: Part) -> None:
        if part.first:
            return
        for net in same(part.net // part.count, part.count):
            median = self._medians.add(net)
            if self._medians.full and (interval.lowest is None or median < interval.lowest):
                interval.lowest = median

    def _forget(self, snapshot: History, segment: History, last: dict[int, int]) -> None:
        """Drop from the reader what a segment of the snapshot holds; ``last`` is each attempt's last step in it."""
        until = segment.end
        for told, cut in zip(snapshot.attempts, segment.attempts, strict=True):
            attempt = self._reader.attempts[told.number]
            if attempt.stepped is None:
                attempt.stepped = min((steps[0].start for steps in cut.steps.values() if steps), default=None)
            for rank, steps in cut.steps.items():
                del attempt.steps[rank][: len(steps)]
            attempt.after = last.get(told.number, attempt.after)
            for rank, phases in told.phases.items():
                mine = attempt.phases[rank]
                mine[:] = [phase for phase, seen in zip(mine, phases, strict=True) if seen.end > until]
            attempt.stalls[:] = [stall for stall in attempt.stalls if stall[1] > until]
        self._reader.early[:] = [phase for phase in self._reader.early if phase.end > until]

    def _thin_out(self) -> None:
        """Join the oldest segments, two by two, where there is too much."""
        if sum(1 + len(segment.intervals) for segment in self._segments) > MAX_INTERVALS and len(self._segments) > 1:
            half = (len(self._segments) + 1) // 2
            self._segments = [*joined(self._segments[:half]), *self._segments[half:]]

    # ── answering ──

    def _ideal(self) -> int | None:
        """The ideal of what is folded; None where nothing is."""
        intervals = (interval for segment in self._segments for interval in segment.intervals)
        lowest = min((one.lowest for one in intervals if one.lowest is not None), default=None)
        return self._medians.median if lowest is None else lowest

    def _ideal_with(self, history: History) -> int | None:
        """The ideal of what is folded and of what is not."""
        folded = self._ideal()
        if folded is None:
            return None
        rest = Accountant(history, None)
        long_enough = sum(len(own) for own in rest.blocks) > WINDOW
        return min(folded, rest.ideal) if rest.ideal is not None and long_enough else folded

    def _since_start(self, rest: History, ideal: int | None, start: int) -> tuple[Ledger, Totals, list[int]]:
        """The ledger from an instant on: exact for the rest, with what is folded added; time by owner; devices."""
        accountant = Accountant(msgspec.structs.replace(rest, start=max(rest.start, start)), ideal)
        accountant.lost_steps += self._lost_steps
        totals: Totals = {}
        for segment in self._segments:
            if segment.end > start:
                inside = self._totals_of(segment, accountant)
                if segment.start < start:
                    inside = share_of(inside, segment.end - start, segment.end - segment.start)
                for owner, own in inside.items():
                    add(totals, owner, own)
        ledger = accountant.ledger()
        for (_, devices), own in totals.items():
            for bucket, ns in own.items():
                ledger.buckets[bucket] += ns
                ledger.buckets_device[bucket] += ns * devices
        for attempt, devices, own in zip(rest.attempts, accountant.devices, accountant.by_owner, strict=True):
            add(totals, (attempt.number, devices), own)
        ledger.wall, ledger.device = rest.end - start, sum(ledger.buckets_device.values())
        ledger.overlap_device += self._overlap
        return ledger, totals, accountant.devices

    @staticmethod
    def _totals_of(segment: Segment, accountant: Accountant) -> Totals:
        """The time of a segment by its owners and buckets, as things stand now."""
        survival, durable = accountant.survival, accountant.survival.durable
        totals: Totals = {owner: dict(own) for owner, own in segment.totals.items()}
        for interval in segment.intervals:
            kept, lost = interval.split(survival.first_unkept(interval.started))
            own = dict.fromkeys(BUCKETS, 0)
            pieces = [(lost, False)]
            pieces += [
                (piece, True) for piece in (kept.split(-NEVER if durable is None else durable + 1) if kept else ())
            ]
            for piece, is_kept in pieces:
                for part in piece.parts(kept=is_kept) if piece else ():
                    accountant.account_part(own, part)
            add(totals, interval.owner, own)
        return totals


def time_of(event: Event) -> int:
    """The instant of an event, to sort by."""
    return event.t


def _between(checkpoints: list[int], last: int, step: int) -> bool:
    """Whether a checkpoint separates the steps ``last`` and ``step``."""
    return any(last <= checkpoint < step for checkpoint in checkpoints)


def _cut(snapshot: History, blocks: list[list[Block]], since: int, until: int) -> tuple[History, dict[int, int]]:
    """The history in [since, until), and the last step in it of each attempt (by number)."""
    attempts: list[Attempt] = []
    last: dict[int, int] = {}
    for attempt, own in zip(snapshot.attempts, blocks, strict=True):
        inside = [block for block in own if block.end <= until and block.start < until]
        steps: dict[Rank, list[Block]] = {}
        if inside:
            last[attempt.number] = inside[-1].step
            limit = (sum(block.rewind for block in inside), inside[-1].step)
            steps = {rank: _up_to(steps, attempt.after, limit) for rank, steps in attempt.steps.items()}
        attempts.append(msgspec.structs.replace(attempt, steps=steps))
    durable = [(t, step) for t, step in snapshot.durable if t < until]
    segment = msgspec.structs.replace(
        snapshot, start=since, end=until, attempts=attempts, durable=durable, ended=False, reason=None
    )
    return segment, last


def _up_to(steps: list[Block], before: int | None, limit: tuple[int, int]) -> list[Block]:
    """The steps of a rank up to a step of the job, given as (rewinds until it, number); ``before`` is the step before."""
    rewinds = 0
    for at, step in enumerate(steps):
        rewinds += before is not None and step.step <= before
        before = step.step
        if (rewinds, step.step) > limit:
            return steps[:at]
    return steps
