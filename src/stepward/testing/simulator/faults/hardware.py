"""Faults of devices, links and fabrics, as kernel logs, counters and vanished readings show them."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from stepward.testing.simulator.block import Block
from stepward.testing.simulator.trouble import Stop, Trouble
from stepward.testing.simulator.voice import Text, Voice

if TYPE_CHECKING:
    from stepward.testing.simulator.readings import Readings


def bus(rank: int, per_node: int) -> str:
    """PCI address of a rank's device."""
    return f"0000:{(0x18, 0x2A, 0x3B, 0x5D, 0x86, 0x9A, 0xAB, 0xCA)[rank % per_node % 8]:02x}:00"


class Xid(Trouble):
    """Base: a device fails, the driver says with which code, and the rank ends with an error of the runtime."""

    type = "hardware_fault"
    also: ClassVar[tuple[str, ...]] = ("crash", "telemetry_gap")
    stops = True
    code = 0
    says = ""
    error = "CUDA error: unspecified launch failure"

    def draw(self, dice: np.random.Generator) -> None:
        self.one_rank(dice)

    def stop(self, attempt: int) -> Stop | None:
        if attempt or self.step is None:
            return None
        return Stop(self.step, "died", self.ranks, exit_code=1, reason="", after_s=12.0, state="failed")

    def last_words(self, stopped_s: float, voice: Voice) -> Iterable[Text]:
        rank, node = self.ranks[0], self.nodes[0]
        address = bus(rank, self.plan.layout.per_node)
        said = self.says.format(pid=voice.pid(rank))
        yield voice.kernel(stopped_s, node, f"NVRM: Xid (PCI:{address}): {self.code}, {said}")
        yield voice.raw(stopped_s + 0.2, rank, f"[rank{rank}]: Traceback (most recent call last):")
        yield voice.raw(stopped_s + 0.2, rank, f"[rank{rank}]: RuntimeError: {self.error}")


class Xid48(Xid):
    """An uncorrectable memory error."""

    kind, label, code = "xid_48", "gpu_memory_ecc", 48
    says = "pid={pid}, name=python3, DBE (double bit error) ECC Error detected"
    error = "CUDA error: uncorrectable ECC error encountered"

    def read(self, readings: "Readings") -> None:
        works = self.works_at(readings.instants)[:, None]
        readings.device["ecc_uncorrected"][:, list(self.ranks)] += 2 * works


class Xid79(Xid):
    """A device falls off the bus: the driver says so, its readings are gone."""

    kind, label, code = "xid_79", "gpu_off_bus", 79
    says = "pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
    error = "CUDA error: unknown error"

    def read(self, readings: "Readings") -> None:
        _lost(self, readings)


class Xid119(Xid):
    """The firmware of a device no longer answers the driver: the rank is stuck in the runtime."""

    kind, label, code = "xid_119", "gpu_driver_firmware", 119
    says = "pid={pid}, name=python3, Timeout after 6s of waiting for RPC response from GPU{local} GSP! Expected function 76"
    also = ("crash", "hang", "telemetry_gap")

    def stop(self, attempt: int) -> Stop | None:
        if attempt or self.step is None:
            return None
        return Stop(
            self.step,
            "stuck",
            self.ranks,
            phase="backward",
            spins=False,
            after_s=300.0,
            peers="watchdog",
            state="crashed",
        )

    def last_words(self, stopped_s: float, voice: Voice) -> Iterable[Text]:
        rank, node = self.ranks[0], self.nodes[0]
        local = rank % self.plan.layout.per_node
        address = bus(rank, self.plan.layout.per_node)
        for again in range(3):
            said = self.says.format(pid=voice.pid(rank), local=local)
            yield voice.kernel(stopped_s + 6.0 + 45.0 * again, node, f"NVRM: Xid (PCI:{address}): {self.code}, {said}")


class NvlinkError(Xid):
    """A link of the fabric between devices fails."""

    kind, label, code = "xid_74", "nvlink_fabric", 74
    says = (
        "pid='<unknown>', name=<unknown>, NVLink: fatal error detected on link 6(0x10000, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)"
    )
    error = "NCCL error: unhandled cuda error, NCCL version 2.21.5"


class OffBusSilent(Trouble):
    """A device is gone and nobody says so: its readings stop while its host answers; then its rank hangs."""

    kind, label, type = "off_bus_silent", "gpu_off_bus", "telemetry_gap"
    also = ("hang", "crash", "hardware_fault")
    stops = True

    def draw(self, dice: np.random.Generator) -> None:
        self.one_rank(dice)

    def read(self, readings: "Readings") -> None:
        _lost(self, readings)

    def stop(self, attempt: int) -> Stop | None:
        if attempt or self.step is None:
            return None
        return Stop(self.step, "stuck", self.ranks, phase="backward", after_s=300.0, peers="watchdog", state="crashed")


def _lost(trouble: Trouble, readings: "Readings") -> None:
    """All readings of the struck devices are missing while the trouble works."""
    works = trouble.works_at(readings.instants).astype(bool)
    for values in readings.device.values():
        values[np.ix_(works, np.array(trouble.ranks, int))] = np.nan


class EccStorm(Trouble):
    """One device corrects far more memory errors than its peers, row after row is remapped; ``magnitude`` a second."""

    kind, label, type = "ecc_storm", "gpu_memory_ecc", "hardware_fault"
    strengths = {"train": (1.0, 5.0), "test": (0.3, 1.0)}

    def draw(self, dice: np.random.Generator) -> None:
        self.one_rank(dice)
        self._remaps = bool(dice.random() < 0.5)

    def read(self, readings: "Readings") -> None:
        since = 0.0 if self.began_s is None else self.began_s
        end = np.inf if self.ended_s is None else self.ended_s
        lasted = np.clip(np.minimum(readings.instants, end) - since, 0.0, None) * (self.began_s is not None)
        readings.device["ecc_corrected"][:, list(self.ranks)] += np.floor(lasted * self.magnitude)[:, None]

    def lines(self, block: Block, voice: Voice) -> Iterable[Text]:
        onset = self.onset_in(block)
        if onset is not None and self._remaps:
            address = bus(self.ranks[0], self.plan.layout.per_node)
            yield voice.kernel(
                onset + 30.0, self.nodes[0],
                f"NVRM: Xid (PCI:{address}): 92, pid=1896, name=nv-hostengine, High single-bit ECC error rate",
            )  # fmt: skip


class LinkFlap(Trouble):
    """A port goes down and comes up again; collectives stand still for ``magnitude`` seconds each time."""

    kind, label, type = "link_flap", "network_link", "hardware_fault"
    also = ("slowdown", "hang", "straggler")
    strengths = {"train": (6.0, 20.0), "test": (3.0, 8.0)}
    every = 40

    def draw(self, dice: np.random.Generator) -> None:
        self.one_node(dice)
        self.ranks = ()
        self.until = (self.step or 0) + 3 * self.every

    def shape(self, block: Block) -> None:
        for row in self._rows(block):
            block.seconds["collective"][row] += self.magnitude

    def _rows(self, block: Block) -> list[int]:
        rows = self.strikes(block)
        return [row for row in range(rows.start, rows.stop) if (block.first + row - (self.step or 0)) % self.every == 0]

    def read(self, readings: "Readings") -> None:
        if self.began_s is not None:
            grown = 200.0 * (readings.instants >= self.began_s)
            readings.node["system/network/ib0/errors"][:, list(self.nodes)] += grown[:, None]

    def lines(self, block: Block, voice: Voice) -> Iterable[Text]:
        node = self.nodes[0]
        for row in self._rows(block):
            down = float(block.ends[row].max()) - self.magnitude
            yield voice.kernel(down, node, "mlx5_core 0000:ab:00.0 mlx5_0: Port: 1 Link DOWN")
            yield voice.kernel(down + self.magnitude - 0.5, node, "mlx5_core 0000:ab:00.0 mlx5_0: Port: 1 Link ACTIVE")
            yield voice.nccl(
                down + 1.0, self.plan.layout.ranks_on(node)[0], "WARN NET/IB : Got async event : port error"
            )


class TelemetryGap(Trouble):
    """The agent of one node is gone: nothing is read there, while its ranks go on."""

    kind, label, type = "telemetry_gap", "host_contention", "telemetry_gap"

    def draw(self, dice: np.random.Generator) -> None:
        self.one_node(dice)

    def read(self, readings: "Readings") -> None:
        works = self.works_at(readings.instants).astype(bool)
        for table, columns in (
            (readings.device, self.ranks),
            (readings.process, self.ranks),
            (readings.node, self.nodes),
        ):
            for values in table.values():
                values[np.ix_(works, np.array(columns, int))] = np.nan


class DiskFull(Trouble):
    """The volume of the checkpoints fills up until a save fails."""

    kind, label, type = "disk_full", "storage_full", "disk_filling"
    also = ("crash",)
    stops = True
    lasts = 200

    def draw(self, dice: np.random.Generator) -> None:
        self.ranks, self.nodes = (), ()
        self._lasts = min(self.lasts, self.plan.steps // 3)
        self.step = min(self.step or 0, self.plan.steps - self._lasts - 5)

    def read(self, readings: "Readings") -> None:
        if self.began_s is None:
            return
        filling = self._lasts * self.plan.step_s * 1.1
        left = 1 - np.clip((readings.instants - self.began_s) / filling, 0.0, 1.0)[:, None]
        free = readings.node["system/disk/ckpt/free"]
        used = readings.node["system/disk/ckpt/used"]
        total = free / np.maximum(1e-9, 1 - used / 100)
        free *= left
        used[:] = 100 * (1 - free / total)

    def stop(self, attempt: int) -> Stop | None:
        if attempt or self.step is None:
            return None
        return Stop(self.step + self._lasts, "died", (0,), exit_code=1, after_s=10.0, again=False)

    def last_words(self, stopped_s: float, voice: Voice) -> Iterable[Text]:
        yield voice.log(stopped_s, 0, f"saving checkpoint of step {(self.step or 0) + self._lasts} to /ckpt")
        yield voice.raw(stopped_s + 0.5, 0, "Traceback (most recent call last):")
        yield voice.raw(stopped_s + 0.5, 0, '  File "/app/checkpoint.py", line 88, in save')
        yield voice.raw(stopped_s + 0.5, 0, "OSError: [Errno 28] No space left on device: '/ckpt/tmp'")


HARDWARE: list[type[Trouble]] = [
    Xid48, Xid79, Xid119, NvlinkError, OffBusSilent, EccStorm, LinkFlap, TelemetryGap, DiskFull,
]  # fmt: skip
