"""The ledger as the document ``stepward.goodput/1``: seconds, factors, what was rejected and assumed."""

import contextlib
from collections.abc import Iterable, Sequence

import msgspec

from stepward.errors import UsageError
from stepward.goodput import events, history
from stepward.goodput.events import Event, Rejection
from stepward.goodput.ledger import Ledger, account
from stepward.goodput.sources import reference

NS = 1_000_000_000


class Report(msgspec.Struct, kw_only=True):
    """Where the time of a run went. Ratios with divisor 0 are None; seconds are exact to the ns.

    Attributes:
        overall: productive / wall = scheduling x runtime x program.
        scheduling: share of the wall in which all needed resources were there.
        runtime: share of that in which steps made progress, however slowly.
        program: how fast those steps were, measured by the ideal step.
        provisional_s: productive seconds that a crash now would take back.
    """

    schema: str = "stepward.goodput/1"
    wall_s: float
    device_s: float
    overall: float | None
    overall_device: float | None
    scheduling: float | None
    runtime: float | None
    program: float | None
    program_basis: str
    mfu: float | None = None
    buckets_s: dict[str, float]
    buckets_device_s: dict[str, float]
    attempts: int
    lost_steps: int
    ideal_step_s: float | None
    provisional_s: float
    overlap_device_s: float
    open: bool
    rejected: int = 0
    rejected_lines: list[Rejection] = []
    assumptions: list[str] = []


def replay(lines: Iterable[bytes | str], now_s: float | None = None) -> Report:
    """The report of a timeline in JSON lines.

    Raises:
        UsageError: ``no_events``: it begins nothing, so that there is no wall to account for.
    """
    read, rejected = events.read(lines)
    found = of_events(read, rejected, now_s)
    if found is None:
        raise _nothing(len(read) + len(rejected), rejected)
    return found


def replay_reference(lines: Iterable[bytes | str], now_s: float | None = None, devices: int | None = None) -> Report:
    """The report of a log of ``ml-goodput-measurement``, one JSON entry a line; what is no entry is passed over.

    Raises:
        UsageError: ``no_events``.
    """
    entries: list[dict[str, object]] = []
    for line in lines:
        with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            entry = events.decode(line)
            entries += [entry] if isinstance(entry, dict) else []
    found = of_events(reference.events_of(entries, devices), (), now_s)
    if found is None:
        raise _nothing(len(entries), ())
    return found


def of_events(read: Iterable[Event], rejected: Iterable[Rejection] = (), now_s: float | None = None) -> Report | None:
    """The report of events, None where no attempt or submission is among them; ``now_s`` ends the wall of an open run."""
    told = history.build(read, rejected, None if now_s is None else round(now_s * 1e6) * events.US)
    return None if told is None else report(account(told), told.rejected)


def _nothing(lines: int, rejected: Sequence[Rejection]) -> UsageError:
    first = f"; line {rejected[0].line}: {rejected[0].reason}" if rejected else ""
    return UsageError(
        f"none of {lines} lines begins a job or an attempt{first}" if lines else "the timeline is empty",
        code="no_events",
        hint="a timeline has job_submitted or attempt_started: docs/goodput.md, Events",
    )


def report(ledger: Ledger, rejected: Iterable[Rejection] = ()) -> Report:
    """The document of a ledger."""
    b = ledger.buckets
    absent = b["queue_wait"] + b["provision"] + b["wait_for_nodes"]
    stepping = b["productive"] + b["slow_steps"]
    refused = sorted(rejected, key=lambda rejection: rejection.line)
    return Report(
        wall_s=ledger.wall / NS,
        device_s=ledger.device / NS,
        overall=_ratio(b["productive"], ledger.wall),
        overall_device=_ratio(ledger.buckets_device["productive"], ledger.device),
        scheduling=_ratio(ledger.wall - absent, ledger.wall),
        runtime=_ratio(stepping, ledger.wall - absent),
        program=_ratio(b["productive"], stepping) if ledger.ideal is not None else None,
        program_basis="ideal_step" if ledger.ideal is not None else "unknown",
        buckets_s={bucket: ns / NS for bucket, ns in b.items()},
        buckets_device_s={bucket: ns / NS for bucket, ns in ledger.buckets_device.items()},
        attempts=ledger.attempts,
        lost_steps=ledger.lost_steps,
        ideal_step_s=None if ledger.ideal is None else ledger.ideal / NS,
        provisional_s=ledger.provisional / NS,
        overlap_device_s=ledger.overlap_device / NS,
        open=ledger.open,
        rejected=len(refused),
        rejected_lines=refused,
        assumptions=ledger.assumptions,
    )


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None
