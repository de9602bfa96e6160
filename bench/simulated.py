"""Simulated runs through the detectors: what was found of what happened, how late, and what was said for nothing.

Used by ``bench/diagnosis.py simulator``. The simulator knows nothing of the detectors; this file knows nothing of either.
"""

import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from scores import proportion, quantiles
from stepward.detect.engine import Detection
from stepward.detect.signals import Certainty, Detected, Hit, PhaseBegan, PhaseEnded, Sample, Signal, Step, Tick
from stepward.diagnose.clues import Role
from stepward.diagnose.matcher import Matcher
from stepward.diagnose.signatures import catalogue
from stepward.testing.simulator import Fault, Simulation, Text, simulate

US = 1_000_000
EARLY_S = 60.0
"""An event may be dated back so far before its fault: detectors date a change to the block of steps in which it lies."""
LATE_S = 180.0
"""An event of a fault may be confirmed so long after the fault has ended."""
DAY_S = 86_400.0
PAUSES = frozenset({"checkpoint_save", "evaluation"})
EXPLICIT = frozenset({"hardware_fault", "oom", "crash", "preemption"})
"""Events of faults that a line names outright."""
_SEVERITIES = {Role.ROOT: "critical", Role.EITHER: "warning"}


class Alarm(NamedTuple):
    """An event as it stood at the end and when it was confirmed, and when it was first suspected and confirmed."""

    last: Detected
    confirmed: Detected | None
    suspected_at: int | None
    confirmed_at: int | None


class Judged(NamedTuple):
    """One run: its alarms, faults, and which of them belong to each other; ``found`` is the
    alarm that counts for a fault, ``told`` are all of them, ``named`` is when a line first named it."""

    simulation: Simulation
    faults: list[Fault]
    alarms: list[Alarm]
    found: dict[str, Alarm]
    told: dict[str, list[Alarm]]
    consequences: int
    duplicates: int
    false: list[Alarm]
    named: dict[str, int]
    length_s: float


def signals(simulation: Simulation) -> Iterator[Signal]:
    """What the detectors are fed: lines that the catalogue knows become hits."""
    matcher = Matcher(catalogue())
    last = 0
    for item in simulation.items():
        last = item[0]
        if not isinstance(item, Text):
            yield item
            continue
        for known in matcher.signatures(item.text):
            yield Hit(
                item.time, item.attempt, known.id, known.label, known.role.value, _SEVERITIES.get(known.role, "info"),
                item.text, item.source, None, item.rank, item.node,
            )  # fmt: skip
    for after in (10, 60, 120):
        yield Tick(last + after * US)


def alarms(stream: Iterable[Signal]) -> list[Alarm]:
    """The events that the detectors make of a run."""
    detection, seen = Detection("run_simulated"), {}
    for signal in stream:
        for event in detection.take(signal):
            seen[event.id] = _newer(seen.get(event.id), event)
    for event in detection.drain():
        seen[event.id] = _newer(seen.get(event.id), event)
    return list(seen.values())


def _newer(known: Alarm | None, event: Detected) -> Alarm:
    first = known or Alarm(event, None, None, None)
    as_confirmed, confirmed = first.confirmed, first.confirmed_at
    if event.certainty is Certainty.CONFIRMED and confirmed is None:
        as_confirmed, confirmed = event, event.detected_at
    return Alarm(event, as_confirmed, first.suspected_at or event.detected_at, confirmed)


def judge(simulation: Simulation) -> Judged:
    """Run the detectors over a simulation and lay the truth beside."""
    hits: list[Hit] = []
    said = sorted(
        (one for one in alarms(_noting(signals(simulation), hits)) if _stands(one)),
        key=lambda one: one.confirmed_at or 0,
    )
    faults = simulation.faults()
    course, _ = simulation.course()
    ends = [segment.end for segment in course.segments()]
    found: dict[str, Alarm] = {}
    told: dict[str, list[Alarm]] = defaultdict(list)
    of: dict[str, str] = {}
    consequences = duplicates = 0
    false = []
    for alarm in said:
        event = alarm.last
        mine = [fault for fault in faults if _fits(alarm, fault)]
        exact = next((fault for fault in mine if fault.type == event.type), None)
        fault = exact or next(iter(mine), None)
        if fault is None:
            if event.data.get("follows") in of:
                consequences += 1
                of[event.id] = of[event.data["follows"]]
                told[of[event.id]].append(alarm)
            else:
                false.append(alarm)
            continue
        of[event.id] = fault.id
        told[fault.id].append(alarm)
        known = found.get(fault.id)
        if known is None or (known.last.type != fault.type and event.type == fault.type):
            consequences += known is not None
            found[fault.id] = alarm
        elif known.last.type == event.type:
            duplicates += 1
        else:
            consequences += 1
    named = {fault.id: at for fault in faults if (at := _named(fault, hits)) is not None}
    return Judged(simulation, faults, said, found, told, consequences, duplicates, false, named, ends[-1])


def _noting(stream: Iterable[Signal], hits: list[Hit]) -> Iterator[Signal]:
    for signal in stream:
        if isinstance(signal, Hit):
            hits.append(signal)
        yield signal


def _named(fault: Fault, hits: Sequence[Hit]) -> int | None:
    """When the first line came that names the fault's own label, while it lasts."""
    end = fault.t1 or 1 << 62
    return next(
        (h.time for h in hits if fault.t0 <= h.time <= end and h.role == "root" and h.label == fault.label), None
    )


def _stands(alarm: Alarm) -> bool:
    return alarm.confirmed_at is not None and alarm.last.certainty is not Certainty.WITHDRAWN


def _fits(alarm: Alarm, fault: Fault) -> bool:
    event = alarm.last
    if event.type != fault.type and event.type not in fault.also:
        return False
    end = (fault.t1 if fault.t1 is not None else 1 << 62) + LATE_S * US
    early = event.started_at >= fault.t0 - EARLY_S * US or (alarm.confirmed_at or 0) >= fault.t0
    return early and event.started_at <= end and (alarm.confirmed_at or 0) >= fault.t0 - EARLY_S * US


def delay_s(fault: Fault, alarm: Alarm, *, suspected: bool = False) -> float:
    """Seconds from the begin of the fault to its confirmation (or first suspicion)."""
    at = alarm.suspected_at if suspected else alarm.confirmed_at
    begun = fault.t1 if fault.type == "scheduling_delay" and fault.t1 else fault.t0  # nobody is there to tell before
    return max(0.0, ((at or 0) - begun) / US)


def localised(runs: Iterable[Judged]) -> dict[str, Any]:
    """How often the first rank and node that the events of a fault name are struck ones; faults that strike some, not all."""
    ranks: Counter[str] = Counter()
    nodes: Counter[str] = Counter()
    for run in runs:
        for fault in run.faults:
            if fault.id not in run.found:
                continue
            said = [alarm.last for alarm in run.told[fault.id]]
            who = next((event.ranks for event in said if event.ranks), ())
            where = next((event.nodes for event in said if event.nodes), ())
            if fault.ranks and len(fault.ranks) < run.simulation.plan.layout.ranks:
                ranks.update(of=1, answered=bool(who), right=bool(who) and who[0] in fault.ranks)
            if fault.nodes and run.simulation.plan.layout.nodes > 1:
                nodes.update(of=1, answered=bool(where), right=bool(where) and where[0] in fault.nodes)
    return {
        "rank_top1": proportion(ranks["right"], ranks["of"]),
        "rank_top1_of_answered": proportion(ranks["right"], ranks["answered"]),
        "node_top1": proportion(nodes["right"], nodes["of"]),
        "node_top1_of_answered": proportion(nodes["right"], nodes["answered"]),
    }


def run_set(split: str, runs: int, first: int, *, verbose: bool) -> dict[str, Any]:
    """Runs of a split as their seeds draw them: precision, recall, delays, false alarms, and a table of kinds."""
    judged = []
    for seed in range(first, first + runs):
        run = judge(simulate(seed, split=split))  # type: ignore[arg-type]
        judged.append(run)
        if verbose:
            _show(seed, run)
    return summary(judged)


def summary(judged: Sequence[Judged]) -> dict[str, Any]:
    """The figures of some runs."""
    told = [(run, fault) for run in judged for fault in run.faults if fault.type]
    found = [(fault, run.found[fault.id]) for run, fault in told if fault.id in run.found]
    false = [alarm for run in judged for alarm in run.false]
    clean = [run for run in judged if not run.faults]
    days = sum(run.length_s for run in clean) / DAY_S
    true = len(found) + sum(run.consequences for run in judged)
    kinds: dict[str, list[tuple[Fault, Alarm | None]]] = defaultdict(list)
    for run, fault in told:
        kinds[fault.kind].append((fault, run.found.get(fault.id)))
    return {
        "runs": len(judged), "clean_runs": len(clean), "faults": len(told),
        "precision": proportion(true, true + len(false)),
        "recall": proportion(len(found), len(told)),
        "recall_exact_type": proportion(sum(alarm.last.type == fault.type for fault, alarm in found), len(told)),
        "delay_confirmed_s": quantiles([delay_s(*pair) for pair in found]),
        "delay_suspected_s": quantiles([delay_s(*pair, suspected=True) for pair in found]),
        "delay_after_line_s": quantiles(
            [
                max(0.0, ((run.found[fault.id].confirmed_at or 0) - run.named[fault.id]) / US)
                for run, fault in told
                if fault.id in run.found and fault.id in run.named and fault.type in EXPLICIT
            ]
        ),
        "false_alarms": len(false), "false_by_type": dict(Counter(alarm.last.type for alarm in false)),
        "clean_run_days": round(days, 3), "false_on_clean": sum(len(run.false) for run in clean),
        "false_per_run_day": round(sum(len(run.false) for run in clean) / days, 3) if days else None,
        "duplicates": sum(run.duplicates for run in judged), **localised(judged),
        "kinds": {
            kind: {
                "found": sum(alarm is not None for _, alarm in pairs), "of": len(pairs),
                "exact": sum(alarm is not None and alarm.last.type == fault.type for fault, alarm in pairs),
                **quantiles([delay_s(fault, alarm) for fault, alarm in pairs if alarm]),
            }
            for kind, pairs in sorted(kinds.items())
        },
    }  # fmt: skip


def _show(seed: int, run: Judged) -> None:
    plan = run.simulation.plan
    head = f"{seed:5} {plan.layout.ranks:4} ranks {plan.telemetry.clocking:10} cv {plan.cv:.2f} rho {plan.rho:.1f}"
    for fault in (one for one in run.faults if one.type):
        alarm = run.found.get(fault.id)
        said = (
            "MISSED"
            if alarm is None
            else f"{alarm.last.type} after {delay_s(fault, alarm):.0f} s {alarm.last.ranks[:3]}"
        )
        print(f"{head} {fault.kind:18} x{fault.magnitude:<8.3g} {fault.type:18} -> {said}", file=sys.stderr)
    for alarm in run.false:
        event = alarm.last
        print(f"{head} {'FALSE':18} {event.type} {event.title} {event.ranks[:3]} {event.nodes[:2]}", file=sys.stderr)


def run_slowdown(runs: int, first: int) -> dict[str, Any]:
    """Recall within 120 steps for a slowdown of all ranks, by factor and noise; plain step times alone."""
    rows = {}
    for cv, rho in ((0.01, 0.3), (0.02, 0.3), (0.02, 0.7), (0.05, 0.3), (0.05, 0.7), (0.10, 0.3), (0.10, 0.7)):
        for factor in (1.05, 1.10, 1.20, 1.50):
            hits, steps = 0, []
            for seed in range(first, first + runs):
                simulation = simulate(
                    seed, split="test", kind="global_slowdown", magnitude=factor, cv=cv, rho=rho, steps=720,
                    onset=330 + seed * 7 % 30,
                    ranks=4, clocking="none", step_s=1.0, sample_s=60.0, oddities=False,
                )  # fmt: skip
                found = _steps_late(simulation, {"slowdown"})
                hits += found is not None and found <= 120
                steps += [found] if found is not None else []
            rows[f"cv {cv:.2f} rho {rho:.1f} x{factor:.2f}"] = proportion(hits, runs) | {
                "steps_p50": quantiles(steps)["p50"]
            }
    return rows


def _steps_late(simulation: Simulation, types: set[str]) -> float | None:
    """Steps from the begin of the first fault to the confirmation of an event of these types."""
    run = judge(simulation)
    for fault in run.faults:
        alarm = run.found.get(fault.id)
        if alarm is not None and alarm.last.type in types:
            begun = fault.t0
            return sum(
                begun < signal.time <= (alarm.confirmed_at or 0)
                for signal in simulation.signals()
                if isinstance(signal, Step) and signal.rank == 0
            )
    return None


def run_straggler(runs: int, first: int, sizes: Sequence[int], factors: Sequence[float]) -> dict[str, Any]:
    """Share of runs whose straggler is named, by number of ranks and factor, with a device clock."""
    rows = {}
    for ranks in sizes:
        for factor in factors:
            named, late, count = 0, [], runs
            for seed in range(first, first + count):
                simulation = simulate(
                    seed, split="test", kind="slow_rank", magnitude=factor, ranks=ranks, cv=0.03, rho=0.3, steps=300,
                    onset=110 + seed * 7 % 20,
                    clocking="device", step_s=1.0, sample_s=60.0, oddities=False,
                )  # fmt: skip
                run = judge(simulation)
                alarm = next(iter(run.found.values()), None)
                right = alarm is not None and alarm.last.type == "straggler" and alarm.last.ranks == run.faults[0].ranks
                named += right
                late += [delay_s(run.faults[0], alarm)] if right and alarm else []
            rows[f"{ranks} ranks x{factor:.2f}"] = proportion(named, count) | {"steps_p50": quantiles(late)["p50"]}
    return rows


def run_hang(split: str, runs: int, first: int, **drawn: Any) -> dict[str, Any]:
    """Delay to suspicion and confirmation of a hang against what is allowed, and whether its culprit is named.

    Args:
        drawn: what is not left to the seed, such as ``step_s`` and ``clocking``.
    """
    rows = {}
    for kind in ("deadlock", "frozen", "frozen_unseen", "device_hang", "rank0_long_work", "collective_mismatch"):
        suspected, confirmed, culprit, at_once, in_time, found = [], [], 0, 0, 0, 0
        for seed in range(first, first + runs):
            simulation = simulate(seed, split=split, kind=kind, **drawn)
            run = judge(simulation)
            fault = run.faults[0]
            alarm = next((one for one in run.alarms if one.last.type == "hang" and _fits(one, fault)), None)
            if alarm is None:
                continue
            found += 1
            suspected.append(delay_s(fault, alarm, suspected=True))
            confirmed.append(delay_s(fault, alarm))
            in_time += suspected[-1] <= _allowed_s(simulation)
            culprit += alarm.last.ranks[:1] == fault.ranks[:1]
            at_once += alarm.confirmed is not None and alarm.confirmed.ranks[:1] == fault.ranks[:1]
        rows[kind] = {
            "found": proportion(found, runs), "suspected_in_time": proportion(in_time, found),
            "suspected_s": quantiles(suspected), "confirmed_s": quantiles(confirmed),
            "culprit": proportion(culprit, found), "culprit_when_confirmed": proportion(at_once, found),
        }  # fmt: skip
    return rows


def _allowed_s(simulation: Simulation) -> float:
    """max(30 s, 3 x the 99th percentile of step time + 1.5 x the longest known pause), a heartbeat and a step."""
    plan, took, longest, begun = simulation.plan, [], 0.0, 0
    for signal in simulation.signals():
        if isinstance(signal, Step) and signal.rank == 0 and signal.step > plan.habits.warmup:
            took.append(signal.duration_s)
        elif isinstance(signal, (PhaseBegan, PhaseEnded)) and signal.rank == 0 and signal.phase in PAUSES:
            longest = max(longest, (signal.time - begun) / US if isinstance(signal, PhaseEnded) else 0.0)
            begun = signal.time
    slow = sorted(took)[int(0.99 * len(took))]
    return max(30.0, 3 * slow + 1.5 * longest) + plan.telemetry.heartbeat_s + plan.step_s


def run_clean(days: float, first: int, step_s: float) -> dict[str, Any]:
    """Confirmed alarms of clean runs by noise; 8 ranks, a day's cycle in them. Longer steps make a day cheaper."""
    rows = {}
    for cv, rho in ((0.02, 0.3), (0.05, 0.3), (0.05, 0.7), (0.10, 0.5), (0.10, 0.7)):
        said: Counter[str] = Counter()
        length = 0.0
        for seed in range(first, first + max(1, round(days))):
            run = judge(
                simulate(
                    seed, kind="clean", ranks=8, steps=int(DAY_S / step_s), step_s=step_s, cv=cv, rho=rho, sample_s=30.0
                )
            )
            said.update(alarm.last.type for alarm in run.alarms)
            length += run.length_s
        rows[f"cv {cv:.2f} rho {rho:.1f}"] = {
            "run_days": round(length / DAY_S, 2), "alarms": sum(said.values()),
            "per_run_day": round(sum(said.values()) / length * DAY_S, 3), "types": dict(said),
        }  # fmt: skip
    return rows


def run_cost() -> dict[str, float]:
    """µs of CPU of the detectors alone for each signal, and for each value (a step, each of its phases, a sample)."""
    stream = list(
        signals(simulate(7, kind="clean", ranks=16, steps=1500, step_s=1.0, clocking="device", sample_s=10.0))
    )
    values = sum(1 + len(s.phases) if isinstance(s, Step) else isinstance(s, Sample) for s in stream)
    detection, begun = Detection("run_cost"), time.process_time()
    for signal in stream:
        detection.take(signal)
    spent = time.process_time() - begun
    steps = sum(isinstance(s, Step) for s in stream)
    return {
        "signals": len(stream), "values": values, "us_per_signal": round(spent / len(stream) * 1e6, 2),
        "us_per_value": round(spent / values * 1e6, 2), "us_per_rank_step": round(spent / steps * 1e6, 2),
    }  # fmt: skip
