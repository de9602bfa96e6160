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
from stepward.goodput.sources import records
from stepward.goodput.sources.records import AttemptRecord, StepRecord

QUERY = r"/\biter(ation)?[ =:]+\d+.*loss|'(train_)?loss': .*'epoch': /"
"""Finds step lines in a log store; ``_report`` has the last word."""
ASSUMPTIONS = ("step times are those at which step lines were printed; checkpoints are not known",)
NANOGPT = re.compile(r"\biter(?:ation)?[ =:]+(\d+)\b.*?\bloss\b.*?\btime[ =:]+([0-9.]+) ?(ms|s)\b")
TRAINER = re.compile(r"\{'(?:loss|train_loss)': .*'epoch': ")
STEP = re.compile(r"(?:'step'|\"step\"|\bstep)[ =:]+'?(\d+)|\b(\d+)/\d+ \[")


class Line(NamedTuple):
    """A line of a log with the time at which it was read, s since the epoch."""

    t: float
    text: str


def steps_of(lines: Iterable[Line], attempt: int = 1, *, logging_steps: int = 1) -> list[StepRecord]:
    """The steps that lines of an attempt report, one after the other; a number that falls goes on as a rewind.

    Args:
        logging_steps: steps between two lines of Hugging Face's Trainer that name none.
    """
    told: list[StepRecord] = []
    before, at = -1, None
    for line in lines:
        report = _report(line)
        if report is None:
            continue
        number, seconds = report
        step, end = before + logging_steps if number is None else number, round(line.t * 1e6)
        count = step - before
        if at is None or count < 1:
            # Where counting begins nothing is known but what a line says of its own step.
            at, count = end - round((seconds or 0.0) * 1e6), 1
        if end > at:
            every = count if count > 1 else None
            told.append(StepRecord(attempt, None, step - count + 1, at, (end - at) / 1e6, {}, every))
        before, at = step, end
    return told


def events_of(
    lines: Iterable[Line], *, logging_steps: int = 1, devices: int | None = None, ended: str | None = None
) -> list[Event]:
    """The events of a log that stands alone: a step number that falls begins the next attempt.

    Args:
        ended: why the run ended, None while more is expected.
    """
    steps: list[StepRecord] = []
    number = 0
    for record in steps_of(lines, logging_steps=logging_steps):
        if not steps or record.step <= steps[-1].step:
            number += 1
        steps.append(record._replace(attempt=number))
    begins: dict[int, int] = {}
    for record in steps:
        begins.setdefault(record.attempt, record.start_us)
    attempts = [AttemptRecord(attempt, start, None, None, devices) for attempt, start in begins.items()]
    return records.events_of(attempts, steps, ended=ended)


def _report(line: Line) -> tuple[int | None, float | None] | None:
    """(step, seconds of the step) of a step line; None for any other."""
    if timed := NANOGPT.search(line.text):
        seconds = float(timed[2]) / (1000 if timed[3] == "ms" else 1)
        return int(timed[1]), seconds
    if TRAINER.search(line.text):
        numbered = STEP.search(line.text)
        return int(numbered[1] or numbered[2]) if numbered else None, None
    return None
