"""What devices, hosts, networks and processes show of what the ranks do, under the names that ``stepward.collect`` gives them.

Utilization is the share of the last second in which any kernel ran; power follows what the kernels do, temperature follows
power, clocks stay where they are set unless something holds them down. Counters only grow.
"""

import numpy as np
from numpy.typing import NDArray

from stepward.testing.simulator.block import BUSY, WORK
from stepward.testing.simulator.layout import Floats
from stepward.testing.simulator.noise import stream
from stepward.testing.simulator.plan import Plan
from stepward.testing.simulator.segment import Segment

IDLE_W, SPIN_W, WORK_W = 95.0, 120.0, 480.0
"""Power of a device that does nothing; what spinning in a collective adds to it, and what computing adds."""
AIR_C, WARMS_C_PER_W, LAGS_S = 27.0, 0.062, 25.0
"""Temperature without power, its rise by power, and how long it takes to follow."""
CLOCK_MHZ, MEMORY_B = 1980.0, 80e9
LEFT_B = 0.5e9
"""What the driver itself holds of a device's memory."""
CORES, HOST_B, DISK_B = 96, 1.0e12, 14e12
THROTTLES = ("power_cap", "hw_slowdown", "sw_thermal", "hw_thermal", "hw_power_brake")
DAY_S = 86_400.0


def grid(begin: float, end: float, period: float, offset: float = 0.0) -> Floats:
    """The instants ``offset + n * period`` from ``begin`` up to and without ``end``."""
    first, last = np.ceil((begin - offset) / period), np.ceil((end - offset) / period)
    return np.arange(first, last, dtype=np.float64) * period + offset


class Readings:
    """Readings at some instants: a row an instant, a column a rank's device, a node, or a rank's process.

    A reading that does not exist is NaN.
    """

    def __init__(self, instants: Floats) -> None:
        self.instants = instants
        self.device: dict[str, Floats] = {}
        self.node: dict[str, Floats] = {}
        self.process: dict[str, Floats] = {}

    def kept(self, keep: np.ndarray, gone: np.ndarray, per_node: int) -> None:
        """Lose some readings: those of the nodes and instants that are not kept, and of devices on nodes that are gone."""
        by_rank = np.repeat(keep, per_node, axis=1)[:, : len(gone)] & ~gone
        node_gone = np.array([gone[at : at + per_node].all() for at in range(0, len(gone), per_node)])
        for table in (self.device, self.process):
            for name in table:
                table[name] = np.where(by_rank, table[name], np.nan)
        for name in self.node:
            self.node[name] = np.where(keep & ~node_gone, self.node[name], np.nan)


class Meter:
    """Reads segment after segment; remembers temperatures and counters."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        layout = plan.layout
        dice = stream(plan.seed, "meter")
        self._dice, self._losses = stream(plan.seed, "readings"), stream(plan.seed, "losses")
        ranks, nodes = layout.ranks, layout.nodes
        self._air = AIR_C + dice.normal(0, 2.0, nodes)[np.arange(ranks) // layout.per_node] + dice.normal(0, 1.0, ranks)
        self._temperature = self._air.copy()
        self._memory = dice.uniform(0.6, 0.85) * MEMORY_B * np.exp(dice.normal(0, 0.01, ranks))
        self._rss = dice.uniform(6e9, 30e9) * np.exp(dice.normal(0, 0.03, ranks))
        self._cpu = dice.uniform(15, 40)
        self._free = dice.uniform(0.35, 0.7) * DISK_B
        self._traffic = dice.uniform(2e9, 20e9)
        self._corrected = np.floor(dice.exponential(0.6, ranks))
        self._drops = np.floor(dice.exponential(4.0, nodes))

    def read(self, segment: Segment) -> Readings:
        """The readings of a segment, before any trouble changes them."""
        period = self.plan.telemetry.sample_s
        readings = Readings(grid(segment.begin, segment.end, period))
        if len(readings.instants):
            self._devices(readings, segment)
            self._hosts(readings, segment)
        return readings

    def lose(self, readings: Readings, segment: Segment) -> None:
        """Let scrapes fail now and then, and those of a node that is gone always."""
        ranks, per_node = self.plan.layout.ranks, self.plan.layout.per_node
        gone = segment.still.gone if segment.still else np.zeros(ranks, bool)
        keep = self._losses.random((len(readings.instants), self.plan.layout.nodes)) >= self.plan.telemetry.missing
        readings.kept(keep, gone, per_node)

    def _devices(self, readings: Readings, segment: Segment) -> None:
        count, ranks = len(readings.instants), self.plan.layout.ranks
        if segment.block is not None and segment.block.count:
            busy = segment.block.share(BUSY, readings.instants)
            work = segment.block.share(WORK, readings.instants)
        else:
            still = segment.still.busy if segment.still else np.zeros(ranks)
            busy, work = np.tile(still, (count, 1)), np.zeros((count, ranks))
        noise = self._dice.normal(0, 1, (count, ranks))
        power = IDLE_W + SPIN_W * busy + WORK_W * work + 6.0 * noise
        grown = np.cumsum(self._dice.random((count, ranks)) < 2e-5 * self.plan.telemetry.sample_s, axis=0)
        device = readings.device
        device["utilization"] = np.clip(100 * busy + noise * np.sign(busy), 0.0, 100.0)
        device["memory_used"] = np.where(_dead(segment, ranks), LEFT_B, self._memory * (1 + 0.002 * noise))
        device["memory_total"] = np.full((count, ranks), MEMORY_B)
        device["power"] = power
        device["temperature"] = np.rint(self._temperatures(power, readings.instants))
        device["clock_sm"] = CLOCK_MHZ - np.where(np.abs(noise) > 1.5, 15.0, 0.0)
        device["ecc_corrected"] = self._corrected + grown
        device["ecc_uncorrected"] = np.zeros((count, ranks))
        for name in THROTTLES:
            device[f"throttle_{name}"] = np.zeros((count, ranks))
        self._corrected = self._corrected + grown[-1]

    def _temperatures(self, power: Floats, instants: Floats) -> Floats:
        day = 1.5 * self.plan.day / 0.03 * np.sin(2 * np.pi * instants / DAY_S)
        follows = 1 - np.exp(-self.plan.telemetry.sample_s / LAGS_S)
        found = np.empty_like(power)
        for row, watts in enumerate(power):
            aim = self._air + day[row] + WARMS_C_PER_W * watts
            self._temperature = self._temperature + follows * (aim - self._temperature)
            found[row] = self._temperature
        return found

    def _hosts(self, readings: Readings, segment: Segment) -> None:
        layout = self.plan.layout
        count, nodes = len(readings.instants), layout.nodes
        noise = self._dice.normal(0, 1, (count, nodes))
        cpu = np.clip(self._cpu + 3.0 * noise, 1, 100)
        rss = self._rss * (1 + 0.004 * self._dice.normal(0, 1, (count, layout.ranks)))
        rss[:, _dead(segment, layout.ranks)] = np.nan
        working = bool(segment.block is not None and segment.block.count)
        node = readings.node
        node["system/host/cpu"] = cpu
        node["system/host/load"] = CORES * cpu / 100 * (1 + 0.05 * noise)
        node["system/host/pressure_cpu"] = np.clip(0.6 + 0.5 * noise, 0, 100)
        node["system/host/pressure_io"] = np.clip(0.8 + 0.6 * noise, 0, 100)
        node["system/host/memory_used"] = 60e9 + np.add.reduceat(
            np.nan_to_num(rss), np.arange(0, layout.ranks, layout.per_node), axis=1
        )
        node["system/host/memory_total"] = np.full((count, nodes), HOST_B)
        traffic = self._traffic * (1 + 0.1 * noise) if working else np.full((count, nodes), 2e5)
        node["system/network/ib0/sent"] = np.abs(traffic)
        node["system/network/ib0/received"] = np.abs(traffic * (1 + 0.01 * noise))
        node["system/network/ib0/errors"] = np.zeros((count, nodes))
        node["system/network/ib0/drops"] = np.tile(self._drops, (count, 1))
        node["system/disk/ckpt/free"] = np.full((count, nodes), self._free)
        node["system/disk/ckpt/used"] = 100 * (1 - node["system/disk/ckpt/free"] / DISK_B)
        readings.process["system/process/rss"] = rss


def _dead(segment: Segment, ranks: int) -> NDArray[np.bool_]:
    return segment.still.dead if segment.still is not None else np.zeros(ranks, bool)
