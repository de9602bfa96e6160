"""The inputs of a diagnosis of a run that this server keeps: output, ends, events, scheduler, kernel, metrics.

Everything is bounded: of long output its head and tail are read, of metrics the means of a window around what happened.
"""

import signal
from math import isfinite, nan
from typing import Any, NamedTuple

from stepward.detect.series import median
from stepward.detect.signals import Certainty, Detected
from stepward.diagnose.detected import seen_from
from stepward.diagnose.document import ChartWindow
from stepward.diagnose.figures import Statement
from stepward.diagnose.lines import Line as TextLine
from stepward.diagnose.sources import Source
from stepward.diagnose.standing import said_by_scheduler, stands
from stepward.diagnose.verdicts import SchedulerVerdict
from stepward.model.launches import attempt_numbers
from stepward.model.points import Line
from stepward.model.resources import instant
from stepward.model.states import Exit, State, Witness
from stepward.model.words import NODES_PROJECT
from stepward.observe.streams import JobGroup, KernelSource, Place, StreamSource, stream_name
from stepward.store.catalog.detected import DetectedEvents
from stepward.store.catalog.diagnoses import KnownAttempt
from stepward.store.catalog.nodes import Nodes
from stepward.store.logs import LogStore
from stepward.store.points.protocol import ChartQuery, PointsStore

US = 1_000_000
BEFORE_US, AFTER_US = 600 * US, 60 * US
"""Metrics are read from ten minutes before what happened to a minute after; events within count as well."""
BUCKETS = 60
CHANGED = 0.08
"""A series is told where it is that much off its own past or off the others', as a share."""
MOST_NODES = 64
ROOMY = 0.8
"""A host that uses no larger share of its memory than this is far from killing for it."""
_MEANS = {
    "system/device/utilization": "duty",
    "system/device/memory_used": "device_memory",
    "system/device/temperature": "temperature",
    "system/device/clock_sm": "clock",
    "system/host/cpu": "cpu",
    "system/host/cpu_iowait": "iowait",
    "system/host/cpu_steal": "steal",
    "system/host/load": "load",
    "system/host/memory_used": "host_memory",
    "system/host/pressure_cpu": "cpu_pressure",
    "system/host/pressure_io": "io_pressure",
    "system/host/pressure_memory": "memory_pressure",
    "system/cgroup/memory_used": "host_memory",
    "system/cgroup/pressure_cpu": "cpu_pressure",
    "system/cgroup/pressure_io": "io_pressure",
    "system/cgroup/pressure_memory": "memory_pressure",
}
"""What a sampled series is to the diagnosis (``diagnose/catalogue/vocabulary.toml``). What detectors judge by themselves comes
as their event."""
_LIMITS = {
    "system/device/memory_used": "system/device/memory_total",
    "system/host/memory_used": "system/host/memory_total",
    "system/cgroup/memory_used": "system/cgroup/memory_limit",
}


class Window(NamedTuple):
    """What the diagnosis is about, µs on the server's clock: it began, and it was over or is now."""

    began: int
    until: int


class Inputs(NamedTuple):
    """Everything that the engine takes, and where its evidence is to be found."""

    sources: list[Source]
    exits: list[tuple[int, int]]
    events: list[Detected]
    statements: list[Statement]
    scheduler: SchedulerVerdict
    places: dict[str, Place]
    charts: dict[str, ChartWindow]
    seen: dict[str, str]
    """Source of evidence -> id of the event."""
    ranks: dict[int, str]
    """Rank -> node."""


class Gathering:
    """Gathers inputs from the stores."""

    def __init__(self, points: PointsStore, logs: LogStore, detected: DetectedEvents, nodes: Nodes) -> None:
        self._points, self._logs, self._detected, self._nodes = points, logs, detected, nodes

    def gather(self, attempt: KnownAttempt, window: Window, about: frozenset[str]) -> Inputs:
        """The inputs for one attempt; ``about`` are the events that must be among those it takes."""
        sources, names = self._sources(attempt, window)
        places = {source.name: source.place for source in sources}
        events = [_event(row, names) for row in attempt.events]
        statements, charts = self._statements(attempt, window)
        return Inputs(
            sources=[*sources],
            exits=_exits(attempt),
            events=[event for event in events if _matters(event, window, about)],
            statements=statements,
            scheduler=_scheduler(attempt),
            places=places,
            charts=charts,
            ranks=attempt.places,
            seen={seen_from(event.id): event.id for event in events},
        )

    def weight(self, attempt: KnownAttempt) -> tuple[int, int, int]:
        """Grows with the evidence."""
        lines = sum(self._logs.line_counts(attempt.project, attempt.run).values())
        return lines, len(attempt.events), len(attempt.exits)

    def _sources(self, attempt: KnownAttempt, window: Window) -> tuple[list[StreamSource], dict[str, str]]:
        numbers = attempt_numbers((key, number) for key, number in self._detected.attempts(attempt.run).items())
        streams = [
            stream
            for stream in self._logs.streams(attempt.project, attempt.run, attempts=numbers)
            if stream.attempt == attempt.number and stream.bytes
        ]
        found: list[StreamSource] = []
        names: dict[str, str] = {}
        taken: set[str] = set()
        for stream in streams:
            name = stream_name(stream)
            name = f"{name}#{stream.id}" if name in taken else name
            taken.add(name)
            names[f"log:{stream.id}"] = name
            place = Place(attempt.project, attempt.run, stream.id)
            found.append(StreamSource(self._logs, place, stream, name, len(streams)))
        return found + self._kernel(attempt, window), names

    def _kernel(self, attempt: KnownAttempt, window: Window) -> list[StreamSource]:
        """Kernel logs of the attempt's nodes, as their agents sent them, in the interval."""
        found: list[StreamSource] = []
        for node in attempt.nodes[:MOST_NODES]:
            head = self._nodes.head(None, node)
            if head is None:
                continue
            for stream in self._logs.streams(NODES_PROJECT, head.run, attempts={}):
                if stream.stream == "kernel" and stream.bytes:
                    place = Place(NODES_PROJECT, head.run, stream.id)
                    named = f"{node}/node.kernel#{stream.id}"
                    since = max(attempt.started_at, window.began - BEFORE_US) - head.offset_us
                    group = None if attempt.job is None else JobGroup(attempt.job[0], node, attempt.job[1])
                    found.append(KernelSource(self._logs, place, stream, named, since=since, group=group))
        return found

    def _statements(self, attempt: KnownAttempt, window: Window) -> tuple[list[Statement], dict[str, ChartWindow]]:
        begin, end = max(attempt.started_at, window.began - BEFORE_US), window.until + AFTER_US
        # What led to an end stands before it; there is nothing behind it to compare with.
        sudden = attempt.ended_at is not None and window.until - window.began < AFTER_US
        began = begin if sudden else window.began
        known = [one for one in self._points.series(attempt.project, attempt.run) if one.metric in _MEANS]
        statements: list[Statement] = []
        charts: dict[str, ChartWindow] = {}
        for series in known:
            lines = self._lines(attempt, series.metric, begin, end)
            for line in lines:
                line.rank = _rank_of(attempt, line)
            limits = self._lines(attempt, _LIMITS[series.metric], begin, end) if series.metric in _LIMITS else []
            told = _told(series.metric, series.unit, lines, limits, began / US)
            if told:
                statements += told
                charts[f"metric {series.metric}"] = ChartWindow(series.metric, instant(begin), instant(end))
        spared = self._spared(attempt, begin, end)
        return ([*statements, spared] if spared else statements), charts

    def _spared(self, attempt: KnownAttempt, begin: int, end: int) -> Statement | None:
        """That no kill for memory was counted, where counters were read and would have shown one.

        The last reading may be older than the end. It counts where a later one stands still too, or memory was far from full.
        Nothing does against who saw the kill (the state ``oom``).
        """
        if attempt.state == State.OOM:
            return None
        metric = "system/host/oom_kills"
        lines = [line for line in self._lines(attempt, metric, begin, end) if line.x]
        counted = [value for line in lines for value in (*line.min, *line.max) if value is not None]
        if not counted or min(counted) < max(counted) or attempt.ended_at is None:
            return None
        shares = []
        for used, most in _LIMITS.items():
            if "/device/" not in used:
                limits = _highest(self._lines(attempt, most, begin, end))
                highs = _highest(self._lines(attempt, used, begin, end))
                shares += [high / limits[node] for node, high in highs.items() if limits.get(node)]
        later = min(line.x_last[-1] for line in lines) >= attempt.ended_at / US
        if not later and not (shares and max(shares) <= ROOMY):
            return None
        full = f"; at most {max(shares):.0%} of the memory was used" if shares else ""
        text = f"no kill for memory was counted{full}"
        return Statement("memory_kills", [0.0], "", text, TextLine(f"metric {metric}", 1, metric, metric))

    def _lines(self, attempt: KnownAttempt, metric: str, begin: int, end: int) -> list[Line]:
        query = ChartQuery(
            run=attempt.run,
            metric=metric,
            x="time",
            start=begin / US,
            end=end / US,
            buckets=BUCKETS,
            by="device" if metric.startswith("system/device/") else "rank",
        )
        return [line for line in self._points.chart(attempt.project, query).lines if not line.abandoned]


def _exits(attempt: KnownAttempt) -> list[tuple[int, int]]:
    """Exit codes of ranks by the most trusted witness, the first to end first; negative numbers are signals."""
    trusted: dict[int, Exit] = {}
    order = list(Witness)
    for rank, exit in attempt.exits:
        known = trusted.get(rank) if rank is not None else None
        if rank is not None and (known is None or order.index(exit.by) < order.index(known.by)):
            trusted[rank] = exit
    found = []
    for rank, exit in sorted(trusted.items(), key=lambda one: one[1].at):
        code = -_number(exit.signal) if exit.signal else exit.exit_code
        if code is not None:
            found.append((rank, code))
    return found


def _number(name: str) -> int:
    """Number of a signal; of one that this host has no name for, as ``states.signal_name`` calls it."""
    known = signal.Signals.__members__.get(name)
    return int(known) if known is not None else int(name[3:]) if name[3:].isdigit() else 0


def _scheduler(attempt: KnownAttempt) -> SchedulerVerdict:
    told = [exit for _, exit in attempt.exits if exit.by is Witness.SCHEDULER and exit.state is not None]
    if attempt.said is not None and (attempt.said.terminal or not told):
        return said_by_scheduler(attempt.said, attempt.said_why, attempt.ended_at, attempt.failed_nodes)
    if told and told[-1].state is not None:
        return said_by_scheduler(told[-1].state, told[-1].reason or "", told[-1].at, attempt.failed_nodes)
    return stands(attempt.state)


def _event(row: dict[str, Any], names: dict[str, str]) -> Detected:
    """A stored event as its detector said it; the line that made it is named as the stream's source is."""
    data = row["data"]
    figures = dict(data.get("figures") or {})
    if isinstance(source := figures.get("source"), str):
        figures["source"] = names.get(source, source)
    return Detected(
        id=row["id"],
        type=row["type"],
        certainty=Certainty(row["certainty"]),
        detector=row["detector"],
        started_at=row["started_at"],
        detected_at=data.get("detected_at") or 0,
        attempt=row["attempt"],
        ended_at=row["ended_at"],
        ranks=tuple(data.get("ranks") or ()),
        nodes=tuple(data.get("nodes") or ()),
        devices=tuple(data.get("devices") or ()),
        severity=row["severity"],
        title=row["title"],
        data=figures,
    )


def _matters(event: Detected, window: Window, about: frozenset[str]) -> bool:
    """Whether an event belongs to what the diagnosis is about: it is that, or lasted then, or not long before."""
    over = event.ended_at if event.ended_at is not None else window.until
    return event.id in about or (over >= window.began - BEFORE_US and event.started_at <= window.until)


def _rank_of(attempt: KnownAttempt, line: Line) -> int | None:
    """The rank that a line is about; device i of a node is that of the i-th of its ranks."""
    if line.rank is not None or line.device is None:
        return line.rank
    ranks = sorted(rank for rank, node in attempt.places.items() if node == line.node)
    return ranks[line.device] if line.device < len(ranks) else None


def _told(metric: str, unit: str, lines: list[Line], limits: list[Line], began: float) -> list[Statement]:
    """Statements of the lines of one metric that are news: off their own past, off the others, or with a limit."""
    now = [[_value(line, at) for at, x in enumerate(line.x) if x >= began] for line in lines]
    past = [[_value(line, at) for at, x in enumerate(line.x) if x < began] for line in lines]
    found: list[Statement] = []
    for number, line in enumerate(lines):
        values, before = now[number] or past[number], past[number] if now[number] else []
        others = [median(_finite(other)) for at, other in enumerate(now) if at != number and _finite(other)]
        limit = next((one for one in limits if (one.node, one.device) == (line.node, line.device)), None)
        middle = median(_finite(values)) if _finite(values) else nan
        against = median(_finite(before)) if _finite(before) else None
        off = [ref for ref in (against, median(others) if others else None) if ref is not None and ref > 0]
        if limit is None and not any(abs(middle / ref - 1) >= CHANGED for ref in off):
            continue
        one = Statement(_MEANS[metric], values, unit.lower(), "", TextLine(f"metric {metric}", 1, metric, metric))
        one.rank, one.node, one.against = line.rank, line.node or None, against
        one.limit = None if limit is None else next((v for v in reversed(limit.last) if v is not None), None)
        one.text = _words(metric, one, line)
        found.append(one)
    return found


def _words(metric: str, one: Statement, line: Line) -> str:
    """A statement for people: ``system/device/clock_sm of device 3: 1230, 1190 MHz; before: 1980``."""
    device = f" of device {line.device}" if line.device is not None else ""
    values = ", ".join(f"{value:g}" for value in one.values[-6:])
    before = f"; before: {one.against:g}" if one.against is not None else ""
    limit = f"; limit: {one.limit:g}" if one.limit is not None else ""
    return f"{metric}{device}: {values} {one.unit}{before}{limit}"


def _value(line: Line, at: int) -> float:
    mean = line.mean[at]
    return nan if mean is None or line.n_nan[at] else mean


def _highest(lines: list[Line]) -> dict[str | None, float]:
    """The largest value of each node."""
    found: dict[str | None, float] = {}
    for line in lines:
        high = max(_finite([value for value in line.max if value is not None]), default=0.0)
        found[line.node] = max(high, found.get(line.node, 0.0))
    return found


def _finite(values: list[float]) -> list[float]:
    return [value for value in values if isfinite(value)]
