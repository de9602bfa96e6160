"""What follows when an attempt ends: who notices what after how long, who says so, and how each process ends."""

from collections.abc import Iterator

import numpy as np

from stepward.detect.signals import AttemptEnded, RankEnded
from stepward.testing.simulator.launchers import report
from stepward.testing.simulator.layout import Floats
from stepward.testing.simulator.noise import stream
from stepward.testing.simulator.plan import Plan
from stepward.testing.simulator.segment import Segment, Still
from stepward.testing.simulator.trouble import Opening, Stop, Trouble
from stepward.testing.simulator.voice import Text, Voice


def finished(plan: Plan, voice: Voice, attempt: str, now: float) -> Segment:
    """All steps are done, or somebody has had enough of them."""
    ranks = plan.layout.ranks
    everyone = np.ones(ranks, bool)
    still = Still(
        np.zeros(ranks), ~everyone, ~everyone, everyone, ~everyone, plan.steps - 1, np.full(ranks, now), [None] * ranks
    )
    segment = Segment(attempt, now, now + 4.0, still=still)
    cancelled = plan.ending == "cancelled"
    for rank in range(ranks):
        segment.signals.append(
            RankEnded(
                voice.at(now + 3.0), attempt, rank, None if cancelled else 0, "SIGTERM" if cancelled else None,
                plan.layout.node_of(rank),
            )
        )  # fmt: skip
    state, reason = ("cancelled", "CANCELLED by 1000") if cancelled else ("finished", "")
    segment.signals.append(AttemptEnded(voice.at(now + 4.0), attempt, state, reason))
    if cancelled:
        stamp = f"{voice.clock(now):%Y-%m-%dT%H:%M:%S}"
        segment.texts.append(
            voice.launcher(
                now + 1.0,
                f"slurmstepd: error: *** STEP {plan.job}.0 ON {plan.layout.node(0)} CANCELLED AT {stamp} ***",
            )
        )  # fmt: skip
    else:
        segment.texts.append(voice.log(now + 1.0, 0, f"training finished after {plan.steps} steps"))
    return segment


def failed_start(segment: Segment, opening: Opening, plan: Plan, voice: Voice) -> None:
    """An attempt that never comes to its first step."""
    end = segment.end
    struck = opening.ranks or tuple(range(plan.layout.ranks))
    segment.end = end + 6.0
    for rank in range(plan.layout.ranks):
        first = rank in struck
        segment.signals.append(
            RankEnded(
                voice.at(end if first else end + 3.0), segment.attempt, rank, opening.exit_code if first else None,
                None if first else "SIGTERM", plan.layout.node_of(rank),
            )
        )  # fmt: skip
    if opening.exit_code is not None:
        segment.texts += report(plan, voice, end + 2.0, struck[0], opening.exit_code)
    segment.signals.append(AttemptEnded(voice.at(end + 5.0), segment.attempt, opening.state, opening.reason))


def stopped(
    plan: Plan, voice: Voice, attempt: str, *, when: tuple[float, float], what: tuple[Stop, Trouble], begins: Floats
) -> Segment:
    """From the stop to the end of the attempt.

    Args:
        when: end of the last segment, and the instant of the stop.
        what: the stop, and the trouble that it comes from.
        begins: when each rank began the step.
    """
    (now, at), (stop, trouble) = when, what
    dice = stream(plan.seed, "aftermath", int(attempt))
    end = at + stop.after_s
    segment = Segment(attempt, now, end, still=_still(plan, stop, begins))
    segment.texts += trouble.last_words(at, voice)
    others = [rank for rank in range(plan.layout.ranks) if rank not in stop.ranks]
    if stop.how == "died":
        _end(segment, plan, voice, dict.fromkeys(stop.ranks, at + 0.3), exit_code=stop.exit_code, signal=stop.signal)
    ends = _peers(segment, plan, voice, stop, others=others, at=at, dice=dice)
    last = max(ends.values(), default=end)
    if stop.how == "stuck":
        _end(
            segment,
            plan,
            voice,
            dict.fromkeys(stop.ranks, last + 8.0),
            exit_code=stop.exit_code,
            signal=stop.signal or "SIGKILL",
        )
        last += 8.0
    segment.end = last + 3.0
    segment.signals.append(AttemptEnded(voice.at(segment.end), attempt, stop.state, stop.reason))
    return segment


def _still(plan: Plan, stop: Stop, begins: Floats) -> Still:
    ranks = plan.layout.ranks
    struck = np.zeros(ranks, bool)
    struck[list(stop.ranks)] = True
    nothing = np.zeros(ranks, bool)
    told = plan.telemetry.clocking != "none"
    phases = [(stop.phase if struck[rank] else "collective") if told else None for rank in range(ranks)]
    silent = struck if stop.how in ("died", "vanished") or not stop.beats else nothing
    return Still(
        busy=np.where(struck & (not stop.spins), 0.0, 1.0),
        gone=struck if stop.how == "vanished" else nothing,
        dead=struck if stop.how == "died" else nothing,
        beats=~silent,
        frozen=struck if stop.frozen else nothing,
        step=stop.step,
        since_s=begins,
        phase=phases,
    )


def _peers(
    segment: Segment, plan: Plan, voice: Voice, stop: Stop, *, others: list[int], at: float, dice: np.random.Generator
) -> dict[int, float]:
    """How those who were not struck end: rank -> when."""
    if stop.peers == "watchdog":
        ends = {rank: at + stop.after_s + float(dice.uniform(0.1, 2.5)) for rank in others}
        for rank, instant in ends.items():
            segment.texts += watchdog(voice, instant - 0.1, rank, stop, dice)
        _end(segment, plan, voice, ends, exit_code=None, signal="SIGABRT")
        if others:
            first = min(others, key=lambda rank: ends[rank])
            segment.texts += report(plan, voice, max(ends.values()) + 1.0, first, -6)
        return ends
    if stop.peers == "closed":
        ends = {rank: at + float(dice.uniform(1.0, stop.after_s)) for rank in others}
        host = plan.layout.node_of(stop.ranks[0])
        for rank, instant in ends.items():
            segment.texts += closed(voice, instant - 0.2, rank, host, dice)
        _end(segment, plan, voice, ends, exit_code=None, signal="SIGTERM")
        code = stop.exit_code if stop.exit_code is not None else -_NUMBERS.get(stop.signal or "", 9)
        segment.texts += report(plan, voice, at + stop.after_s + 0.5, stop.ranks[0], code)
        return ends
    ends = {rank: at + stop.after_s + float(dice.uniform(0.0, 1.5)) for rank in others}
    signal = "SIGKILL" if stop.how == "vanished" else stop.signal or "SIGTERM"
    _end(segment, plan, voice, ends, exit_code=stop.exit_code if stop.how == "told" else None, signal=signal)
    return ends


_NUMBERS = {"SIGKILL": 9, "SIGSEGV": 11, "SIGABRT": 6, "SIGTERM": 15, "SIGBUS": 7}


def _end(
    segment: Segment, plan: Plan, voice: Voice, ends: dict[int, float], *, exit_code: int | None, signal: str | None
) -> None:
    for rank, instant in ends.items():
        segment.signals.append(
            RankEnded(
                voice.at(instant), segment.attempt, rank, exit_code, signal if exit_code is None else None,
                plan.layout.node_of(rank),
            )
        )  # fmt: skip


def watchdog(voice: Voice, instant: float, rank: int, stop: Stop, dice: np.random.Generator) -> Iterator[Text]:
    """What a rank's watchdog says of a collective that did not end."""
    limit, sequence = round(stop.after_s * 1000), 4 * stop.step + 3
    ran = limit + int(dice.integers(20, 900))
    place = "ProcessGroupNCCL.cpp:632]"
    yield voice.torch(
        instant, rank, "E", place,
        f"[Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={sequence}, OpType=ALLREDUCE, "
        f"NumelIn=52428800, NumelOut=52428800, Timeout(ms)={limit}) ran for {ran} milliseconds before timing out.",
    )  # fmt: skip
    yield voice.torch(
        instant + 0.01, rank, "E", "ProcessGroupNCCL.cpp:2268]",
        f"[PG ID 0 PG GUID 0(default_pg) Rank {rank}] failure detected by watchdog at work sequence id: {sequence} "
        f"PG status: last enqueued work: {sequence + 2}, last completed work: {sequence - 1}",
    )  # fmt: skip
    yield voice.torch(
        instant + 0.05, rank, "E", "ProcessGroupNCCL.cpp:684]",
        f"[Rank {rank}] To avoid data inconsistency, we are taking the entire process down.",
    )  # fmt: skip


def closed(voice: Voice, instant: float, rank: int, host: str, dice: np.random.Generator) -> Iterator[Text]:
    """What a rank says of a peer that is no longer there."""
    port = int(dice.integers(32_000, 60_000))
    yield voice.nccl(instant, rank, f"WARN socketProgress: Connection closed by remote peer {host}<{port}>")
    yield voice.raw(
        instant + 0.1, rank,
        "torch.distributed.DistBackendError: NCCL error: remote process exited or there was a network error, "
        "NCCL version 2.21.5",
    )  # fmt: skip
