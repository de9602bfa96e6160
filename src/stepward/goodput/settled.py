"""What the live ledger keeps of time that it has folded away: segments, with an interval for each stretch between checkpoints.

A resume takes whole intervals back, so the steps themselves are not needed any more; a histogram of their times is,
because the ideal step may still fall. One per cent a bin: the figures are exact but for steps within that of a limit.
A segment says where on the wall its time lies, so that a window over the last hours needs no more than the segments in it.
"""

import math
from collections.abc import Callable, Iterable, Iterator

import msgspec

from stepward.goodput.intervals import Stretch
from stepward.goodput.ledger import BUCKETS, Part

BINS_PER_E = 100
"""Bins of the histogram in which a time grows by the factor e: one per cent each."""

Owner = tuple[int | None, int]
"""Number of the attempt whose time it is (None: nobody's), and its devices."""
Totals = dict[Owner, dict[str, int]]


class Interval(msgspec.Struct, gc=False):
    """Kept, complete steps ``first`` .. ``last`` of one attempt, begun at ``started`` or later.

    Attributes:
        nets: (first step or block of an attempt, bin) -> [steps, their net ns].
        over: what lay over them, ns a bucket.
        lowest: the lowest median of 20 steps in a row that ends in here, ns.
    """

    owner: Owner
    started: int
    first: int
    last: int
    nets: dict[tuple[bool, int], list[int]]
    over: dict[str, int]
    lowest: int | None = None

    @classmethod
    def of(cls, owner: Owner, started: int, step: int) -> "Interval":
        """An interval without steps."""
        return cls(owner, started, step, step, {}, {})

    def add(self, part: Part) -> None:
        """Take in steps that follow."""
        self.last = max(self.last, part.step + part.count - 1)
        self.first = min(self.first, part.step)
        key = (part.first, _bin(part.net // part.count))
        cell = self.nets.get(key)
        if cell is None:
            self.nets[key] = [part.count, part.net]
        else:
            cell[0] += part.count
            cell[1] += part.net
        for stretch in part.over:
            self.over[stretch.what] = self.over.get(stretch.what, 0) + stretch.end - stretch.start

    def absorb(self, other: "Interval") -> None:
        """Take in an interval that follows."""
        self.first, self.last = min(self.first, other.first), max(self.last, other.last)
        for key, (count, net) in other.nets.items():
            cell = self.nets.setdefault(key, [0, 0])
            cell[0] += count
            cell[1] += net
        for bucket, ns in other.over.items():
            self.over[bucket] = self.over.get(bucket, 0) + ns
        if other.lowest is not None:
            self.lowest = min(other.lowest, self.lowest if self.lowest is not None else other.lowest)

    def split(self, step: int) -> tuple["Interval | None", "Interval | None"]:
        """What lies below a step, and what does not; by equal shares where the step is in the middle."""
        if step > self.last:
            return self, None
        if step <= self.first:
            return None, self
        below, whole = step - self.first, self.last - self.first + 1
        nets, over = {}, {}
        rest_nets, rest_over = {}, {}
        for key, (count, net) in self.nets.items():
            share = count * below // whole
            below_net = net * share // count
            if share:
                nets[key] = [share, below_net]
            if count > share:
                rest_nets[key] = [count - share, net - below_net]
        for bucket, ns in self.over.items():
            over[bucket] = ns * below // whole
            rest_over[bucket] = ns - over[bucket]
        return (
            Interval(self.owner, self.started, self.first, step - 1, nets, over, self.lowest),
            Interval(self.owner, self.started, step, self.last, rest_nets, rest_over, self.lowest),
        )

    def parts(self, *, kept: bool) -> Iterator[Part]:
        """The steps as the ledger takes them."""
        over = [Stretch(0, ns, bucket) for bucket, ns in self.over.items()]
        yield Part(self.first, 1, 0, over, kept, complete=False, first=False)
        for (first, _), (count, net) in self.nets.items():
            yield Part(self.first, count, net, [], kept, complete=True, first=first)


class Segment(msgspec.Struct, gc=False):
    """[start, end) of the wall, all of which is in ``totals`` or in ``intervals``."""

    start: int
    end: int
    totals: Totals
    intervals: list[Interval]

    def add(self, owner: Owner, buckets: dict[str, int]) -> None:
        """Put time of an owner into buckets, ns."""
        add(self.totals, owner, buckets)

    def absorb(self, other: "Segment") -> None:
        """Take in the segment that follows; its intervals become half as many."""
        self.end = other.end
        for owner, buckets in other.totals.items():
            self.add(owner, buckets)
        joined: list[Interval] = []
        for at, interval in enumerate([*self.intervals, *other.intervals]):
            if at % 2 and joined[-1].owner == interval.owner:
                joined[-1].absorb(interval)
            else:
                joined.append(interval)
        self.intervals = joined

    def lose(self, t: int, step: int, account: Callable[[dict[str, int], Part], None]) -> None:
        """A start at ``t`` goes back to a step: what the intervals hold from there on is lost."""
        kept: list[Interval] = []
        for interval in self.intervals:
            sound, lost = interval.split(step) if interval.started < t else (interval, None)
            if sound is not None:
                kept.append(sound)
            if lost is not None:
                own = dict.fromkeys(BUCKETS, 0)
                for part in lost.parts(kept=False):
                    account(own, part)
                self.add(lost.owner, own)
        self.intervals = kept


def add(totals: Totals, owner: Owner, buckets: dict[str, int]) -> None:
    """Add time of an owner, ns a bucket."""
    own = totals.get(owner)
    if own is None:
        own = totals[owner] = dict.fromkeys(BUCKETS, 0)
    for bucket, ns in buckets.items():
        own[bucket] += ns


def joined(segments: list[Segment]) -> Iterable[Segment]:
    """Segments two by two."""
    for at in range(0, len(segments), 2):
        segment = segments[at]
        if at + 1 < len(segments):
            segment.absorb(segments[at + 1])
        yield segment


def share_of(totals: Totals, part: int, whole: int) -> Totals:
    """An even share of the time; what rounding leaves goes to the largest bucket, so that the sum is ``part`` of ``whole``."""
    shares = {owner: {bucket: ns * part // whole for bucket, ns in own.items()} for owner, own in totals.items()}
    rest = part - sum(ns for own in shares.values() for ns in own.values())
    if rest:
        owner, bucket = max(((o, b) for o, own in totals.items() for b in own), key=lambda at: totals[at[0]][at[1]])
        shares[owner][bucket] += rest
    return shares


def _bin(net: int) -> int:
    return int(math.log(net) * BINS_PER_E) if net > 0 else -1
