"""The ledger in two passes over a history: first the ideal step, then every instant into its bucket (rules 7, 8, 10)."""

import copy
import itertools
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from stepward.goodput.blocks import blocks_of
from stepward.goodput.history import Attempt, History
from stepward.goodput.ideal import ideal_step, same
from stepward.goodput.intervals import Stretch, flatten, gaps, owners
from stepward.goodput.steps import Block, Fate
from stepward.goodput.survival import NEVER, Survival
from stepward.goodput.tracks import Tracks, find_critical_ranks

BUCKETS = (
    "productive",
    "queue_wait",
    "provision",
    "init",
    "restore",
    "compile",
    "data_wait",
    "checkpoint_save",
    "evaluation",
    "recompute",
    "hang",
    "slow_steps",
    "wait_for_nodes",
    "down",
    "idle",
    "other",
)
VERSION = 3
"""Of the rules as they are computed and of what an answer holds: kept answers of another version are computed again."""
_NOWHERE = (1 << 62, 1 << 62)
_COMPLETE = Fate.COMPLETE
HANG_FLOOR = 60_000_000_000
"""A step that takes this much longer than the ideal, and over ten times it, hung (rule 8)."""


class Ledger(msgspec.Struct):
    """Where the time of a run went, in ns; ``device`` figures are weighted by the owner's devices."""

    wall: int
    device: int
    buckets: dict[str, int]
    buckets_device: dict[str, int]
    attempts: int
    lost_steps: int
    ideal: int | None
    provisional: int
    overlap_device: int
    open: bool
    assumptions: list[str]


class Part(msgspec.Struct, gc=False):
    """Some equal steps of a block that share their fate: net ns of all of them, and what lies over them."""

    step: int
    count: int
    net: int
    over: list[Stretch]
    kept: bool
    complete: bool
    first: bool


class _Plain(NamedTuple):
    """Of the blocks of an attempt those that need no closer look: their net ns, -1 in the places of ``others``."""

    nets: list[int]
    others: list[int]


def account(history: History, ideal: int | None = None) -> Ledger:
    """The ledger of a history.

    Args:
        history: see ``history.build``.
        ideal: the ideal step in ns, where somebody knows better than the run itself.
    """
    return Accountant(history, ideal).ledger()


class Accountant:
    """Puts the time of one history into buckets, attempt by attempt."""

    def __init__(self, history: History, ideal: int | None) -> None:
        self.history = history
        self.devices = _known_devices(history)
        self.blocks = [blocks_of(attempt) for attempt in history.attempts]
        self.survival = Survival(history, self.blocks)
        self.owned = owners([(a.start, a.end) for a in history.attempts], history.start, history.end)
        self.tracks = [
            Tracks(attempt, [(o.start, o.end) for o in self.owned if o.attempt == index], self.blocks[index])
            for index, attempt in enumerate(history.attempts)
        ]
        for attempt, blocks in zip(history.attempts, self.blocks, strict=True):
            find_critical_ranks(attempt, blocks)
        self.plain = [self._plain(index) for index in range(len(history.attempts))]
        self.ideal = ideal if ideal is not None else self._ideal()
        self.by_owner: list[dict[str, int]] = [dict.fromkeys(BUCKETS, 0) for _ in history.attempts]
        self.lost_steps = self.provisional = 0
        self.assumed_compile = False

    def since(self, start: int) -> "Accountant":
        """The accountant of what this history has from an instant on, with the same ideal; before ``ledger`` or after."""
        other = copy.copy(self)
        other.history = history = msgspec.structs.replace(self.history, start=max(self.history.start, start))
        other.owned = owners([(a.start, a.end) for a in history.attempts], history.start, history.end)
        other.tracks = [
            tracks.owning([(o.start, o.end) for o in other.owned if o.attempt == index])
            for index, tracks in enumerate(self.tracks)
        ]
        # Rewinds apart, steps lie in order of time: what ends before the first of these owns nothing any more.
        begins = [next((at for at, b in enumerate(own) if b.end > history.start), len(own)) for own in self.blocks]
        other.blocks = [own[at:] for own, at in zip(self.blocks, begins, strict=True)]
        other.plain = [other._plain(index) for index in range(len(history.attempts))]
        other.by_owner = [dict.fromkeys(BUCKETS, 0) for _ in history.attempts]
        other.lost_steps = other.provisional = 0
        other.assumed_compile = False
        return other

    def ledger(self) -> Ledger:
        """Account for everything, once."""
        for index in range(len(self.history.attempts)):
            self._account_steps(index)
            self.account_outside(index)
        buckets = dict.fromkeys(BUCKETS, 0)
        on_devices = dict.fromkeys(BUCKETS, 0)
        for own, devices in zip(self.by_owner, self.devices, strict=True):
            for bucket, ns in own.items():
                buckets[bucket] += ns
                on_devices[bucket] += ns * devices
        for start, end, bucket, devices in self.ownerless():
            buckets[bucket] += end - start
            on_devices[bucket] += (end - start) * devices
        return Ledger(
            wall=self.history.end - self.history.start,
            device=sum(on_devices.values()),
            buckets=buckets,
            buckets_device=on_devices,
            attempts=len(self.history.attempts),
            lost_steps=self.lost_steps,
            ideal=self.ideal,
            provisional=self.provisional if self._open and self.survival.checkpointed else 0,
            overlap_device=self.overlap(),
            open=self._open,
            assumptions=self._assumptions(),
        )

    @property
    def _open(self) -> bool:
        return not self.history.ended

    # ── the ideal step ──

    def _ideal(self) -> int | None:
        samples: list[int] = []
        first_samples: list[int] = []
        for index, (blocks, plain) in enumerate(zip(self.blocks, self.plain, strict=True)):
            done = 0
            for at in plain.others:
                block = blocks[at]
                if block.quotient or block.fate is not Fate.COMPLETE:
                    continue
                samples += plain.nets[done:at]
                done = at + 1
                into = first_samples if block.first else samples
                for part in self._cut(index, block, block.count):
                    if part.kept:
                        into += same(part.net // part.count, part.count)
            samples += plain.nets[done:]
        # Those that are left out here are -1 in the list of nets.
        return ideal_step([net for net in samples if net >= 0] or first_samples)

    def _plain(self, index: int) -> _Plain:
        """Which blocks need no closer look: one step each, bare, complete, not the first, and kept whatever happened.

        Nearly all steps of nearly all runs; what is told of them here is what ``parts`` would tell.
        """
        # A start that comes later reaches back less far: who is kept from the attempt's start on is kept.
        surely_kept = self.survival.first_unkept(self.history.attempts[index].start)
        nets: list[int] = []
        others: list[int] = []
        spans = iter(self.tracks[index].free)
        free_start, free_end = next(spans, _NOWHERE)
        for block in self.blocks[index]:
            start, end = block.start, block.end
            while free_end < end and free_start < end:
                free_start, free_end = next(spans, _NOWHERE)
            if (
                free_start <= start
                and end <= free_end
                and block.count == 1
                and block.fate is _COMPLETE
                and not block.first
                and block.step < surely_kept
            ):
                nets.append(end - start)
            else:
                others.append(len(nets))
                nets.append(-1)
        return _Plain(nets, others)

    # ── blocks into parts (rules 4 and 6) ──

    def parts(self, index: int, block: Block) -> Iterable[Part]:
        """The steps of a block by their fate, with what lies over them."""
        if block.fate is not Fate.COMPLETE:
            return self._unfinished(index, block)
        count = block.count
        if block.quotient and self.ideal:
            net = self._net(index, block, block.start, block.end)[0]
            count = min(max((10 * net + self.ideal) // (10 * self.ideal), 1), block.count)
        return self._cut(index, block, count)

    def _cut(self, index: int, block: Block, count: int) -> Iterator[Part]:
        """A complete block of ``count`` steps, cut by equal shares of its wall time where some of them were lost."""
        kept = min(max(self.survival.first_unkept(block.start) - block.step, 0), count)
        middle = block.start + (block.end - block.start) * kept // count
        for start, end, step, steps, is_kept in (
            (block.start, middle, block.step, kept, True),
            (middle, block.end, block.step + kept, count - kept, False),
        ):
            if steps:
                net, over, wall = self._net(index, block, start, end)
                if wall or start == end:
                    yield Part(step, steps, net, over, is_kept, True, block.first)

    def _unfinished(self, index: int, block: Block) -> Iterator[Part]:
        """Complete steps of one ideal each, and the rest that nobody finished (rule 4)."""
        net, over, wall = self._net(index, block, block.start, block.end)
        if not wall:
            return
        in_flight = block.fate is Fate.IN_FLIGHT
        complete = min(net // self.ideal, block.count - 1) if self.ideal else 0
        limit = self.survival.first_unkept(block.start)
        kept = min(max(limit - block.step, 0), complete)
        start = block.start
        for steps, is_kept, is_complete, step in (
            (kept, True, True, block.step),
            (complete - kept, False, True, block.step + kept),
            (1, in_flight and block.step + complete < limit, in_flight, block.step + complete),
        ):
            if not steps:
                continue
            rest = step == block.step + complete and steps == 1 and not (is_complete and not in_flight)
            end = block.end if rest else self._after_net(index, block, start, steps * (self.ideal or 0))
            net, over, _ = self._net(index, block, start, end)
            yield Part(step, steps, net, over, is_kept, is_complete and not rest, block.first)
            start = end

    def _net(self, index: int, block: Block, start: int, end: int) -> tuple[int, list[Stretch], int]:
        """Net ns of [start, end) of a block, what lies over it, and its owned ns."""
        tracks = self.tracks[index]
        wall, hidden = 0, 0
        over: list[Stretch] = []
        for part_start, part_end in tracks.parts(start, end):
            wall += part_end - part_start
            over += tracks.inside(block.rank, part_start, part_end)
        for stretch in over:
            hidden += stretch.end - stretch.start
        return wall - hidden, over, wall

    def _after_net(self, index: int, block: Block, start: int, net: int) -> int:
        """The instant at which ``net`` ns of a block have passed since ``start``."""
        for part_start, part_end in self.tracks[index].parts(start, block.end):
            over = self.tracks[index].inside(block.rank, part_start, part_end)
            for gap_start, gap_end in gaps(((s.start, s.end) for s in over), part_start, part_end):
                if net <= gap_end - gap_start:
                    return gap_start + net
                net -= gap_end - gap_start
        return block.end

    # ── instants into buckets (rules 7 and 8) ──

    def _account_steps(self, index: int) -> None:
        own, blocks, plain = self.by_owner[index], self.blocks[index], self.plain[index]
        if self.ideal is None or (self._open and self.survival.checkpointed):
            # Which of them are provisional is seen at the step itself.
            durable = -NEVER if self.survival.durable is None else self.survival.durable
            limit = -1 if self.ideal is None else 11 * self.ideal
            productive = 0
            others = []
            for at, (net, block) in enumerate(zip(plain.nets, blocks, strict=True)):
                if net < 0 or block.step > durable or 10 * net > limit:
                    others.append(at)
                else:
                    productive += net
        else:
            most = 11 * self.ideal // 10
            productive = sum(net for net in plain.nets if 0 <= net <= most)
            others = [at for at, net in enumerate(plain.nets) if not 0 <= net <= most]
        own["productive"] += productive
        for at in others:
            for part in self.parts(index, blocks[at]):
                self.account_part(own, part)

    def account_outside(self, index: int) -> None:
        """Put what an attempt owns outside of its steps into buckets."""
        own, tracks = self.by_owner[index], self.tracks[index]
        for start, end in tracks.owned:
            for at in range(bisect_right(tracks.holes, start, key=_end), len(tracks.holes)):
                hole_start, hole_end = tracks.holes[at]
                if hole_start >= end:
                    break
                gap_start, gap_end = max(hole_start, start), min(hole_end, end)
                rest = gap_end - gap_start
                for stretch in tracks.outside(gap_start, gap_end):
                    own[stretch.what] += stretch.end - stretch.start
                    rest -= stretch.end - stretch.start
                own["other"] += rest

    def account_part(self, own: dict[str, int], part: Part) -> None:
        """Put the time of a part into the buckets of its owner."""
        for stretch in part.over:
            bucket = stretch.what if part.kept or stretch.what == "hang" else "recompute"
            own[bucket] += stretch.end - stretch.start
        excess = self._excess(part)
        bucket = self._excess_bucket(part, excess) if excess else ""
        if part.kept:
            own["productive"] += part.net - excess
            if excess:
                own[bucket] += excess
            self._count_provisional(part, part.net - excess)
            return
        hung = excess if bucket == "hang" else 0
        own["hang"] += hung
        own["recompute"] += part.net - hung
        if part.complete:
            self.lost_steps += part.count

    def _excess(self, part: Part) -> int:
        """What a part took beyond its steps' ideal; 0 within the tolerance of ten per cent."""
        if self.ideal is None or 10 * part.net <= 11 * part.count * self.ideal:
            return 0
        return part.net - part.count * self.ideal

    def _excess_bucket(self, part: Part, excess: int) -> str:
        assert self.ideal is not None
        if part.first:
            self.assumed_compile |= part.kept
            return "compile"
        if part.net > part.count * max(10 * self.ideal, self.ideal + HANG_FLOOR):
            return "hang"
        return "slow_steps"

    def _count_provisional(self, part: Part, productive: int) -> None:
        durable = self.survival.durable
        beyond = part.count if durable is None else min(max(part.step + part.count - 1 - durable, 0), part.count)
        self.provisional += productive * beyond // part.count

    # ── time that no attempt owns (rules 2 and 7) ──

    def ownerless(self) -> Iterator[tuple[int, int, str, int]]:
        """(start, end, bucket, devices) of the stretches without an owner."""
        phases = self.history.early_phases
        known = flatten(
            (Stretch(p.start, p.end, p.name) for p in phases if p.start < p.end), lambda s: (s.what == "provision", 0)
        )
        cuts = {t for s in known for t in (s.start, s.end)} | set(self.history.submitted.values())
        cuts |= {a.start for a in self.history.attempts}
        for gap_start, gap_end in gaps(((o.start, o.end) for o in self.owned), self.history.start, self.history.end):
            inner = sorted({gap_start, gap_end, *(t for t in cuts if gap_start < t < gap_end)})
            for start, end in itertools.pairwise(inner):
                phase = next((s.what for s in known if s.start <= start < s.end), None)
                yield start, end, phase or self._absence(start), self._devices_at(start)

    def _absence(self, t: int) -> str:
        started = [a for a in self.history.attempts if a.start <= t]
        if not started:
            return "queue_wait"
        waiting = any(
            number is not None and at <= t and all(a.number != number for a in started)
            for number, at in self.history.submitted.items()
        )
        if not waiting:
            return "down"
        ended_last = max((a for a in started if a.end <= t), key=lambda a: a.end, default=started[-1])
        return "queue_wait" if ended_last.reason == "finished" else "wait_for_nodes"

    def _devices_at(self, t: int) -> int:
        if not self.devices:
            return 0
        before = [devices for a, devices in zip(self.history.attempts, self.devices, strict=True) if a.start <= t]
        return before[-1] if before else self.devices[0]

    def overlap(self) -> int:
        """Device ns of attempts that run while a newer one owns the wall."""
        overlap = 0
        for index, (attempt, devices) in enumerate(zip(self.history.attempts, self.devices, strict=True)):
            span = min(attempt.end, self.history.end) - max(attempt.start, self.history.start)
            own = sum(end - start for start, end in self.tracks[index].owned)
            overlap += max(span - own, 0) * devices
        return overlap

    def _assumptions(self) -> list[str]:
        told: list[str] = []
        if self.assumed_compile:
            told.append("the excess of an attempt's first step over the ideal is taken for compilation")
        if self.survival.kept_by_assumption:
            told.append("no checkpoint event ever came: completed steps are kept although the job did not finish")
        if any(attempt.devices is None for attempt in self.history.attempts):
            told.append("an attempt without a number of devices has the last known one, else 1")
        return told


def _known_devices(history: History) -> list[int]:
    """Devices of each attempt: its own, else the last known, else the next known, else 1 (rule 10)."""
    own: Sequence[Attempt] = history.attempts
    ahead = next((a.devices for a in own if a.devices is not None), 1)
    devices: list[int] = []
    for attempt in own:
        ahead = attempt.devices if attempt.devices is not None else ahead
        devices.append(ahead)
    return devices


def _end(span: tuple[int, int]) -> int:
    return span[1]
