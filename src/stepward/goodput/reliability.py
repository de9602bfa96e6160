"""How often a run was interrupted, how long that took to mend, and what a better checkpoint interval would bring.

The optimal interval between checkpoints is sqrt(2 x save time x mean time to failure) (Young 1974), refined by Daly
(2006) where the save time is not small against it. Both are measured here, so with few failures they are rough.
"""

import itertools
import math

import msgspec

from stepward.goodput.history import Attempt, History

NS = 1_000_000_000
INTERRUPTIONS = frozenset({"finished", "cancelled"})
"""Ends that were wanted: they are no interruption."""


class Reliability(msgspec.Struct, kw_only=True):
    """Failures of a run.

    Attributes:
        interruptions: bad ends by cause, the last one of an ended run included.
        mttf_s: time in attempts per interruption; None without one.
        mttr_s: mean time from an interruption to the next attempt's first step (its start where it made none).
        ettr: share of the wall in which the run trained or was ready to: the effective training time ratio.
    """

    interruptions: dict[str, int]
    mttf_s: float | None
    mttr_s: float | None
    ettr: float | None


class CheckpointAdvice(msgspec.Struct, kw_only=True):
    """The interval between checkpoints that loses least.

    Attributes:
        save_s: mean time that a checkpoint held the loop up.
        interval_s: mean time between two checkpoints so far.
        best_interval_s: by Daly.
        cost_s, best_cost_s: expected cost of saves and lost work per hour of training, now and at the best interval.
        gain: share of the training time that the best interval would give back.
    """

    save_s: float
    mttf_s: float
    interval_s: float
    best_interval_s: float
    cost_s: float
    best_cost_s: float
    gain: float


def reliability(history: History) -> Reliability:
    """Interruptions and what they cost."""
    attempts = history.attempts
    causes: dict[str, int] = {}
    repairs: list[int] = []
    ready = 0
    for at, attempt in enumerate(attempts):
        # What ``owners`` takes from an attempt when a newer one starts is not its time any more.
        end = min(attempt.end, attempts[at + 1].start) if at + 1 < len(attempts) else attempt.end
        ready += max(min(end, history.end) - _first_step(attempt, end), 0)
        if attempt.reason is None or attempt.reason in INTERRUPTIONS:
            continue
        causes[attempt.reason] = causes.get(attempt.reason, 0) + 1
        if at + 1 < len(attempts):
            following = attempts[at + 1]
            repairs.append(max(_first_step(following, following.start) - end, 0))
    count, wall = sum(causes.values()), history.end - history.start
    up = sum(min(attempt.end, history.end) - attempt.start for attempt in attempts)
    return Reliability(
        interruptions=causes,
        mttf_s=up / count / NS if count else None,
        mttr_s=sum(repairs) / len(repairs) / NS if repairs else None,
        ettr=ready / wall if wall else None,
    )


def checkpoint_advice(history: History, mttf_s: float | None) -> CheckpointAdvice | None:
    """What another interval would bring; None without a failure, or without two checkpoints whose saves took time."""
    saves = [
        (phase.end - phase.start) / NS
        for attempt in history.attempts
        for phases in list(attempt.phases.values())[:1]
        for phase in phases
        if phase.name == "checkpoint_save"
    ]
    times = sorted({t for t, _ in history.durable})
    if mttf_s is None or not saves or len(times) < 2:
        return None
    save = sum(saves) / len(saves)
    gaps = sorted(after - before for before, after in itertools.pairwise(times))
    interval = gaps[len(gaps) // 2] / NS
    if save <= 0 or interval <= 0:
        return None
    best = best_interval(save, mttf_s)
    now, then = cost_per_second(interval, save, mttf_s), cost_per_second(best, save, mttf_s)
    return CheckpointAdvice(
        save_s=save,
        mttf_s=mttf_s,
        interval_s=interval,
        best_interval_s=best,
        cost_s=3600 * now,
        best_cost_s=3600 * then,
        gain=max(now - then, 0.0),
    )


def best_interval(save_s: float, mttf_s: float) -> float:
    """Daly's higher-order estimate of the best time between two checkpoints, s."""
    if save_s >= 2 * mttf_s:
        return mttf_s
    root = math.sqrt(2 * save_s * mttf_s)
    share = math.sqrt(save_s / (2 * mttf_s))
    return root * (1 + share / 3 + share * share / 9) - save_s


def cost_per_second(interval_s: float, save_s: float, mttf_s: float) -> float:
    """Expected seconds lost per second of training: the saves, and half an interval a failure."""
    return save_s / interval_s + (interval_s + save_s) / 2 / mttf_s


def _first_step(attempt: Attempt, otherwise: int) -> int:
    if attempt.stepped is not None:
        return attempt.stepped
    return min((steps[0].start for steps in attempt.steps.values() if steps), default=otherwise)
