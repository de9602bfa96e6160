"""Writes a timeline and its truth together: each stretch of time goes into its bucket when its events are written.

Nothing here reads events or knows how a ledger finds its answer. What a later start takes back is moved to ``recompute``
as the author says it (``Story.attempt(resume=...)``, ``Story.rewind``), not searched for. Times are whole microseconds.
"""

import json
from collections.abc import Sequence
from typing import Any

import msgspec

US = 1_000_000


class Case(msgspec.Struct, frozen=True):
    """A timeline (JSON lines) and the fields that a ledger must answer for it."""

    name: str
    lines: list[bytes]
    truth: dict[str, Any]


class _Piece(msgspec.Struct):
    """A stretch of time in its bucket; ``step`` is the execution that it belongs to (None: outside of steps)."""

    bucket: str
    us: int
    devices: int
    step: int | None = None


class Story:
    """One run as it happens. Seconds may have six decimals.

    Args:
        ideal: the ideal step that the author has in mind, None where no step counts.
        devices: of every attempt that names no other number.
        epoch: ``t`` of the first event.
    """

    def __init__(self, name: str, *, ideal: float | None, devices: int = 8, epoch: float = 0.0) -> None:
        self.name, self.ideal, self.devices = name, ideal, devices
        self.now = round(epoch * US)
        self.events: list[dict[str, Any]] = []
        self.pieces: list[_Piece] = []
        self.executions: list[tuple[int, bool, bool]] = []  # (step, complete, lost)
        self.attempts = self.rejected = 0
        self.overlap_us = 0
        self.number = 0

    # ── what happens ──

    def event(self, kind: str, **fields: Any) -> None:
        """Write an event that happens now."""
        self.events.append({"t": self.now / US, "kind": kind, **{k: v for k, v in fields.items() if v is not None}})

    def spend(self, bucket: str, seconds: float, step: int | None = None) -> None:
        """Time passes, in this bucket."""
        self.pieces.append(_Piece(bucket, round(seconds * US), self.devices, step))
        self.now += round(seconds * US)

    def submit(self, waits: float, attempt: int | None = None, bucket: str = "queue_wait") -> None:
        """The job is submitted and waits."""
        self.event("job_submitted", attempt=attempt)
        self.spend(bucket, waits)

    def attempt(self, *, resume: int | None = None, devices: int | None = None, says: bool = True) -> None:
        """The next attempt starts; executions from step ``resume`` on are lost. ``says``: the event names the step."""
        self.number += 1
        self.attempts += 1
        self.devices = devices or self.devices
        self.event("attempt_started", attempt=self.number, devices=self.devices, resume_step=resume if says else None)
        if resume is not None:
            self._lose(resume)

    def end(self, reason: str) -> None:
        """The attempt ends."""
        self.event("attempt_ended", attempt=self.number, reason=reason)

    def phase(self, name: str, seconds: float, *, bucket: str | None = None, rank: int | None = None) -> None:
        """A phase outside of steps, in the bucket of its name."""
        self.event("phase_started", attempt=self.number, phase=name, rank=rank)
        self.spend(bucket or name, seconds)
        self.event("phase_ended", attempt=self.number, phase=name, rank=rank)

    def step(
        self,
        step: int,
        *parts: tuple[str, float],
        every: int | None = None,
        ended: bool = True,
        fate: str = "complete",
    ) -> None:
        """A step of the given (bucket, seconds), in that order: a phase is written for each that has one.

        ``fate``: ``complete``; ``dead``: the attempt dies in it, so that all of it but hangs is recompute; ``flight``.
        """
        self.event("step_started", attempt=self.number, step=step, every=every)
        self.executions.append((step + (every or 1) - 1, fate == "complete", fate == "dead"))
        for bucket, seconds in parts:
            told = bucket if fate != "dead" or bucket == "hang" else "recompute"
            if bucket in _PHASES:
                self.event("phase_started", attempt=self.number, phase=bucket)
            self.spend(told, seconds, step)
            if bucket in _PHASES:
                self.event("phase_ended", attempt=self.number, phase=bucket)
        if ended:
            self.event("step_ended", attempt=self.number, step=step, every=every)

    def steps(self, numbers: range, seconds: float) -> None:
        """Plain steps."""
        for number in numbers:
            self.step(number, ("productive", seconds))

    def durable(self, step: int) -> None:
        """The checkpoint of a step is durable now."""
        self.event("checkpoint_durable", step=step)

    def rewind(self, step: int) -> None:
        """The attempt goes back to a step, which is the next one written."""
        self._lose(step)

    def fails_after(self, durable: int) -> None:
        """The job ends badly: what is behind the newest durable step is lost."""
        self._lose(durable + 1)

    def junk(self, line: dict[str, Any]) -> None:
        """An event that can't be true."""
        self.events.append(line)
        self.rejected += 1

    def _lose(self, first: int) -> None:
        self.executions = [(step, complete, lost or step >= first) for step, complete, lost in self.executions]
        for piece in self.pieces:
            if piece.step is not None and piece.step >= first and piece.bucket != "hang":
                piece.bucket = "recompute"

    # ── the end ──

    def finish(self, reason: str | None = "finished") -> None:
        """The job ends."""
        self.event("job_ended", reason=reason)

    def case(self, *, is_open: bool = False, provisional: float = 0.0) -> Case:
        """The timeline with its truth."""
        wall = sum(piece.us for piece in self.pieces)
        seconds, on_devices = self._sums(1), self._sums(None)
        device = sum(on_devices.values())
        absent = sum(seconds.get(bucket, 0) for bucket in ("queue_wait", "provision", "wait_for_nodes"))
        productive = seconds.get("productive", 0)
        stepping = productive + seconds.get("slow_steps", 0)
        truth = {
            "wall_s": wall / US,
            "device_s": device / US,
            "buckets_s": {bucket: us / US for bucket, us in seconds.items()},
            "buckets_device_s": {bucket: us / US for bucket, us in on_devices.items()},
            "lost_steps": sum(complete and lost for _, complete, lost in self.executions),
            "attempts": self.attempts,
            "ideal_step_s": self.ideal,
            "scheduling": _ratio(wall - absent, wall),
            "runtime": _ratio(stepping, wall - absent),
            "program": _ratio(productive, stepping) if self.ideal is not None else None,
            "program_basis": "unknown" if self.ideal is None else "ideal_step",
            "overall": _ratio(productive, wall),
            "overall_device": _ratio(on_devices.get("productive", 0), device),
            "rejected": self.rejected,
            "open": is_open,
            "provisional_s": provisional,
            "overlap_device_s": self.overlap_us / US,
        }
        return Case(self.name, [json.dumps(event).encode() for event in self.events], truth)

    def _sums(self, devices: int | None) -> dict[str, int]:
        sums: dict[str, int] = {}
        for piece in self.pieces:
            sums[piece.bucket] = sums.get(piece.bucket, 0) + piece.us * (devices or piece.devices)
        return sums


_PHASES = frozenset({"init", "restore", "compile", "data_wait", "checkpoint_save", "evaluation", "idle"})


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def shuffled(lines: Sequence[bytes], *, twice: Sequence[int] = ()) -> list[bytes]:
    """The lines in an order that has nothing to do with time, some of them twice."""
    doubled = [*lines, *(lines[at] for at in twice)]
    return sorted(doubled, key=lambda line: line[::-1])
