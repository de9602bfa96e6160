"""What courses of devices say of waits that nobody measured: who idles at the end, who was no longer read, who spins.

A device that waits in a collective is busy by its utilization and not by its power: it spins. Thresholds of duty are
those of ``stepward.detect``; those below are of this module, set on simulated courses (``bench/diagnosis.py folders
--split train``).
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from msgspec import structs

from stepward.detect.culprit import AT_WORK, IDLE
from stepward.detect.series import median
from stepward.diagnose.clues import Clue, Kind, Role, clue
from stepward.diagnose.figures import Statement
from stepward.diagnose.peers import (
    LASTS,
    PREFIX,
    SLOWER_STEPS,
    WAITS_MUCH,
    blocks,
    finite_of,
    ranks_of_devices,
    whole_steps,
)

LATE = 5
"""Readings at the end of a course that say how it ended."""
SPINS = 0.90
"""Power below 90 % of its best block, at the same utilization, is waiting in a kernel."""
SAME_DUTY = 0.95
UNLIKE = 0.05
"""Readings of one node's devices are as many, but for one in twenty that may be lost."""
_READ = ("duty", "power", "temperature")


def last_idle(statements: Sequence[Statement]) -> list[Statement]:
    """Devices that did nothing in the last readings while most others were at work, as what was read last of each."""
    ranks = ranks_of_devices(statements)
    ends = [
        (one, median(late)) for one in statements if one.metric == "duty" and (late := finite_of(one.values[-LATE:]))
    ]
    if len(ends) < 2 or median([value for _, value in ends]) < AT_WORK:
        return []
    return [
        structs.replace(one, values=[value], unit="%", tracked=False, rank=_rank(one, ranks))
        for one, value in ends
        if value < IDLE
    ]


def unread(statements: Sequence[Statement]) -> list[Statement]:
    """Devices with another number of readings than their host, which was read by the same hand: they were lost or late.

    What is left of them must show work where the others' last readings show a wait: they did not see how it ended.
    """
    ranks = ranks_of_devices(statements)
    hosts: dict[str, list[int]] = defaultdict(list)
    for one in statements:
        if one.node and one.metric in {"cpu", "load"}:
            hosts[one.node].append(len(one.values))
    power = {(one.node, one.device): one for one in statements if one.metric == "power" and one.device}
    ends = {who: median(finite_of(one.values[-LATE:])) for who, one in power.items()}
    found = []
    for who, one in power.items():
        others = [value for other, value in ends.items() if other != who]
        usual = hosts.get(one.node or "")
        if not others or not usual or abs(len(one.values) - median(usual)) <= UNLIKE * median(usual):
            continue
        if median(others) < SPINS * ends[who]:
            found.append(structs.replace(one, rank=_rank(one, ranks)))
    return found


def living(statements: Sequence[Statement]) -> set[int]:
    """Ranks whose process was sampled as long as most others: it was there to the end."""
    counts = {one.rank: len(one.values) for one in statements if one.metric == "rss" and one.rank is not None}
    usual = median(list(counts.values()))
    return {rank for rank, count in counts.items() if count >= (1 - UNLIKE) * usual}


def spinning(statements: Sequence[Statement]) -> Iterator[Clue]:
    """Steps got slower, and all devices alike spin more than before: what they wait for is none of them.

    The network is the likeliest; work that is unequal in turns looks the same where nobody measured the waits.
    """
    steps = whole_steps(statements)
    power = [blocks(one.values) for one in statements if one.metric == "power" and one.device]
    duty = [blocks(one.values) for one in statements if one.metric == "duty" and one.device]
    waits = [max(blocks(one.values), default=0.0) for one in statements if one.metric == "wait"]
    if len(power) < 2 or len(duty) != len(power) or not steps or any(one > WAITS_MUCH * min(steps) for one in waits):
        return
    count = min(len(steps), *(len(one) for one in [*power, *duty]))
    slow = [at for at in range(count) if steps[at] >= SLOWER_STEPS * min(steps)]
    fast = [at for at in range(count) if at not in slow]
    if len(slow) < LASTS or not fast:
        return
    less = [median([one[at] for at in slow]) / max(median([one[at] for at in fast]), 1.0) for one in power]
    same = [median([one[at] for at in slow]) >= SAME_DUTY * median([one[at] for at in fast]) for one in duty]
    if max(less) > SPINS or not all(same):
        return
    first = next(one for one in statements if one.metric == "power" and one.device)
    says = f"all devices are as busy as before at {median(less):.0%} of their power: they wait in collectives"
    for label, more in (("network_link", 0.8), ("workload_imbalance", 0.2)):
        yield clue(
            PREFIX + "spins", label, Kind.METRICS, first.line, says, text=first.text, role=Role.EITHER, more=more
        )


def _rank(one: Statement, ranks: dict[tuple[str, str], int]) -> int | None:
    return one.rank if one.rank is not None else ranks.get((one.node or "", one.device or ""))
