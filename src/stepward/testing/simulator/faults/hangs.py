"""Faults in which nothing goes on: one rank does something else, or nothing, and all others wait for it."""

from collections.abc import Iterable
from typing import ClassVar

import numpy as np

from stepward.testing.simulator.trouble import Stop, Trouble
from stepward.testing.simulator.voice import Text, Voice


class Stuck(Trouble):
    """Base: one rank is stuck until the watchdogs of the others end it."""

    type = "hang"
    also: ClassVar[tuple[str, ...]] = ("crash", "idle_accelerators", "duty_cycle")
    stops = True
    phases: tuple[str, ...] = ("data_wait", "forward")
    spins = False
    beats_ = True
    frozen = False

    def draw(self, dice: np.random.Generator) -> None:
        self.one_rank(dice)
        self._phase = str(dice.choice(self.phases))
        self._after_s = float(dice.choice([300.0, 600.0, 900.0]))

    def stop(self, attempt: int) -> Stop | None:
        if attempt or self.step is None:
            return None
        return Stop(
            self.step, "stuck", self.ranks, phase=self._phase, spins=self.spins, beats=self.beats_, frozen=self.frozen,
            after_s=self._after_s, peers="watchdog", state="crashed", reason="signal 6",
        )  # fmt: skip


class Deadlock(Stuck):
    """Two threads of a rank wait for each other."""

    kind, label = "deadlock", "hang_in_user_code"


class Frozen(Stuck):
    """A rank is stopped by a signal: no heartbeat comes of it, and its wrapper sees it stopped."""

    kind, label = "frozen", "hang_in_user_code"
    beats_, frozen = False, True


class FrozenUnseen(Stuck):
    """A rank falls silent, and nobody is there who would see why."""

    kind, label = "frozen_unseen", "hang_in_user_code"
    beats_ = False


class DeviceHang(Stuck):
    """A kernel of one device never ends."""

    kind, label = "device_hang", "gpu_driver_firmware"
    also = (*Stuck.also, "hardware_fault")
    phases, spins = ("backward",), True

    def last_words(self, stopped_s: float, voice: Voice) -> Iterable[Text]:
        yield voice.kernel(
            stopped_s + 20.0, self.nodes[0],
            f"NVRM: Xid (PCI:0000:3b:00): 109, pid={voice.pid(self.ranks[0])}, name=python3, Ch 00000026, "
            "errorString CTX SWITCH TIMEOUT, Info 0x2c0",
        )  # fmt: skip


class CollectiveMismatch(Stuck):
    """One rank calls another collective than its peers."""

    kind, label = "collective_mismatch", "collective_desync"
    phases, spins = ("collective",), True

    def last_words(self, stopped_s: float, voice: Voice) -> Iterable[Text]:
        rank, limit, step = self.ranks[0], round(self._after_s * 1000), self.step or 0
        yield voice.torch(
            stopped_s + self._after_s + 0.4, rank, "E", "ProcessGroupNCCL.cpp:632]",
            f"[Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={4 * step + 3}, "
            f"OpType=_ALLGATHER_BASE, NumelIn=1048576, NumelOut=8388608, Timeout(ms)={limit}) ran for {limit + 77} "
            "milliseconds before timing out.",
        )  # fmt: skip


class RankZeroWorks(Stuck):
    """Rank 0 does legitimate long work, and the others' time-out is too short for it."""

    kind, label = "rank0_long_work", "timeout_budget"
    phases = ("data_wait",)

    def draw(self, dice: np.random.Generator) -> None:
        super().draw(dice)
        self.ranks, self.nodes = (0,), (0,)
        self._what = str(dice.choice(["tokenizing", "building the index of", "downloading"]))

    def last_words(self, stopped_s: float, voice: Voice) -> Iterable[Text]:
        yield voice.log(stopped_s, 0, f"{self._what} dataset shard 3/8")
        for part in range(1, int(self._after_s // 60)):
            yield voice.log(stopped_s + 60.0 * part, 0, f"{self._what} dataset: {part * 7} % of 41,000,000 documents")


HANGS: list[type[Trouble]] = [Deadlock, Frozen, FrozenUnseen, DeviceHang, CollectiveMismatch, RankZeroWorks]
