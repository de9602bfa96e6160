"""Faults that make work slower: on one device, one node, one stage, or everywhere."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from stepward.testing.simulator.block import Block, Pause
from stepward.testing.simulator.noise import stream
from stepward.testing.simulator.trouble import Trouble
from stepward.testing.simulator.voice import Text, Voice

if TYPE_CHECKING:
    from stepward.testing.simulator.readings import Readings

COMPUTES = ("forward", "backward", "optimizer")


class Slower(Trouble):
    """Base: the struck ranks compute ``magnitude`` times as long."""

    type = "straggler"
    also: ClassVar[tuple[str, ...]] = ("slowdown", "duty_cycle")

    def shape(self, block: Block) -> None:
        rows, ranks = self.strikes(block), list(self.ranks)
        for phase in COMPUTES:
            block.seconds[phase][rows, ranks] *= self.magnitude


class SlowRank(Slower):
    """A device is slower than its peers and nothing but its clock says so."""

    kind, label = "slow_rank", "thermal_power"

    def draw(self, dice: np.random.Generator) -> None:
        self.one_rank(dice)

    def read(self, readings: "Readings") -> None:
        works = self.works_at(readings.instants)[:, None]
        clocks = readings.device["clock_sm"]
        clocks[:, list(self.ranks)] *= 1 - works * (1 - 1 / self.magnitude)


class ThermalThrottle(SlowRank):
    """A device gets hot, then holds its clock down."""

    kind = "thermal_throttle"
    also = ("slowdown", "duty_cycle", "hardware_fault")

    def read(self, readings: "Readings") -> None:
        super().read(readings)
        works = self.works_at(readings.instants)[:, None]
        ranks = list(self.ranks)
        hot = readings.device["temperature"]
        hot[:, ranks] += works * np.maximum(0.0, 88.0 - hot[:, ranks])
        readings.device["throttle_hw_thermal"][:, ranks] += works
        readings.device["power"][:, ranks] *= 1 - works * 0.5 * (1 - 1 / self.magnitude)


class PowerCap(Slower):
    """A node's power supply holds all its devices down."""

    kind, label = "power_cap", "thermal_power"
    also = ("slowdown", "duty_cycle", "hardware_fault")

    def draw(self, dice: np.random.Generator) -> None:
        self.one_node(dice)

    def read(self, readings: "Readings") -> None:
        works, ranks = self.works_at(readings.instants)[:, None], list(self.ranks)
        readings.device["throttle_hw_power_brake"][:, ranks] += works
        readings.device["clock_sm"][:, ranks] *= 1 - works * (1 - 1 / self.magnitude)
        readings.device["power"][:, ranks] *= 1 - works * 0.35


class SlowNode(Slower):
    """Somebody else's processes take a node's CPUs."""

    kind, label = "slow_node", "host_contention"

    def draw(self, dice: np.random.Generator) -> None:
        self.one_node(dice)

    def read(self, readings: "Readings") -> None:
        works, nodes = self.works_at(readings.instants)[:, None], list(self.nodes)
        cpu = readings.node["system/host/cpu"]
        cpu[:, nodes] += works * (98.0 - cpu[:, nodes])
        readings.node["system/host/load"][:, nodes] += works * 260.0
        readings.node["system/host/pressure_cpu"][:, nodes] += works * 45.0


class CoTenant(SlowNode):
    """Bursts of a neighbour's work on one node, a minute at a time."""

    kind = "co_tenant"

    def shape(self, block: Block) -> None:
        rows = self.strikes(block)
        dice = stream(self.plan.seed, self.kind, block.first)
        bursts = np.repeat(dice.random(block.count // 16 + 1) < 0.6, 16)[: block.count]
        for row in range(rows.start, rows.stop):
            if bursts[row]:
                for phase in COMPUTES:
                    block.seconds[phase][row, list(self.ranks)] *= self.magnitude


class CpuContention(SlowNode):
    """The processes of one node are late with data and launches, now more, now less."""

    kind = "cpu_contention"

    def shape(self, block: Block) -> None:
        rows, ranks = self.strikes(block), list(self.ranks)
        dice = stream(self.plan.seed, self.kind, block.first)
        jitter = dice.exponential(1.0, (block.count, len(ranks)))[rows]
        more = (self.magnitude - 1) * self.plan.step_s * jitter
        block.seconds["data_wait"][rows, ranks] += 0.5 * more
        block.seconds["forward"][rows, ranks] += 0.5 * more


class SlowStage(Slower):
    """One pipeline stage has more to do than the others, from the first step on."""

    kind, label = "slow_stage", "workload_imbalance"

    def draw(self, dice: np.random.Generator) -> None:
        self.step, self.until = 0, None
        self.ranks = self.plan.layout.stage(self.plan.layout.pp - 1)


class SequenceImbalance(Trouble):
    """In each step some rank has longer sequences than the others."""

    kind, label, type = "sequence_imbalance", "workload_imbalance", "slowdown"
    also = ("straggler", "duty_cycle")

    def shape(self, block: Block) -> None:
        rows = self.strikes(block)
        dice = stream(self.plan.seed, self.kind, block.first)
        longer = dice.gamma(0.5, 2.0 * (self.magnitude - 1), (block.count, self.plan.layout.ranks))[rows]
        longest = longer.max(axis=1, keepdims=True)
        longer = longer / np.maximum(longest, 1e-9) * (self.magnitude - 1)
        block.seconds["backward"][rows] *= 1 + 1.2 * longer
        block.seconds["forward"][rows] *= 1 + 0.6 * longer


class GlobalSlowdown(Trouble):
    """All devices are slower alike: their clocks were set down."""

    kind, label, type = "global_slowdown", "thermal_power", "slowdown"
    also = ("duty_cycle", "hardware_fault")

    def shape(self, block: Block) -> None:
        rows = self.strikes(block)
        for phase in block.seconds:
            block.seconds[phase][rows] *= self.magnitude

    def read(self, readings: "Readings") -> None:
        works = self.works_at(readings.instants)[:, None]
        readings.device["clock_sm"] *= 1 - works * (1 - 1 / self.magnitude)
        readings.device["throttle_power_cap"] += works


class NetworkSlow(Trouble):
    """A congested or degraded network: every collective takes longer, and one node's link has errors."""

    kind, label, type = "network_slow", "network_link", "slowdown"
    also = ("hardware_fault", "duty_cycle")

    def shape(self, block: Block) -> None:
        rows = self.strikes(block)
        block.seconds["collective"][rows] += (self.magnitude - 1) * self.plan.step_s

    def read(self, readings: "Readings") -> None:
        works = self.works_at(readings.instants)
        grown = np.cumsum(works) * 40.0 + (0.0 if self.began_s is None else _before(self, readings.instants) * 40.0)
        readings.node["system/network/ib0/errors"][:, list(self.nodes)] += grown[:, None]


def _before(trouble: Trouble, instants: np.ndarray) -> float:
    """Readings that were taken while the trouble worked, before the first of these instants."""
    if trouble.began_s is None or not len(instants):
        return 0.0
    end = instants[0] if trouble.ended_s is None else min(instants[0], trouble.ended_s)
    return float(max(0.0, end - trouble.began_s) // trouble.plan.telemetry.sample_s)


class InputStarvation(Trouble):
    """The loader does not keep up: all ranks wait for data; ``magnitude`` is the share of the step that they wait."""

    kind, label, type = "input_starvation", "input_bound", "input_bound"
    also = ("slowdown", "duty_cycle", "straggler")
    strengths = {"train": (0.35, 0.65), "test": (0.25, 0.35)}

    def shape(self, block: Block) -> None:
        rows = self.strikes(block)
        dice = stream(self.plan.seed, self.kind, block.first)
        waits = self.plan.step_s * self.magnitude / (1 - self.magnitude)
        ranks = self.plan.layout.ranks
        late = dice.normal(1.0, 0.08, (block.count, ranks))[rows]
        block.seconds["data_wait"][rows] += np.maximum(0.0, waits * late)

    def read(self, readings: "Readings") -> None:
        works = self.works_at(readings.instants)[:, None]
        cpu = readings.node["system/host/cpu"]
        cpu += works * np.maximum(0.0, 96.0 - cpu)


class StorageStall(Trouble):
    """The file system that holds the data stands still for some seconds, again and again."""

    kind, label, type = "storage_stall", "storage_io", "input_bound"
    also = ("slowdown", "duty_cycle", "hang", "straggler", "hardware_fault")
    strengths = {"train": (8.0, 20.0), "test": (5.0, 10.0)}

    def shape(self, block: Block) -> None:
        rows = self.strikes(block)
        dice = stream(self.plan.seed, self.kind, block.first)
        hit = dice.random(block.count) < min(0.5, 2.0 * self.plan.step_s / self.magnitude)
        for row in range(rows.start, rows.stop):
            if hit[row]:
                block.seconds["data_wait"][row] += self.magnitude * (0.9 + 0.1 * dice.random(self.plan.layout.ranks))

    def read(self, readings: "Readings") -> None:
        works = self.works_at(readings.instants)[:, None]
        readings.node["system/host/pressure_io"] += works * 55.0

    def lines(self, block: Block, voice: Voice) -> Iterable[Text]:
        onset = self.onset_in(block)
        if onset is not None:
            for node in range(self.plan.layout.nodes):
                yield voice.kernel(onset + 4.0 + node * 0.1, node, "nfs: server nfs-data not responding, still trying")
                yield voice.kernel(onset + 9.0 + node * 0.1, node, "nfs: server nfs-data OK")


class CheckpointStall(Trouble):
    """Saves take ``magnitude`` times as long as before."""

    kind, label, type = "checkpoint_stall", "checkpoint_stall", "checkpoint_stall"
    also = ("slowdown", "hang")
    strengths = {"train": (6.0, 12.0), "test": (4.0, 7.0)}

    def shape(self, block: Block) -> None:
        for at, pause in enumerate(block.pauses):
            if pause.phase == "checkpoint_save" and block.first + pause.row >= (self.step or 0):
                block.pauses[at] = self._longer(block, pause)

    def _longer(self, block: Block, pause: Pause) -> Pause:
        if block.inside[pause.row]:
            block.inside[pause.row] *= self.magnitude
        return pause._replace(seconds=pause.seconds * self.magnitude, held_s=pause.held_s * self.magnitude)


class RecompilationStorm(Trouble):
    """Shapes change all the time, so that a program is compiled again every few steps; ``magnitude`` seconds each."""

    kind, label, type = "recompilation", "recompilation", "recompilation_storm"
    also = ("slowdown", "duty_cycle")
    strengths = {"train": (4.0, 12.0), "test": (2.0, 4.0)}
    every = 9

    def shape(self, block: Block) -> None:
        rows = self.strikes(block)
        extra = np.zeros_like(block.seconds["forward"])
        for row in range(rows.start, rows.stop):
            if (block.first + row) % self.every == 0:
                extra[row] = self.magnitude
        if extra.any():
            block.seconds["compile"] = extra

    def lines(self, block: Block, voice: Voice) -> Iterable[Text]:
        rows = self.strikes(block)
        for row in range(rows.start, rows.stop):
            step = block.first + row
            if step % self.every == 0:
                shape = f"float32[{64 + step % 31},{1000 + step % 57}]"
                yield voice.raw(
                    float(block.starts[row, 0]) + 0.2, 0,
                    "WARNING:jax._src.interpreters.pxla:Compiling train_step with global shapes and types "
                    f"[ShapedArray({shape})]. Argument mapping: (GSPMDSharding({{replicated}}),).",
                )  # fmt: skip


SPEED: list[type[Trouble]] = [
    SlowRank, ThermalThrottle, PowerCap, SlowNode, CoTenant, CpuContention, SlowStage, SequenceImbalance, GlobalSlowdown,
    NetworkSlow, InputStarvation, StorageStall, CheckpointStall, RecompilationStorm,
]  # fmt: skip
