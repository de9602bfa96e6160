"""Step lines of trainers' logs as events of the ledger, for runs without the SDK.

Two forms: dicts that Hugging Face's Trainer prints (``{'loss': 2.1, ..., 'epoch': 0.5}`` with a step in the line or counted
by ``logging_steps``), and nanoGPT-like prints (``iter 10: loss 2.3456, time 812.34ms, mfu 38.2%``). Assumed: a line is
printed when its step ends; steps fill the time between two lines evenly; a step number that falls begins a new attempt;
nothing is known of checkpoints, nor of the time before the first line. A nanoGPT line says how long its step took.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

from stepward.goodput.events import Event

NS = 1_000_000_000
NANOGPT = re.compile(r"\biter(?:ation)?[ =:]+(\d+)\b.*?\bloss\b.*?\btime[ =:]+([0-9.]+) ?(ms|s)\b")
TRAINER = re.compile(r"\{'(?:loss|train_loss)': .*'epoch': ")
STEP = re.compile(r"(?:'step'|\"step\"|\bstep)[ =:]+'?(\d+)|\b(\d+)/\d+ \[")


class Line(NamedTuple):
    """A line of a log with the time at which it was read, s since the epoch."""

    t: float
    text: str


def events_of(
    lines: Iterable[Line], *, logging_steps: int = 1, devices: int | None = None, ended: str | None = None
) -> list[Event]:
    """The events that step lines tell; other lines are passed over.

    Args:
        logging_steps: steps between two lines of Hugging Face's Trainer that name none.
        ended: why the run ended, None while more is expected.
    """
    found = [report for line in lines if (report := _report(line)) is not None]
    events: list[Event] = []
    attempt, before, at = 0, -1, 0
    for t, number, seconds in found:
        step = before + logging_steps if number is None else number
        end = round(t * 1e6) * 1000
        if not attempt or step <= before:
            attempt += 1
            # Nothing is known of the time before the first line but its own step.
            at = end - round((seconds or 0.0) * NS)
            events.append(Event(at, "attempt_started", attempt, devices=devices))
            before = step - 1 if seconds is not None else step
            if seconds is None:
                continue
        count = step - before
        events.append(Event(at, "step_started", attempt, step=before + 1, every=count))
        events.append(Event(end, "step_ended", attempt, step=before + 1))
        before, at = step, end
    if ended is not None and events:
        events.append(Event(at, "job_ended", reason=ended))
    return events


def _report(line: Line) -> tuple[float, int | None, float | None] | None:
    """(time, step, seconds of the step) of a step line; None for any other."""
    if timed := NANOGPT.search(line.text):
        seconds = float(timed[2]) / (1000 if timed[3] == "ms" else 1)
        return line.t, int(timed[1]), seconds
    if TRAINER.search(line.text):
        numbered = STEP.search(line.text)
        return line.t, int(numbered[1] or numbered[2]) if numbered else None, None
    return None
