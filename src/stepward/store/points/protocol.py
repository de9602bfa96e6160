"""The points store as the rest of the server sees it. Meanings are fixed here, never by an engine.

Order of points: by x, then by the other of step and time, then by value (finite ones only). *First* and *last* are the
ends of that order; so ties have one answer in every engine. A time is what the sender's clock said.
Aggregates are over finite values; NaN, +Inf and -Inf are stored, counted apart and never dropped. A step occurs any number
of times and in any order. All methods block and are safe to call from any thread; a reader sees whole commits only.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple, Protocol

import msgspec

from stepward.ingest.protocols import PointsSink
from stepward.model.frames import Source
from stepward.model.points import Chart, Comparison, Point, RankProfile, Series, Stats, StepTable
from stepward.model.words import SourceKind

Axis = Literal["step", "time", "relative"]
By = Literal["none", "rank", "device"]

NEVER_US = -(1 << 62)
"""Before every instant."""
MAX_LINES = 64
"""Lines of a chart that are not abandoned, and as many that are: more can't be told apart."""
MAX_BUCKETS = 2000
MAX_COMPARED = 100
"""Runs of one comparison."""


class AttemptSpan(msgspec.Struct, frozen=True):
    """One attempt of a run's history, in start order.

    Attributes:
        first_step: the lowest step that it logged; None as long as it has logged none.
        started_at_us: µs since the epoch.
    """

    key: str
    number: int
    first_step: int | None
    started_at_us: int


class ChartQuery(msgspec.Struct, frozen=True, kw_only=True):
    """What to draw.

    Attributes:
        x: ``step``; ``time`` in seconds since the epoch; ``relative`` in seconds since ``run_started_us``.
        start, end: range of x, both ends included; None = from the first, to the last point.
        buckets: the range is cut into at most that many buckets of equal width.
        by: ``none``: one line over everything; ``rank``: one a rank, and one a node for sources that are no rank;
            ``device``: one for each device of each rank or node.
        rank, device: narrow to one.
        attempt: narrow to the attempt of that number; it is then drawn whole, as one line a group.
        history: attempts in start order. Attempt i survives for steps below the first step of every later attempt; the
            rest of it becomes an abandoned line. ``system/`` metrics are not stitched.
        run_started_us: origin of ``relative``.
    """

    run: str
    metric: str
    x: Axis = "step"
    start: float | None = None
    end: float | None = None
    buckets: int = 1000
    by: By = "none"
    rank: int | None = None
    device: int | None = None
    attempt: int | None = None
    history: list[AttemptSpan] = []
    run_started_us: int = 0


class ComparedRun(msgspec.Struct, frozen=True):
    """A run of a comparison, with its history and the origin of its ``relative`` axis."""

    run: str
    history: list[AttemptSpan]
    started_us: int = 0


class CompareQuery(msgspec.Struct, frozen=True, kw_only=True):
    """One metric of many runs, each as one line over everything that survives; the axis as in ``ChartQuery``.

    The buckets are the same for all: their range is that of all runs where none is asked for.
    """

    metric: str
    runs: list[ComparedRun]
    x: Axis = "step"
    start: float | None = None
    end: float | None = None
    buckets: int = 1000


class TimedStep(NamedTuple):
    """A step of a rank for who computes with it: attempt by its key, start in µs as sent, seconds by the host's clock."""

    attempt: str
    rank: int
    step: int
    start_us: int
    duration_s: float
    phases: Mapping[str, float]


class StepSpan(NamedTuple):
    """The steps of a rank in an attempt (by its key): how many, first start and last end in µs as sent, highest number."""

    attempt: str
    rank: int
    steps: int
    start_us: int
    end_us: int
    last: int


class Speaker(NamedTuple):
    """Who wrote: ``rank`` is None for what is no rank."""

    kind: SourceKind
    attempt: str
    rank: int | None
    node: str


Shift = Callable[[Speaker], int]
"""What to add to the times of a source, µs."""


class RecordedPoint(NamedTuple):
    """A point for who replays a run; ``time_us`` is shifted, ``rank`` is the rank that it is about."""

    speaker: Speaker
    metric: str
    rank: int | None
    device: int | None
    step: int
    time_us: int
    value: float


class RecordedStep(NamedTuple):
    """A step for who replays a run; ``end_us`` is shifted. Phases in ``device_phases`` were measured by a device's clock."""

    speaker: Speaker
    step: int
    end_us: int
    duration_s: float
    phases: Mapping[str, float]
    device_phases: frozenset[str]


class RawPart(msgspec.Struct, frozen=True, kw_only=True):
    """One part of a committed frame as it came; ``cursor`` grows in commit order."""

    cursor: int
    run: str
    writer: str
    seq: int
    received_at: int
    source: Source
    kind: str
    payload: bytes


class PointsStore(PointsSink, Protocol):
    """Where points rest.

    Every method may raise ``Unavailable`` (``store_corrupt``: the file is damaged and was left as it is,
    ``store_closed``, ``store_failed``), ``IncompatibleVersion`` (``newer_format``: left untouched) and ``UsageError``
    (``bad_project_name``). A project without a store reads as empty.
    """

    def payloads(
        self, project: str, *, after: int = 0, run: str | None = None, kinds: Sequence[str] = (), limit: int = 1000
    ) -> list[RawPart]:
        """Raw parts behind the cursor ``after``, in commit order; of some kinds, or all. ``logs`` rest in the log store."""

    def series(self, project: str, run: str) -> list[Series]:
        """The metrics of a run, by name; a metric logged in two units is two."""

    def chart(self, project: str, query: ChartQuery) -> Chart:
        """The lines of one metric; ``lines_total`` counts those that are not abandoned, drawn or not.

        A bucket holds every point whose x is in it: a spike is never lost. A line's first and last point in the range are
        the ``x``/``first`` of its first and the ``x_last``/``last`` of its last bucket. Lines: lowest rank first, at most
        ``MAX_LINES``; abandoned ones behind them, newest attempt first.
        """

    def compare(self, project: str, query: CompareQuery) -> Comparison:
        """One line a run, at most ``MAX_COMPARED`` of them; runs without points in the range have none."""

    def profile(self, project: str, query: ChartQuery) -> RankProfile:
        """How the ranks differ, over what survives; ``start``, ``end`` and ``buckets`` are of steps, ``by`` means nothing.

        Of the points of one rank and step, over all devices, the newest finite one counts: latest time, then highest value.
        Where the range has more steps than buckets, an entry is over the values of all its steps.
        The quantile q of n values is the one at place ceil(q * n) in their order.
        """

    def tail(self, project: str, query: ChartQuery, *, attempts: Mapping[str, int], last: int = 100) -> list[Point]:
        """The ``last`` newest surviving points by step, then time, then value, oldest first; NaN is above all numbers."""

    def stats(self, project: str, query: ChartQuery) -> Stats:
        """All surviving points of a range in numbers; ``buckets`` and ``by`` mean nothing."""

    def steps(
        self, project: str, run: str, *, attempts: Mapping[str, int], rank: int | None = None, last: int = 500
    ) -> StepTable:
        """The ``last`` newest steps (by start), oldest first. ``attempts``: key -> number, 0 where it is not in there."""

    def timed_steps(
        self, project: str, run: str, *, phases: Collection[str], since_us: int, limit: int
    ) -> list[TimedStep]:
        """The first ``limit`` steps that began at ``since_us`` or later, by start, with those ``phases`` that the host timed."""

    def step_spans(self, project: str, run: str) -> list[StepSpan]:
        """Where the steps of each rank of each attempt lie."""

    def recorded_points(
        self, project: str, run: str, *, shift: Shift, since_us: int = NEVER_US
    ) -> Iterator[RecordedPoint]:
        """All points, abandoned ones too, by shifted time from an instant on; of one moment. Times of no clock are left out."""

    def recorded_steps(
        self, project: str, run: str, *, shift: Shift, since_us: int = NEVER_US
    ) -> Iterator[RecordedStep]:
        """All steps of ranks, by their shifted end; ``since_us`` is of their start."""

    def export(self, project: str, run: str, *, attempts: Mapping[str, int]) -> Iterator[bytes]:
        """All points as NDJSON in pieces of whole lines, of one moment: what was put in order first, then as it arrived.

        A line: metric, unit, attempt (number), rank, device, step, time (instant), value; ``rounded`` where an
        integer did not fit into it.
        """

    def delete_run(self, project: str, run: str) -> None:
        """Forget a run: points, steps, raw parts, series and its writers' positions. Nothing happens where there is none."""

    def tidy(self, project: str) -> bool:
        """Put a project's points in order and give back the space of what was deleted; the store does so by itself, in time.

        Serving goes on meanwhile. False when it could not be done now, for want of space say.
        """

    def backup(self, folder: str) -> None:
        """Write a consistent copy of each project's store to ``<folder>/projects/<project>/`` while serving goes on."""

    def close(self) -> None:
        """Write everything down and let go of the files."""
