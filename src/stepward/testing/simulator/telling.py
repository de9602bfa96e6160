"""From what happens to what is heard of it: steps, values, heartbeats and readings of a segment as signals."""

from collections.abc import Iterator, Sequence
from math import isnan

import numpy as np

from stepward.detect.signals import Heartbeat, Sample, Signal, Step, Tick
from stepward.testing.simulator.block import Block
from stepward.testing.simulator.layout import Floats
from stepward.testing.simulator.noise import stream
from stepward.testing.simulator.plan import Plan
from stepward.testing.simulator.readings import Meter, Readings, grid
from stepward.testing.simulator.segment import Segment
from stepward.testing.simulator.speech import curve
from stepward.testing.simulator.trouble import Trouble
from stepward.testing.simulator.voice import Voice

TICK_S = 5.0
LAUNCH = 0.15
"""Share of a kernel's time that handing it over takes, where nobody waits for it."""
_DEVICE = frozenset({"forward", "backward", "collective", "optimizer"})


class Telling:
    """Makes the signals of one run."""

    def __init__(self, plan: Plan, troubles: Sequence[Trouble], voice: Voice) -> None:
        self.plan, self._troubles, self._voice = plan, troubles, voice
        self._meter = Meter(plan)
        dice = stream(plan.seed, "telling")
        self._beats = dice.uniform(0, plan.telemetry.heartbeat_s, plan.layout.ranks)
        self._scrapes = dice.uniform(0, 2.0, plan.layout.nodes)
        self._values = stream(plan.seed, "values")
        self._mood = 0.0

    def signals(self, segment: Segment) -> Iterator[Signal]:
        """Everything that is heard of a segment, in no order."""
        yield from segment.signals
        if segment.block is not None and segment.block.count:
            yield from self._steps(segment.attempt, segment.block)
            yield from self._logged(segment.attempt, segment.block)
        yield from self._heartbeats(segment)
        yield from self._readings(segment)
        for instant in grid(segment.begin, segment.end, TICK_S):
            yield Tick(self._voice.at(float(instant)))

    def _times(self, seconds: Floats) -> list[int]:
        origin = self.plan.start_s * 1_000_000
        times: list[int] = (origin + np.round(seconds * 1e6)).astype(np.int64).tolist()
        return times

    def _steps(self, attempt: str, block: Block) -> Iterator[Step]:
        measured = _measured(block, self.plan.telemetry.clocking)
        names = tuple(measured)
        device = _DEVICE if self.plan.telemetry.clocking == "device" else frozenset()
        nothing: dict[str, float] = {}
        for rank in range(self.plan.layout.ranks):
            times = self._times(block.ends[:, rank])
            durations = (block.ends[:, rank] - block.starts[:, rank]).tolist()
            if not names:
                for step, time, duration in zip(block.steps, times, durations, strict=True):
                    yield Step(time, attempt, rank, step, duration, nothing)
                continue
            columns = [measured[name][:, rank].tolist() for name in names]
            for step, time, duration, *seconds in zip(block.steps, times, durations, *columns, strict=True):
                yield Step(time, attempt, rank, step, duration, dict(zip(names, seconds, strict=True)), device)

    def _logged(self, attempt: str, block: Block) -> Iterator[Sample]:
        count, ranks = block.count, self.plan.layout.ranks
        shocks = self._values.standard_normal((count, 2))
        apart = self._values.standard_normal((count, ranks))
        moods = np.empty((count, 1))
        for row in range(count):
            self._mood = 0.8 * self._mood + 0.6 * shocks[row, 0]
            moods[row] = self._mood
        steps = np.arange(block.first, block.first + count)
        loss = curve(steps)[:, None] * (1 + 0.008 * moods + 0.01 * apart)
        norm = (0.35 + 1.2 / np.sqrt(1 + steps / 20))[:, None] * np.exp(0.12 * shocks[:, 1:2] + 0.03 * apart)
        for trouble in self._troubles:
            trouble.values(block, loss, norm)
        every = self.plan.telemetry.values_every
        rows = [row for row in range(count) if (block.first + row) % every == 0]
        for rank in range(ranks if self.plan.telemetry.values_of_all else 1):
            times = self._times(block.ends[:, rank])
            for name, values in (("loss", loss[:, rank].tolist()), ("grad_norm", norm[:, rank].tolist())):
                for row in rows:
                    yield Sample(times[row], attempt, name, values[row], block.first + row, rank)

    def _heartbeats(self, segment: Segment) -> Iterator[Heartbeat]:
        period, told = self.plan.telemetry.heartbeat_s, self.plan.telemetry.clocking != "none"
        for rank in range(self.plan.layout.ranks):
            offset = float(self._beats[rank])
            instants = grid(segment.begin, segment.end, period, offset)
            for trouble in self._troubles:
                instants = trouble.beats(rank, instants)
            if segment.block is not None and segment.block.count:
                yield from self._beating(segment.attempt, segment.block, rank, instants, told=told)
            elif segment.still is not None:
                still = segment.still
                since = None if still.since_s is None else self._voice.at(float(still.since_s[rank]))
                for time in self._times(instants):
                    if still.beats[rank]:
                        yield Heartbeat(time, segment.attempt, rank, still.step, since, still.phase[rank])
                    elif still.frozen[rank]:
                        yield Heartbeat(time, segment.attempt, rank, stopped=True)

    def _beating(self, attempt: str, block: Block, rank: int, instants: Floats, *, told: bool) -> Iterator[Heartbeat]:
        rows = np.maximum(0, np.searchsorted(block.starts[:, rank], instants, side="right") - 1)
        behind = np.cumsum([block.seconds[p][:, rank] for p in block.seconds], axis=0) if told else None
        names = list(block.seconds)
        begins = self._times(block.starts[:, rank])
        for row, instant, time in zip(rows.tolist(), instants.tolist(), self._times(instants), strict=True):
            phase = None
            if behind is not None and instant < block.ends[row, rank]:
                at = int(np.searchsorted(behind[:, row], instant - block.starts[row, rank]))
                phase = names[min(at, len(names) - 1)]
            yield Heartbeat(time, attempt, rank, block.first + row, begins[row], phase)

    def _readings(self, segment: Segment) -> Iterator[Sample]:
        if segment.block is None and segment.still is None:
            return  # it waits in a queue, and is on no node yet
        readings = self._meter.read(segment)
        if not len(readings.instants):
            return
        for trouble in self._troubles:
            trouble.read(readings)
        self._meter.lose(readings, segment)
        yield from self._told(segment.attempt, readings)

    def _told(self, attempt: str, readings: Readings) -> Iterator[Sample]:
        layout = self.plan.layout
        times = [self._times(readings.instants + offset) for offset in self._scrapes]
        for number in range(layout.nodes):
            node, ranks = layout.node(number), layout.ranks_on(number)
            tables: list[tuple[str, int, int | None, int | None, Floats]] = [
                (name, number, None, None, values) for name, values in readings.node.items()
            ]
            for rank in ranks:
                tables += [(name, rank, rank, None, values) for name, values in readings.process.items()]
                if self.plan.telemetry.devices:
                    device = rank - ranks[0]
                    tables += [(f"system/device/{name}", rank, None, device, v) for name, v in readings.device.items()]
            for metric, column, rank_, device_, values in tables:
                for time, value in zip(times[number], values[:, column].tolist(), strict=True):
                    if not isnan(value):
                        yield Sample(time, attempt, metric, value, None, rank_, device_, node)


def _measured(block: Block, clocking: str) -> dict[str, Floats]:
    """The phases of a step as the given clock sees them; they add up to the step whatever it is."""
    true = block.seconds
    if clocking == "none":
        return {}
    if clocking != "host_async":
        return dict(true)
    handed = {name: LAUNCH * true[name] for name in ("forward", "backward")}
    handed["data_wait"] = true["data_wait"]
    if "compile" in true:
        handed["compile"] = true["compile"]
    handed["collective"] = np.full_like(true["collective"], 1e-3)
    rest = block.ends - block.starts - np.sum(list(handed.values()), axis=0)
    return {**handed, "optimizer": rest}
