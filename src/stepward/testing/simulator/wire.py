"""Items of a simulated run as the frames that its ranks, wrappers and scheduler would have sent."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from stepward.detect.signals import (
    AttemptEnded,
    AttemptStarted,
    Checkpoint,
    Heartbeat,
    PhaseBegan,
    PhaseEnded,
    RankEnded,
    Sample,
    Step,
)
from stepward.model import frames
from stepward.model.frames import (
    Block,
    Config,
    Event,
    Events,
    Frame,
    LogChunk,
    Logs,
    Part,
    PhaseColumn,
    Points,
    SeriesDef,
    Status,
)
from stepward.model.frames import Source as FrameSource
from stepward.model.states import Exit, State, Witness
from stepward.model.words import Clock, SourceKind
from stepward.testing.frames import FrameWriter, steps_part
from stepward.testing.simulator.plan import Plan
from stepward.testing.simulator.simulation import Item
from stepward.testing.simulator.voice import Text

ATTEMPT = "simulated."
"""Head of the attempt keys; the number follows."""
UNITS = {
    "utilization": "%",
    "memory_used": "B",
    "memory_total": "B",
    "power": "W",
    "temperature": "°C",
    "clock_sm": "MHz",
}


class Source:
    """One writer: a rank, a node's wrapper, or the watcher of the scheduler.

    Args:
        key: attempt, and rank or node; the watcher has neither.
    """

    def __init__(self, run: str, project: str, plan: Plan, key: tuple[str, int | None, str]) -> None:
        attempt, rank, node = key
        self.plan = plan
        kind = SourceKind.RANK if rank is not None else SourceKind.WRAPPER if node else SourceKind.WATCHER
        place = plan.layout.node_of(rank) if rank is not None else node
        source = FrameSource(kind=kind, attempt=ATTEMPT + attempt, rank=rank, node=place)
        name = f"{run[-12:]}-{attempt}-{'watcher' if rank is None and not node else node or rank}"
        self.writer = FrameWriter(run, name, project=project, source=source, bytes_a_frame=1000)
        self._series: dict[tuple[str, int | None, int | None], int] = {}
        self._offsets: dict[tuple[str, int | None], int] = defaultdict(int)
        self._opened: dict[str, int] = {}

    def frame(self, items: Sequence[Item], *, now: int) -> Frame:
        """The next frame, with everything that this source says in a stretch of time; ``now`` is when it is sent, µs."""
        return self.writer.frame(*self._parts(items), sent_at=now)

    def _parts(self, items: Sequence[Item]) -> Iterator[Part]:
        by: dict[type, list[Any]] = defaultdict(list)
        for item in items:
            by[type(item)].append(item)
        for started in by[AttemptStarted]:
            yield self._config(started)
        if by[Sample]:
            yield self._points(by[Sample])
        if by[Step]:
            yield self._steps(by[Step])
        if by[Text]:
            yield self._logs(by[Text])
        events = [*self._phases(by[PhaseBegan], by[PhaseEnded]), *map(self._saved, by[Checkpoint])]
        if events:
            yield frames.part("events", Events(events))
        for beat in by[Heartbeat]:
            yield frames.part("status", self._status(beat))
        for ended in by[RankEnded]:
            yield frames.part("exit", self._rank_exit(ended))
        for over in by[AttemptEnded]:
            yield frames.part("exit", self._attempt_exit(over))

    def _config(self, started: AttemptStarted) -> Part:
        plan = self.plan
        user = {"seed": plan.seed, "dp": plan.layout.dp, "pp": plan.layout.pp, "tp": plan.layout.tp}
        config = Config(
            name=f"simulated-{plan.seed}", tags=["simulated"], user=user, ranks=started.ranks,
            started_at=started.time,
        )  # fmt: skip
        return frames.part("config", config)

    def _points(self, samples: Sequence[Sample]) -> Part:
        columns: dict[int, list[Sample]] = defaultdict(list)
        defs: dict[int, SeriesDef] = {}
        for sample in samples:
            about = None if self.writer.source.kind is SourceKind.RANK else sample.rank
            number = self._series.setdefault((sample.metric, sample.device, about), len(self._series))
            unit = UNITS.get(sample.metric.rsplit("/", 1)[-1], "") if sample.metric.startswith("system/") else ""
            defs[number] = SeriesDef(number, sample.metric, unit, sample.device, about)
            columns[number].append(sample)
        blocks = []
        for number, rows in columns.items():
            times = np.array([sample.time for sample in rows], np.int64)
            periods = times // round(self.plan.telemetry.sample_s * 1e6)
            steps = np.array([p if s.step is None else s.step for p, s in zip(periods, rows, strict=True)], np.int64)
            values = np.array([sample.value for sample in rows], np.float64)
            blocks.append(Block([number], steps.tobytes(), times.tobytes(), values.tobytes()))
        return frames.part("points", Points(list(defs.values()), blocks))

    def _steps(self, steps: Sequence[Step]) -> Part:
        names = sorted({name for step in steps for name in step.phases})
        device = steps[0].device_phases
        columns = [PhaseColumn(name, Clock.DEVICE if name in device else Clock.HOST) for name in names]
        starts = [step.time - round(step.duration_s * 1e6) for step in steps]
        seconds = [[step.phases.get(name, np.nan) for name in names] for step in steps]
        return steps_part(
            columns, [step.step for step in steps], starts, [step.duration_s for step in steps],
            np.array(seconds, np.float64).reshape(len(steps), len(names)),
        )  # fmt: skip

    def _logs(self, texts: Sequence[Text]) -> Part:
        streams: dict[tuple[str, int | None], list[Text]] = defaultdict(list)
        for text in texts:
            streams["stdout" if text.source == "log" else text.source, text.rank].append(text)
        chunks = []
        for (stream, rank), lines in streams.items():
            data, marks = b"", []
            for line in lines:
                marks.append((len(data), line.time))
                data += line.text.encode() + b"\n"
            about = None if self.writer.source.kind is SourceKind.RANK else rank
            chunks.append(LogChunk(stream, self._offsets[stream, rank], data, marks, about))
            self._offsets[stream, rank] += len(data)
        return frames.part("logs", Logs(chunks))

    def _phases(self, began: Sequence[PhaseBegan], ended: Sequence[PhaseEnded]) -> Iterator[Event]:
        for begin in began:
            self._opened[begin.phase] = begin.time
        for end in ended:
            begun = self._opened.pop(end.phase, end.time)
            yield Event(
                id=f"{end.attempt}-{end.rank}-{end.phase}-{begun}", type="phase", started_at=begun,
                ended_at=end.time, rank=end.rank, title=end.phase, data={"name": end.phase, "clock": "host"},
            )  # fmt: skip

    def _saved(self, save: Checkpoint) -> Event:
        kind = "checkpoint_durable" if save.durable else "checkpoint"
        data = {} if save.durable else {"path": f"/ckpt/step_{save.step}", "blocking_s": save.blocking_s}
        begun = save.time - round((save.blocking_s or 0.0) * 1e6)
        return Event(
            id=f"{save.attempt}-{kind}-{save.step}", type=kind, started_at=begun, ended_at=save.time,
            step=save.step, rank=save.rank, data=data,
        )  # fmt: skip

    def _status(self, beat: Heartbeat) -> Status:
        if beat.stopped:
            return Status(at=beat.time, stopped=[beat.rank])
        moved = None if beat.progress_at is None else beat.progress_at
        return Status(at=beat.time, step=beat.step, progress_at=moved, phase=beat.phase)

    def _rank_exit(self, ended: RankEnded) -> Exit:
        return Exit(at=ended.time, by=Witness.REAPER, exit_code=ended.exit_code, signal=ended.signal, rank=ended.rank)

    def _attempt_exit(self, over: AttemptEnded) -> Exit:
        return Exit(at=over.time, by=Witness.SCHEDULER, state=State(over.state), reason=over.reason or None)


def source_of(item: Item, plan: Plan) -> tuple[str, int | None, str] | None:
    """Who sends an item: (attempt, rank, node); None for what nobody sends (ticks, time in the queue)."""
    attempt: str | None = getattr(item, "attempt", None)
    if attempt is None:
        return None
    if isinstance(item, (Step, Heartbeat, PhaseBegan, PhaseEnded, Checkpoint)):
        if isinstance(item, Heartbeat) and item.stopped:
            return attempt, None, plan.layout.node_of(item.rank)
        return attempt, item.rank, ""
    if isinstance(item, Sample):
        return (attempt, item.rank, "") if not item.node else (attempt, None, item.node)
    if isinstance(item, Text):
        return attempt, None, item.node
    if isinstance(item, RankEnded):
        return attempt, None, item.node
    return (attempt, None, "") if isinstance(item, (AttemptStarted, AttemptEnded)) else None
