"""The one way in: inputs to a document.

``diagnose`` raises for nothing that an input holds; a fault of a rule of ours is said in ``unknown``, never as a traceback.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, tzinfo

from stepward.detect.signals import Detected
from stepward.diagnose.cascade import settle
from stepward.diagnose.clues import Clue, Kind, Role, clue
from stepward.diagnose.detected import event_clues, hurts
from stepward.diagnose.document import Document
from stepward.diagnose.figures import Statement
from stepward.diagnose.lines import Line
from stepward.diagnose.ranking import rank
from stepward.diagnose.reading import Reading
from stepward.diagnose.report import document, nothing
from stepward.diagnose.sources import Source
from stepward.diagnose.stacks import stack_clues
from stepward.diagnose.verdicts import SchedulerVerdict

_FATAL = {9: ("host_oom", 0.1), 11: ("framework_bug", 0.5), 7: ("os_limits", 0.3), 4: ("framework_bug", 0.5)}
"""Signals that say something by themselves: label and added strength."""
VERSION = 2
"""Raised with every change after which the same inputs may give another document."""


def diagnose(
    sources: Sequence[Source],
    *,
    zone: tzinfo = UTC,
    rank_pattern: re.Pattern[str] | None = None,
    exits: Sequence[tuple[int, int]] = (),
    statements: Sequence[Statement] = (),
    events: Sequence[Detected] = (),
    scheduler: SchedulerVerdict | None = None,
    places: Mapping[int, str] | None = None,
) -> Document:
    """What ended or hurts the run that the sources speak of.

    Args:
        sources: inputs; one with a ``kind`` is not sniffed.
        zone: zone of clocks that name none.
        rank_pattern: how this user's lines name their rank (group ``rank``, or the first).
        exits: (rank, exit code) that the caller knows, the first to end first.
        statements: what the caller knows of metrics beside the inputs.
        events: what detectors said of the run.
        scheduler: how the run stands, as a caller knows that need not read it.
        places: rank -> node, as far as the caller knows.
    """
    reading = Reading(zone, rank_pattern)
    try:
        for source in sources:
            reading.take(source, len(sources))
        reading.told(statements, scheduler, places or {})
        reading.hurt = hurts(events) or reading.metrics.slower
        reading.clues += [*_exit_clues(exits), *_news(events, reading), *_reader_clues(reading)]
        settle(reading)
        return document(reading, rank(reading))
    except Exception as fault:
        return nothing(f"a rule failed on these inputs: {type(fault).__name__}", reading.notes)


def _news(events: Sequence[Detected], reading: Reading) -> list[Clue]:
    """What events say beyond the lines that are read already."""
    read = {(one.source, one.line, one.label) for one in reading.clues}
    return [one for one in event_clues(events) if (one.source, one.line, one.label) not in read]


def _reader_clues(reading: Reading) -> list[Clue]:
    return [
        *reading.progress.clues(),
        *reading.launcher.clues(),
        *reading.timers.clues(),
        *stack_clues(reading.stacks),
        *reading.metrics.clues(),
    ]


def _exit_clues(exits: Sequence[tuple[int, int]]) -> list[Clue]:
    """What exit codes say: 128 + n is signal n; any other one only that the process failed."""
    found = []
    for rank_, code in exits:
        number = -code if code < 0 else code - 128 if 128 < code < 160 else 0
        label, more = _FATAL.get(number, (None, 0.0))
        says = f"rank {rank_} ended with " + (f"signal {number}" if number else f"exit code {code}")
        if code:
            told = f"{rank_}={code}"
            role = Role.EITHER if label else Role.CASCADE
            rule = "sigkill" if number == 9 else "exit_code"
            found.append(clue(rule, label, Kind.EXIT, Line("--exit", 1, told, told, rank_), says, role=role, more=more))
    return found
