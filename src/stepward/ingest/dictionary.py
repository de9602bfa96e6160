"""What the series numbers of writers stand for, and what a frame did to each metric.

Kept in memory alone: after a restart, or when a dictionary was forgotten to bound memory, the writer is asked again
(``need_dictionary``), which it must answer anyway. A definition is a plain statement of fact, so that one that arrived
with a refused frame may stay.
"""

from collections import OrderedDict
from collections.abc import Sequence

import msgspec
import numpy as np

from stepward.errors import Conflict
from stepward.ingest.decode import BlockColumns
from stepward.ingest.protocols import (
    STEP_PREFIX,
    STEP_TIME,
    SYSTEM_PREFIX,
    Floats,
    Ints,
    MetricSummary,
    PointColumns,
    SeriesKey,
    StepColumns,
)
from stepward.model.frames import SeriesDef

MAX_DEFINITIONS = 2_000_000
"""Definitions of a project in memory, about 250 bytes each; beyond, the writer unheard for longest is forgotten."""


class Dictionary:
    """Series numbers of one writer.

    Attributes:
        keys: every series defined so far; grows at its end only, a number defined anew gets a new place.
    """

    def __init__(self) -> None:
        self.keys: list[SeriesKey] = []
        self._place_of_number: dict[int, int] = {}
        self._place_of_key: dict[SeriesKey, int] = {}
        self._metrics: dict[str, int] = {}
        self._metric_of: list[int] = []
        self._columns = np.empty((3, 0), np.int64)

    def define(self, defs: Sequence[SeriesDef], known: dict[SeriesKey, SeriesKey]) -> None:
        """Take definitions; ``known`` lets writers share equal keys."""
        for definition in defs:
            key = SeriesKey(definition.metric, definition.unit, definition.device, definition.rank)
            place = self._place_of_key.get(key)
            if place is None:
                key = known.setdefault(key, key)
                place = self._place_of_key[key] = len(self.keys)
                self.keys.append(key)
                self._metric_of.append(self._metrics.setdefault(key.metric, len(self._metrics)))
            self._place_of_number[definition.id] = place

    def places(self, numbers: Sequence[int]) -> Ints:
        """Indexes into ``keys`` of series numbers.

        Raises:
            Conflict: ``need_dictionary``.
        """
        try:
            return np.array([self._place_of_number[number] for number in numbers], np.int64)
        except KeyError as missing:
            raise Conflict(
                f"series number {missing.args[0]} is not defined",
                code="need_dictionary",
                hint="send the frame again with all definitions",
            ) from None

    def defines(self, metric: str) -> bool:
        """Whether the writer has a metric of that name."""
        return metric in self._metrics

    def metric_device_rank(self) -> Ints:
        """Three rows, a column a key: number of its metric, its device, its rank (-1 = none)."""
        if self._columns.shape[1] != len(self.keys):
            devices = [-1 if key.device is None else key.device for key in self.keys]
            ranks = [-1 if key.rank is None else key.rank for key in self.keys]
            self._columns = np.array([self._metric_of, devices, ranks], np.int64)
        return self._columns


class Dictionaries:
    """Dictionaries of the writers of one project, the oldest forgotten beyond ``limit`` definitions."""

    def __init__(self, limit: int = MAX_DEFINITIONS) -> None:
        self._limit = limit
        self._known: dict[SeriesKey, SeriesKey] = {}
        self._writers: OrderedDict[str, Dictionary] = OrderedDict()
        self._total = 0

    def of(self, writer: str, defs: Sequence[SeriesDef]) -> Dictionary:
        """The dictionary of a writer, with ``defs`` taken in."""
        dictionary = self._writers.setdefault(writer, Dictionary())
        self._writers.move_to_end(writer)
        before = len(dictionary.keys)
        dictionary.define(defs, self._known)
        self._total += len(dictionary.keys) - before
        while self._total > self._limit and len(self._writers) > 1:
            _, forgotten = self._writers.popitem(last=False)
            self._total -= len(forgotten.keys)
            self._known.clear()
        return dictionary


def point_columns(blocks: Sequence[BlockColumns], places: Sequence[Ints]) -> PointColumns | None:
    """The points of a frame; ``places`` of the series of each block."""
    if not blocks:
        return None
    series = [np.repeat(place, block.rows) for block, place in zip(blocks, places, strict=True)]
    if len(blocks) == 1:
        block = blocks[0]
        return PointColumns(series[0], block.step, block.time, block.value, block.rounded)
    return PointColumns(
        np.concatenate(series),
        np.concatenate([block.step for block in blocks]),
        np.concatenate([block.time for block in blocks]),
        np.concatenate([block.value for block in blocks]),
        np.concatenate([block.rounded for block in blocks]),
    )


def summarize(dictionary: Dictionary, blocks: Sequence[BlockColumns], places: Sequence[Ints]) -> list[MetricSummary]:
    """What a frame did to each of its metrics."""
    if not blocks:
        return []
    place = np.concatenate(places)
    widths = [len(block.series) for block in blocks]
    step = np.repeat([int(block.step[block.newest]) for block in blocks], widths)
    time = np.repeat([int(block.time[block.newest]) for block in blocks], widths)
    value = np.concatenate([block.value[block.newest :: block.rows] for block in blocks])
    rounded = np.concatenate([block.rounded[block.newest :: block.rows] for block in blocks])
    count = np.repeat([block.rows for block in blocks], widths)
    first = np.repeat([int(block.step[: block.rows].min()) for block in blocks], widths)
    metric, device, rank = dictionary.metric_device_rank()[:, place]
    # Stable, so that of equal points the one that came last is last; a lower device outranks a higher one.
    order = np.lexsort((-device, -rank, time, step, metric))
    starts = np.flatnonzero(np.diff(metric[order], prepend=-1))
    newest = order[np.append(starts[1:], len(order)) - 1]
    counts = np.add.reduceat(count[order], starts)
    firsts = np.minimum.reduceat(first[order], starts)
    return [
        MetricSummary(
            metric=dictionary.keys[at].metric,
            unit=dictionary.keys[at].unit,
            step=a_step,
            time=a_time,
            value=a_value,
            rounded=a_mark,
            count=a_count,
            first_step=a_first,
            system=dictionary.keys[at].metric.startswith(SYSTEM_PREFIX),
        )
        for at, a_step, a_time, a_value, a_mark, a_count, a_first in zip(
            place[newest].tolist(),
            step[newest].tolist(),
            time[newest].tolist(),
            value[newest].tolist(),
            rounded[newest].tolist(),
            counts.tolist(),
            firsts.tolist(),
            strict=True,
        )
    ]


def summarize_steps(dictionary: Dictionary, tables: Sequence[StepColumns]) -> list[MetricSummary]:
    """What a frame did to the metrics of the table of steps, but for names that its writer logs itself."""
    summaries: dict[str, MetricSummary] = {}
    for table in tables:
        columns = [(STEP_TIME, table.duration)]
        columns += [
            (STEP_PREFIX + phase.name, seconds)
            for phase, seconds in zip(table.phases, table.seconds.T, strict=True)
            if STEP_PREFIX + phase.name != STEP_TIME
        ]
        for metric, values in columns:
            there = slice(None) if metric == STEP_TIME else np.flatnonzero(~np.isnan(values))
            if values[there].size and not dictionary.defines(metric):
                new = _step_summary(metric, table.step[there], table.start[there], values[there])
                summaries[metric] = _joined(summaries[metric], new) if metric in summaries else new
    return list(summaries.values())


def _step_summary(metric: str, step: Ints, start: Ints, value: Floats) -> MetricSummary:
    newest = int(np.lexsort((start, step))[-1])
    return MetricSummary(
        metric=metric,
        unit="s",
        step=int(step[newest]),
        time=int(start[newest]),
        value=float(value[newest]),
        rounded=False,
        count=len(step),
        first_step=int(step.min()),
        system=False,
    )


def _joined(one: MetricSummary, other: MetricSummary) -> MetricSummary:
    newest = other if (other.step, other.time) >= (one.step, one.time) else one
    first = min(one.first_step, other.first_step)
    return msgspec.structs.replace(newest, count=one.count + other.count, first_step=first)
