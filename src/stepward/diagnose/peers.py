"""Courses of metrics over time: one rank, device or node against the others, and each against its own past.

A course is cut into blocks; a block's median forgives single samples. Something that lasts a block counts, the first
block does not: jobs warm up and compile in it. Thresholds of waits, clocks, heat and duty are those of ``stepward.detect``;
those below are of this module, set on simulated courses (``bench/diagnosis.py folders --split train``).
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from stepward.detect.detectors.hardware import CORRECTED_LEAST, LINK_LEAST, LINK_TIMES
from stepward.detect.series import median, quantile
from stepward.detect.speed import BEHIND_OWN, DATA_WAIT_SHARE, waits_least
from stepward.detect.usage import CLOCK_LOST, DUTY_LOW, HOT_C, IDLE_DUTY
from stepward.diagnose.clues import Clue, Kind, Role, clue
from stepward.diagnose.figures import Statement

BLOCKS = 8
LASTS = 2
"""Blocks that a weak sign must last."""
PRESSED = 20.0
"""Per cent of the time in which some task waits for the resource (PSI), as for single values."""
WAITS_MUCH = 0.05
"""Waiting for other ranks below 5 % of the step accuses nobody."""
UNEVEN = 0.10
"""Spread of the ranks' waits, as a share of the step, from which on their work is unequal."""
SLOWER_NET = 1.5
SLOWER_STEPS = 1.15
CORRECTED = 4 * CORRECTED_LEAST
"""Corrected memory errors in one course, which is taken to last twenty minutes; the detector's fifty are those of five."""
MOST_NAMED = 16
PREFIX = "course_"
"""Of the rules whose clues are measured over time: a normal end does not acquit what lasted that long."""

Who = tuple[int | None, str | None, str | None]


class Sign(NamedTuple):
    """What a course can be a sign of."""

    metric: str
    label: str
    role: Role
    more: float
    what: str = ""
    least: float = 0


_HELD = Sign("clock", "thermal_power", Role.ROOT, 0.5)
_HOT = Sign("temperature", "thermal_power", Role.EITHER, 0.8)
_LOADED = Sign("load", "host_contention", Role.EITHER, 0.8)
_PRESSURES = (
    Sign("cpu_pressure", "host_contention", Role.ROOT, 0.7, "a CPU"),
    Sign("io_pressure", "storage_io", Role.EITHER, 1.3, "I/O"),
)
_COUNTERS = (
    Sign("link_errors", "network_link", Role.ROOT, 0.3, "errors on the link", LINK_LEAST),
    Sign("ecc_uncorrected", "gpu_memory_ecc", Role.ROOT, 0.5, "uncorrectable memory errors", 1),
    Sign("ecc_corrected", "gpu_memory_ecc", Role.EITHER, 1.0, "corrected memory errors", CORRECTED),
)
_STARVED = Sign("data_wait", "input_bound", Role.ROOT, 0.5)
_FULL_HOSTS = Sign("cpu", "input_bound", Role.EITHER, 0.8)
_WAITED_FOR = Sign("wait", "workload_imbalance", Role.EITHER, 1.0)
_STAGE = Sign("stage", "workload_imbalance", Role.EITHER, 1.0)
_STOPPED = Sign("idle", "hang_in_user_code", Role.EITHER, 0.8)
_UNEVEN = Sign("uneven", "workload_imbalance", Role.EITHER, 0.9)
_EXCHANGE = Sign("exchange", "network_link", Role.EITHER, 0.9)


class Course(NamedTuple):
    """A series with the medians of its blocks after the first."""

    of: Statement
    blocks: list[float]


def course_clues(statements: Sequence[Statement]) -> list[Clue]:
    """Clues of all courses together; the rank of a device is known where ranks and devices of its node are as many."""
    courses: dict[str, dict[Who, Course]] = defaultdict(dict)
    for one in statements:
        who = (one.rank, one.node, one.device)
        courses[one.metric][who] = Course(one, blocks(one.values))
    ranks = ranks_of_devices(statements)
    found = [
        *_clocks(courses), *_hot(courses), *_pressed(courses), *_counted(courses),
        *_data(courses), *_late(courses), *_idle(courses),
    ]  # fmt: skip
    for made in found:
        if made.rank is None and made.node and made.device:
            made.rank = ranks.get((made.node, made.device))
    return found


def slower(statements: Sequence[Statement]) -> bool:
    """Whether steps took 15 % longer for two blocks than in their best one, for half of the ranks or more."""
    whole = whole_steps(statements)
    return len(whole) >= LASTS and sorted(whole)[-LASTS] >= SLOWER_STEPS * min(whole)


def whole_steps(statements: Sequence[Statement]) -> list[float]:
    """Step time of the job in each block, over all ranks; empty where it is not known for long enough."""
    steps = [blocks(one.values) for one in statements if one.metric == "step_time"]
    counted = [len(one) for one in steps if len(one) > LASTS]
    return [median([one[at] for one in steps if at < len(one)]) for at in range(max(counted))] if counted else []


def finite_of(values: Sequence[float]) -> list[float]:
    """The values that are numbers."""
    return [value for value in values if math.isfinite(value)]


def ranks_of_devices(statements: Sequence[Statement]) -> dict[tuple[str, str], int]:
    """The i-th rank of a node uses its i-th device."""
    ranks: dict[str, set[int]] = defaultdict(set)
    devices: dict[str, set[str]] = defaultdict(set)
    for one in statements:
        if one.node and one.rank is not None:
            ranks[one.node].add(one.rank)
        if one.node and one.device:
            devices[one.node].add(one.device)
    found: dict[tuple[str, str], int] = {}
    for node, there in ranks.items():
        if len(there) == len(devices[node]):
            ordered = sorted(devices[node], key=lambda name: (len(name), name))
            found |= {(node, device): rank for device, rank in zip(ordered, sorted(there), strict=True)}
    return found


def blocks(values: Sequence[float]) -> list[float]:
    """Medians of the blocks of a course, without the first."""
    size = len(values) / BLOCKS
    parts = [values[int(at * size) : int((at + 1) * size)] for at in range(1, BLOCKS)]
    finite = [finite_of(part) for part in parts]
    return [median(part) for part in finite if part]


def _clocks(courses: Mapping[str, Mapping[Who, Course]]) -> Iterator[Clue]:
    """Clocks held down while the device works, below the other devices' or below their own past; or a throttle flag."""
    clocks, duty = courses.get("clock", {}), courses.get("duty", {})
    held: dict[Who, str] = {}
    peers = [
        quantile([one.blocks[at] for one in clocks.values() if at < len(one.blocks)], 0.75) for at in range(BLOCKS)
    ]
    for who, one in clocks.items():
        for at, value in enumerate(one.blocks):
            busy = duty[who].blocks[at] if who in duty and at < len(duty[who].blocks) else 100.0
            usual = max(peers[at], *one.blocks)
            if value < CLOCK_LOST * usual and busy >= 100 * DUTY_LOW:
                held[who] = f"the clock is at {value:g} MHz, and {usual:g} are usual"
    for who, one in courses.get("throttle", {}).items():
        if any(value > 0 for value in one.blocks):
            held.setdefault(who, "the device is throttled")
    yield from _each(held, {**courses.get("throttle", {}), **clocks}, _HELD)


def _hot(courses: Mapping[str, Mapping[Who, Course]]) -> Iterator[Clue]:
    hot = {
        who: f"{max(one.blocks):g} °C"
        for who, one in courses.get("temperature", {}).items()
        if one.blocks and HOT_C <= max(one.blocks) < 130
    }
    yield from _each(hot, courses.get("temperature", {}), _HOT)


def _pressed(courses: Mapping[str, Mapping[Who, Course]]) -> Iterator[Clue]:
    """Tasks of a host that wait for its CPUs or disks, and a load that stands out."""
    for sign in _PRESSURES:
        of = courses.get(sign.metric, {})
        pressed = {
            who: f"tasks wait for {sign.what} {max(one.blocks):g} % of the time"
            for who, one in of.items()
            if one.blocks and max(one.blocks) >= PRESSED
        }
        yield from _each(pressed, of, sign)
    loads = courses.get("load", {})
    usual = median([median(one.blocks) for one in loads.values() if one.blocks])
    loaded = {
        who: f"a load of {max(one.blocks):g}, where {usual:g} is usual"
        for who, one in loads.items()
        if one.blocks and max(one.blocks) > 3 * max(usual, 1.0)
    }
    yield from _each(loaded, loads, _LOADED)


def _counted(courses: Mapping[str, Mapping[Who, Course]]) -> Iterator[Clue]:
    """Counters of errors that grow, and grow more than those of the others."""
    for sign in _COUNTERS:
        of = courses.get(sign.metric, {})
        grown = {who: _growth(one.of.values) for who, one in of.items()}
        many = {
            who: f"{value:g} {sign.what}"
            for who, value in grown.items()
            if value >= sign.least
            and (len(grown) == 1 or value > LINK_TIMES * median([other for at, other in grown.items() if at != who]))
        }
        yield from _each(many, of, sign)


def _growth(values: Sequence[float]) -> float:
    """How far a counter came; a reset is no growth."""
    finite = finite_of(values)
    return sum(max(0.0, after - before) for before, after in pairwise(finite))


def _data(courses: Mapping[str, Mapping[Who, Course]]) -> Iterator[Clue]:
    """Steps that wait for data; where waits are not measured, devices that idle while the hosts' CPUs are full."""
    waits, steps = courses.get("data_wait", {}), courses.get("step_time", {})
    starved: dict[Who, float] = {}
    for who, one in waits.items():
        if who in steps:
            shares = [a / b for a, b in zip(one.blocks, steps[who].blocks, strict=False) if b > 0]
            long = sorted(shares)[-LASTS:]
            if len(long) == LASTS and (long[0] > DATA_WAIT_SHARE or long[-1] > 2 * DATA_WAIT_SHARE):
                starved[who] = long[-1]
    if starved:
        who = max(starved, key=lambda one: starved[one])
        says = f"steps wait for data {min(1.0, starved[who]):.0%} of their time"
        yield _clue(waits[who].of, _STARVED, says, who if len(starved) == 1 else None)
        return
    duty, cpus = courses.get("duty", {}), courses.get("cpu", {})
    full = [at for at in range(BLOCKS - 1) if _at(cpus, at, 0.0) >= 95]
    idle = [
        at for at in full if _at(duty, at, 100.0) < 0.75 * max(_at(duty, other, 0.0) for other in range(BLOCKS - 1))
    ]
    if not duty and steps:
        whole = [_at(steps, at, 0.0) for at in range(BLOCKS - 1)]
        idle = [at for at in full if whole[at] >= SLOWER_STEPS * min(whole) and len(full) < BLOCKS - 1]
    if len(idle) >= (1 if duty else LASTS):
        says = (
            "the hosts' CPUs are full while accelerators idle"
            if duty
            else "steps are slow while the hosts' CPUs are full"
        )
        yield _clue(next(iter(cpus.values())).of, _FULL_HOSTS, says, None)


def _idle(courses: Mapping[str, Mapping[Who, Course]]) -> Iterator[Clue]:
    """All devices idle and their hosts with them, between work: nothing runs that they could wait for."""
    duty, cpus = courses.get("duty", {}), courses.get("cpu", {})
    at_work = [_at(duty, at, 100.0) for at in range(BLOCKS - 1)]
    busiest = max((_at(cpus, at, 0.0) for at in range(BLOCKS - 1)), default=0.0)
    idle = [at for at, value in enumerate(at_work) if value < 100 * IDLE_DUTY and _at(cpus, at, 100.0) < 0.5 * busiest]
    if len(idle) >= LASTS and max(at_work) >= 100 * DUTY_LOW:
        yield _clue(
            next(iter(duty.values())).of, _STOPPED, "all devices and hosts idle for long while the job runs", None
        )


def _at(courses: Mapping[Who, Course], at: int, without: float) -> float:
    """Median over all of one block."""
    return median([one.blocks[at] for one in courses.values() if at < len(one.blocks)]) if courses else without


def _late(courses: Mapping[str, Mapping[Who, Course]]) -> Iterator[Clue]:
    """Who the others wait for: the ranks that hardly wait, block by block; else what all waits have in common."""
    waits = {who[0]: one for who, one in courses.get("wait", {}).items() if who[0] is not None}
    steps = {who[0]: one for who, one in courses.get("step_time", {}).items() if who[0] is not None}
    if len(waits) < 2 or not steps:
        return
    count = min(len(one.blocks) for one in [*waits.values(), *steps.values()])
    step = [median([one.blocks[at] for one in steps.values()]) for at in range(count)]
    late: dict[int, int] = defaultdict(int)
    for at in range(count):
        now = {rank: one.blocks[at] for rank, one in waits.items()}
        if step[at] > 0 and quantile(list(now.values()), 0.75) >= WAITS_MUCH * step[at]:
            for rank in waits_least(now):
                late[rank] += 1
    lasting = sorted(rank for rank, times in late.items() if times >= LASTS)
    if group := _stage(waits, step):
        says = f"{len(group)} of {len(waits)} ranks work longer than the others all the time"
        for rank in group[:MOST_NAMED]:
            yield _clue(waits[rank].of, _STAGE, says, (rank, None, None))
        return
    for rank in lasting[:MOST_NAMED]:
        says = f"rank {rank} hardly waits while the others wait for it"
        yield _clue(waits[rank].of, _WAITED_FOR, says, (rank, None, None))
    if not lasting:
        yield from _together({rank: one.of.values for rank, one in waits.items()}, step, waits)


def _stage(waits: Mapping[int, Course], step: Sequence[float]) -> list[int]:
    """A group of at most half of the ranks whose own time stays above everybody else's: a stage, or a lasting share of work."""
    own = {rank: [whole - wait for whole, wait in zip(step, one.blocks, strict=False)] for rank, one in waits.items()}
    ordered = sorted(own, key=lambda rank: median(own[rank]))
    gaps = [
        (median(own[after]) - median(own[before]), at) for at, (before, after) in enumerate(pairwise(ordered), 1)
        if 2 * at >= len(ordered)
    ]  # fmt: skip
    if not gaps:
        return []
    at = max(gaps)[1]
    low, high = ordered[:at], ordered[at:]
    behind = [median(own[rank]) for rank in high]
    apart = sum(min(own[a][now] for a in high) > max(own[b][now] for b in low) for now in range(len(step)))
    slow = median(behind) >= BEHIND_OWN * median([median(own[rank]) for rank in low])
    return sorted(high) if slow and apart >= len(step) - 1 else []


def _together(
    values: Mapping[int, Sequence[float]], step: Sequence[float], waits: Mapping[int, Course]
) -> Iterator[Clue]:
    """Waits that grew for all ranks: the least one of each step is the exchange itself, what exceeds it is unequal work."""
    rows = list(zip(*values.values(), strict=False))
    least = blocks([min(row) for row in rows])
    beyond = blocks([max(row) - min(row) for row in rows])
    if len(least) < 3 or len(least) > len(step):
        return
    at, widest = max(enumerate(beyond), key=lambda one: one[1])
    first = next(iter(waits.values())).of
    if widest >= UNEVEN * step[at] and widest >= 2 * min(beyond):
        says = f"ranks take turns in waiting {widest / step[at]:.0%} of a step for one another"
        yield _clue(first, _UNEVEN, says, None)
    at, longest = max(enumerate(least), key=lambda one: one[1])
    if longest >= SLOWER_NET * min(least) and longest - min(least) >= UNEVEN * step[at]:
        says = f"collectives take {longest:.3g} s, and took {min(least):.3g} s"
        yield _clue(first, _EXCHANGE, says, None)


def _each(found: Mapping[Who, str], courses: Mapping[Who, Course], sign: Sign) -> Iterator[Clue]:
    """A clue for each that stands out; one that names nobody where most do."""
    most = len(found) > 2 and len(found) > len(courses) / 2
    for who, says in list(found.items())[: 1 if most else MOST_NAMED]:
        yield _clue(courses[who].of, sign, says, None if most else who)


def _clue(one: Statement, sign: Sign, says: str, who: Who | None) -> Clue:
    made = clue(PREFIX + sign.metric, sign.label, Kind.METRICS, one.line, says, text=one.text, role=sign.role,
                more=sign.more)  # fmt: skip
    made.rank, made.node, made.device = who or (None, None, None)
    made.names_node = made.node is not None
    return made
