"""What the live ledger keeps of steps that it has folded away: an interval for each stretch between two checkpoints.

A resume takes whole intervals back, so the steps themselves are not needed any more; a histogram of their times is,
because the ideal step may still fall. One per cent a bin: the figures are exact but for steps within that of a limit.
"""

import math
from collections.abc import Iterator

import msgspec

from stepward.goodput.intervals import Stretch
from stepward.goodput.ledger import Part

BINS_PER_E = 100
"""Bins of the histogram in which a time grows by the factor e: one per cent each."""


class Interval(msgspec.Struct, gc=False):
    """Kept, complete steps ``first`` .. ``last`` of one attempt, begun at ``started`` or later.

    Attributes:
        nets: (first step or block of an attempt, bin) -> [steps, their net ns].
        over: what lay over them, ns a bucket.
        lowest: the lowest median of 20 steps in a row that ends in here, ns.
    """

    devices: int
    started: int
    first: int
    last: int
    nets: dict[tuple[bool, int], list[int]]
    over: dict[str, int]
    lowest: int | None = None

    @classmethod
    def of(cls, devices: int, started: int, step: int) -> "Interval":
        """An interval without steps."""
        return cls(devices, started, step, step, {}, {})

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
            nets[key] = [share, net * share // count]
            rest_nets[key] = [count - share, net - net * share // count]
        for bucket, ns in self.over.items():
            over[bucket] = ns * below // whole
            rest_over[bucket] = ns - over[bucket]
        return (
            Interval(self.devices, self.started, self.first, step - 1, nets, over, self.lowest),
            Interval(self.devices, self.started, step, self.last, rest_nets, rest_over, self.lowest),
        )

    def parts(self, *, kept: bool) -> Iterator[Part]:
        """The steps as the ledger takes them."""
        over = [Stretch(0, ns, bucket) for bucket, ns in self.over.items()]
        yield Part(self.first, 1, 0, over, kept, complete=False, first=False)
        for (first, _), (count, net) in self.nets.items():
            if count:
                yield Part(self.first, count, net, [], kept, complete=True, first=first)


def _bin(net: int) -> int:
    return int(math.log(net) * BINS_PER_E) if net > 0 else -1
