"""The ledger of a run that goes on: fed event by event, it answers at any time what ``replay`` would answer by now.

What is older than ``fold_steps`` steps is folded into intervals (``settled``), so that memory does not grow with the run;
the rest is accounted for exactly, with the ledger itself. Figures are provisional: events more than ``lateness_s`` behind
the newest are refused, and a resume into the middle of a folded interval takes its share. A finished run is replayed.
"""

import copy
from collections.abc import Iterable

import msgspec

from stepward.goodput.blocks import Block, blocks_of
from stepward.goodput.events import Event, Rejection, in_order
from stepward.goodput.history import Attempt, History, Rank, RankStep, Reader
from stepward.goodput.ideal import WINDOW, RollingMedian, same
from stepward.goodput.ledger import BUCKETS, Accountant, Ledger, Part
from stepward.goodput.settled import Interval
from stepward.goodput.survival import NEVER

NS = 1_000_000_000
LATENESS_S = 60.0
"""Events of different writers may overtake each other by this much."""
FOLD_STEPS = 512
"""Steps of a rank that are kept one by one before they are folded."""
BATCH = 256
MAX_INTERVALS = 1024
MAX_REJECTIONS = 1000


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
        self._intervals: list[Interval] = []
        self._settled: dict[int, dict[str, int]] = {}
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

    @property
    def read_until(self) -> int:
        """What lies before that instant (ns) has been read for good."""
        return self._read_until

    def catch_up(self, events: Iterable[Event]) -> None:
        """Take in all that there is from ``read_until`` on, in any order; what waited from an earlier time is replaced."""
        self._waiting = []
        for event in sorted(events, key=_time):
            if event.t >= self._read_until:
                self.feed(event)

    def ledger(self, now: int | None = None) -> Ledger | None:
        """The ledger by now (ns; None: by the newest event); None as long as nothing has begun."""
        reader = self._twin()
        reader.read(in_order(self._waiting))
        history = reader.history(now)
        if history is None:
            return None
        begun = history.start
        if self._since is not None:
            history.start = min(self._since, history.end)
        return self._with_settled(Accountant(history, self._ideal_with(history)), history.end - begun)

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

    def _settle(self, accountant: Accountant, segment: History) -> None:
        """Take a segment's steps into intervals and the rest of its time into buckets."""
        for start in accountant.survival.starts:
            self._lose(accountant, start.t, start.step)
        checkpoints = sorted({step for _, step in segment.durable})
        for index, devices in enumerate(accountant.devices):
            interval: Interval | None = None
            for block in accountant.blocks[index]:
                for part in accountant.parts(index, block):
                    if not part.kept or not part.complete:
                        accountant.account_part(accountant.by_owner[index], part)
                        continue
                    if interval is None or block.rewind or _between(checkpoints, interval.last, part.step):
                        interval = Interval.of(devices, block.start, part.step)
                        self._intervals.append(interval)
                    interval.add(part)
                    self._sample(interval, part)
            accountant.account_outside(index)
            self._add(devices, accountant.by_owner[index])
        for start_ns, end_ns, bucket, devices in accountant.ownerless():
            self._add(devices, {bucket: end_ns - start_ns})
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

    def _lose(self, accountant: Accountant, t: int, step: int) -> None:
        """A start goes back to a step: what intervals hold from there on is lost."""
        kept: list[Interval] = []
        for interval in self._intervals:
            sound, lost = interval.split(step) if interval.started < t else (interval, None)
            if sound is not None:
                kept.append(sound)
            if lost is not None:
                own = dict.fromkeys(BUCKETS, 0)
                for part in lost.parts(kept=False):
                    accountant.account_part(own, part)
                self._add(lost.devices, own)
        self._intervals = kept

    def _forget(self, snapshot: History, segment: History, last: dict[int, int]) -> None:
        """Drop from the reader what a segment of the snapshot holds; ``last`` is each attempt's last step in it."""
        until = segment.end
        for told, cut in zip(snapshot.attempts, segment.attempts, strict=True):
            attempt = self._reader.attempts[told.number]
            for rank, steps in cut.steps.items():
                del attempt.steps[rank][: len(steps)]
            attempt.after = last.get(told.number, attempt.after)
            for rank, phases in told.phases.items():
                mine = attempt.phases[rank]
                mine[:] = [phase for phase, seen in zip(mine, phases, strict=True) if seen.end > until]
            attempt.stalls[:] = [stall for stall in attempt.stalls if stall[1] > until]
        self._reader.early[:] = [phase for phase in self._reader.early if phase.end > until]

    def _thin_out(self) -> None:
        """Join the oldest intervals, two by two, where there are too many."""
        if len(self._intervals) <= MAX_INTERVALS:
            return
        old, self._intervals = self._intervals[: MAX_INTERVALS // 2], self._intervals[MAX_INTERVALS // 2 :]
        joined: list[Interval] = []
        for at, interval in enumerate(old):
            if at % 2 and joined[-1].devices == interval.devices:
                joined[-1].absorb(interval)
            else:
                joined.append(interval)
        self._intervals = joined + self._intervals

    def _add(self, devices: int, buckets: dict[str, int]) -> None:
        own = self._settled.setdefault(devices, dict.fromkeys(BUCKETS, 0))
        for bucket, ns in buckets.items():
            own[bucket] += ns

    # ── answering ──

    def _ideal(self) -> int | None:
        """The ideal of what is folded; None where nothing is."""
        lowest = min((one.lowest for one in self._intervals if one.lowest is not None), default=None)
        return self._medians.median if lowest is None else lowest

    def _ideal_with(self, history: History) -> int | None:
        """The ideal of what is folded and of what is not."""
        folded = self._ideal()
        if folded is None:
            return None
        rest = Accountant(history, None)
        long_enough = sum(len(own) for own in rest.blocks) > WINDOW
        return min(folded, rest.ideal) if rest.ideal is not None and long_enough else folded

    def _with_settled(self, accountant: Accountant, wall: int) -> Ledger:
        """The exact ledger of the rest, with what is folded added to it."""
        survival, durable = accountant.survival, accountant.survival.durable
        totals = {devices: dict(own) for devices, own in self._settled.items()}
        accountant.lost_steps += self._lost_steps
        for interval in self._intervals:
            kept, lost = interval.split(survival.first_unkept(interval.started))
            own = totals.setdefault(interval.devices, dict.fromkeys(BUCKETS, 0))
            pieces = [(lost, False)]
            pieces += [
                (piece, True) for piece in (kept.split(-NEVER if durable is None else durable + 1) if kept else ())
            ]
            for piece, is_kept in pieces:
                for part in piece.parts(kept=is_kept) if piece else ():
                    accountant.account_part(own, part)
        ledger = accountant.ledger()
        for devices, own in totals.items():
            for bucket, ns in own.items():
                ledger.buckets[bucket] += ns
                ledger.buckets_device[bucket] += ns * devices
        ledger.wall, ledger.device = wall, sum(ledger.buckets_device.values())
        ledger.overlap_device += self._overlap
        return ledger


def _time(event: Event) -> int:
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
        steps: dict[Rank, list[RankStep]] = {}
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


def _up_to(steps: list[RankStep], before: int | None, limit: tuple[int, int]) -> list[RankStep]:
    """The steps of a rank up to a step of the job, given as (rewinds until it, number); ``before`` is the step before."""
    rewinds = 0
    for at, step in enumerate(steps):
        rewinds += before is not None and step.step <= before
        before = step.step
        if (rewinds, step.step) > limit:
            return steps[:at]
    return steps
