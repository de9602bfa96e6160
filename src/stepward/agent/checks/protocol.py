"""What a health check is: a name, how bad its failure is, how long it may take, and what it found.

``unknown`` is an answer of its own and never counts as ``bad``: checks that time out must not drain nodes
(mej/nhc#161, #95).
"""

from collections.abc import Callable
from enum import StrEnum

import msgspec


class Result(StrEnum):
    """What a check found."""

    OK = "ok"
    BAD = "bad"
    UNKNOWN = "unknown"


class Severity(StrEnum):
    """What a bad result means for the node: no further work, none after the present one, or a note."""

    FATAL = "fatal"
    HIGH = "high"
    WARN = "warn"


class Answer(msgspec.Struct, frozen=True):
    """One look of a check.

    Attributes:
        reason: words; empty for a plain ok.
        value: the number that was judged, where there is one.
    """

    result: Result
    reason: str = ""
    value: float | None = None


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """A health check.

    Attributes:
        name: snake_case, as in docs/agent.md.
        layer: ``infrastructure`` or ``orchestrator``, as in the taxonomy.
        look: one look; what it raises counts as ``unknown``. It gets monotonic seconds.
        period_s: pause between two looks.
        deadline_s: a look that takes longer is ``unknown`` until it returns.
        confirm: bad looks in a row before the check is bad.
    """

    name: str
    severity: Severity
    look: Callable[[float], Answer]
    layer: str = "infrastructure"
    period_s: float = 30.0
    deadline_s: float = 10.0
    confirm: int = 1


def ok(reason: str = "", value: float | None = None) -> Answer:
    """Nothing wrong."""
    return Answer(Result.OK, reason, value)


def bad(reason: str, value: float | None = None) -> Answer:
    """Something is wrong, and what."""
    return Answer(Result.BAD, reason, value)


def unknown(reason: str, value: float | None = None) -> Answer:
    """Could not be found out, and why."""
    return Answer(Result.UNKNOWN, reason, value)
