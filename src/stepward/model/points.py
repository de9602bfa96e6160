"""The JSON of what is drawn of a run: its series, lines of buckets, profiles of ranks, steps. Numbers as in ``resources``."""

from typing import Literal

import msgspec

from stepward.model.resources import Number
from stepward.model.words import Clock


class Series(msgspec.Struct, kw_only=True):
    """A metric of a run over all attempts, ranks and devices; ``system`` metrics are sampled, not logged by the user."""

    metric: str
    unit: str = ""
    system: bool = False
    ranks: list[int] = []
    devices: list[int] = []
    nodes: list[str] = []
    count: int = 0
    first_step: int | None = None
    last_step: int | None = None


class Line(msgspec.Struct, kw_only=True):
    """One drawn line: parallel columns, one entry a bucket that holds points.

    ``x`` is the x of the bucket's first point and ``x_last`` of its last. min, max, mean, first and last are over finite
    values, None where the bucket has none; ``count`` counts all points, the ``n_`` columns those that are not finite.
    """

    rank: int | None = None
    device: int | None = None
    node: str | None = None
    attempt: int | None = None
    abandoned: bool = False
    x: list[float] = []
    x_last: list[float] = []
    min: list[float | None] = []
    max: list[float | None] = []
    mean: list[float | None] = []
    first: list[float | None] = []
    last: list[float | None] = []
    count: list[int] = []
    n_nan: list[int] = []
    n_posinf: list[int] = []
    n_neginf: list[int] = []


class Restart(msgspec.Struct):
    """Where an attempt begins on the x axis asked for."""

    attempt: int
    x: float


class Chart(msgspec.Struct, kw_only=True):
    """Answer to a points query. ``empty_reason`` says why there is nothing to draw.

    ``lines_total`` counts the lines that are not abandoned, of which the first 64 are in ``lines``; abandoned ones follow them.
    """

    metric: str
    unit: str = ""
    x: Literal["step", "time", "relative"]
    lines: list[Line] = []
    restarts: list[Restart] = []
    lines_total: int = 0
    rounded: bool = False
    empty_reason: str | None = None


class RunLine(Line, kw_only=True):
    """The line of one of the runs that are compared."""

    run: str


class Comparison(msgspec.Struct, kw_only=True):
    """One metric of several runs on one axis: the surviving line of each that has points in the range, in the order asked."""

    metric: str
    unit: str = ""
    x: Literal["step", "time", "relative"]
    lines: list[RunLine] = []


class RankProfile(msgspec.Struct, kw_only=True):
    """How a metric is spread over the ranks, by step: parallel columns, one entry a step, or a bucket of steps.

    ``step`` is the first and ``step_last`` the last step of an entry. Of each rank and step, the newest finite point counts;
    p50 and p99 are nearest-rank quantiles of those; ``argmin`` and ``argmax`` the lowest rank that has the extreme.
    ``ranks`` counts the ranks that count, ``n_bad`` the points that are not finite.
    """

    metric: str
    unit: str = ""
    step: list[int] = []
    step_last: list[int] = []
    ranks: list[int] = []
    n_bad: list[int] = []
    min: list[float | None] = []
    p50: list[float | None] = []
    p99: list[float | None] = []
    max: list[float | None] = []
    argmin: list[int | None] = []
    argmax: list[int | None] = []
    empty_reason: str | None = None


class Point(msgspec.Struct, kw_only=True):
    """One point; ``time`` is an instant."""

    attempt: int
    rank: int | None = None
    device: int | None = None
    step: int
    time: str
    value: Number


class Stats(msgspec.Struct, kw_only=True):
    """A metric in numbers. Aggregates and nearest-rank quantiles are over finite values; None where there are none."""

    metric: str
    unit: str = ""
    count: int = 0
    n_nan: int = 0
    n_posinf: int = 0
    n_neginf: int = 0
    min: float | None = None
    p50: float | None = None
    p99: float | None = None
    max: float | None = None
    mean: float | None = None
    first_step: int | None = None
    last_step: int | None = None


class StepRow(msgspec.Struct):
    """One step of one rank: start (instant), duration and seconds per phase."""

    attempt: int
    rank: int
    step: int
    started_at: str
    duration_s: float
    phases: dict[str, float]


class StepTable(msgspec.Struct):
    """Newest steps, and the clock of each phase."""

    clocks: dict[str, Clock]
    rows: list[StepRow]
