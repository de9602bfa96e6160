"""What is answered about the goodput of runs: one run with its attempts and windows, and many runs side by side.

``of_history`` puts it together from a history, ``of_live`` from a ledger that goes on; who reads the records adds more.
"""

from collections.abc import Iterable, Sequence

import msgspec

from stepward.goodput.events import US
from stepward.goodput.history import History
from stepward.goodput.ledger import Accountant, Ledger
from stepward.goodput.live import LiveLedger
from stepward.goodput.reliability import CheckpointAdvice, Reliability, checkpoint_advice, reliability
from stepward.goodput.report import NS, Report, report
from stepward.model.resources import instant

WINDOWS = {"1h": 3600, "24h": 86_400}
"""Rolling windows beside the whole run, s."""


class AttemptBuckets(msgspec.Struct, kw_only=True):
    """An attempt on the wall: seconds from the run's start, its end's reason (None: it runs), its buckets."""

    attempt: int
    start_s: float
    end_s: float
    reason: str | None
    devices: int
    buckets_s: dict[str, float]


class WindowBuckets(msgspec.Struct, kw_only=True):
    """The buckets of the last ``window`` of the wall."""

    window: str
    wall_s: float
    overall: float | None
    buckets_s: dict[str, float]


class RunGoodput(msgspec.Struct, kw_only=True):
    """Where the time of one run went.

    Attributes:
        exact: two passes over everything; False: the live ledger's provisional figures, without advice.
        assumptions: of the source, beside those of ``report``.
    """

    run: str
    name: str
    project: str
    started_at: str | None = None
    exact: bool = True
    report: Report
    windows: list[WindowBuckets] = []
    attempts: list[AttemptBuckets] = []
    reliability: Reliability | None = None
    advice: CheckpointAdvice | None = None
    assumptions: list[str] = []


class RunShare(msgspec.Struct, kw_only=True):
    """A run among others."""

    run: str
    name: str
    project: str
    state: str
    user: str
    partition: str
    nodes: list[str]
    started_at: str | None
    wall_s: float
    device_s: float
    overall: float | None
    buckets_device_s: dict[str, float]
    mttf_s: float | None = None
    interruptions: int = 0


class FleetGoodput(msgspec.Struct, kw_only=True):
    """Where the device time of many runs went.

    Attributes:
        left_out: runs without an attempt, or beyond the limit.
        pending: runs whose account is still being computed: ask again.
    """

    since: str | None
    device_s: float
    overall_device: float | None
    buckets_device_s: dict[str, float]
    runs: list[RunShare]
    left_out: int = 0
    pending: int = 0


def of_history(history: History, *, run: str, name: str, project: str) -> RunGoodput:
    """The whole answer for a history; exact."""
    accountant = Accountant(history, None)
    ledger = accountant.ledger()
    failures = reliability(history)
    return RunGoodput(
        run=run,
        name=name,
        project=project,
        started_at=instant(history.start // US),
        report=report(ledger, history.rejected),
        windows=[_window(accountant, ledger, label, seconds) for label, seconds in WINDOWS.items()],
        attempts=_attempts(history, accountant.devices, accountant.by_owner),
        reliability=failures,
        advice=checkpoint_advice(history, failures.mttf_s),
    )


def of_live(live: LiveLedger, now: int, *, run: str, name: str, project: str) -> RunGoodput | None:
    """The whole answer of a live ledger by now (ns); provisional. None as long as nothing has begun."""
    standing = live.standing(now, [seconds * NS for seconds in WINDOWS.values()])
    if standing is None:
        return None
    history = standing.history
    return RunGoodput(
        run=run,
        name=name,
        project=project,
        started_at=instant(history.start // US),
        exact=False,
        report=report(standing.whole, live.rejections()),
        windows=[_shown(label, ledger) for label, ledger in zip(WINDOWS, standing.windows, strict=True)],
        attempts=_attempts(
            history, standing.devices, [standing.by_attempt.get(attempt.number, {}) for attempt in history.attempts]
        ),
        reliability=reliability(history),
        assumptions=[f"{live.late} events came too late to be counted"] if live.late else [],
    )


def _attempts(history: History, devices: Sequence[int], buckets: Sequence[dict[str, int]]) -> list[AttemptBuckets]:
    return [
        AttemptBuckets(
            attempt=attempt.number,
            start_s=(attempt.start - history.start) / NS,
            end_s=(min(attempt.end, history.end) - history.start) / NS,
            reason=attempt.reason,
            devices=count,
            buckets_s={bucket: ns / NS for bucket, ns in own.items() if ns},
        )
        for attempt, count, own in zip(history.attempts, devices, buckets, strict=True)
    ]


def _window(accountant: Accountant, whole: Ledger, label: str, seconds: int) -> WindowBuckets:
    history = accountant.history
    start = history.end - seconds * NS
    return _shown(label, whole if start <= history.start else accountant.since(start).ledger())


def _shown(label: str, ledger: Ledger) -> WindowBuckets:
    shown = report(ledger)
    return WindowBuckets(window=label, wall_s=shown.wall_s, overall=shown.overall, buckets_s=shown.buckets_s)


def fleet(since: str | None, runs: Iterable[RunShare], left_out: int = 0, pending: int = 0) -> FleetGoodput:
    """Runs side by side, the most device time first."""
    shown = sorted(runs, key=lambda one: -one.device_s)
    buckets: dict[str, float] = {}
    for one in shown:
        for bucket, seconds in one.buckets_device_s.items():
            buckets[bucket] = buckets.get(bucket, 0.0) + seconds
    device = sum(one.device_s for one in shown)
    overall = buckets.get("productive", 0.0) / device if device else None
    return FleetGoodput(
        since=since,
        device_s=device,
        overall_device=overall,
        buckets_device_s=buckets,
        runs=shown,
        left_out=left_out,
        pending=pending,
    )
