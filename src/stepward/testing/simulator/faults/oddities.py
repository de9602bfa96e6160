"""What looks like a fault and is none: the things that healthy clusters say all day."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from stepward.testing.simulator.block import Block
from stepward.testing.simulator.layout import Floats
from stepward.testing.simulator.trouble import Trouble
from stepward.testing.simulator.voice import Text, Voice

if TYPE_CHECKING:
    from stepward.testing.simulator.readings import Readings


class Oddity(Trouble):
    """Base: harmless."""

    benign = True

    def draw(self, dice: np.random.Generator) -> None:
        self.step = int(dice.uniform(0.1, 0.9) * self.plan.steps)
        self.until = None
        self.one_rank(dice)


class UnrelatedWarning(Oddity):
    """A kernel grumbles about something that does not matter to the job."""

    kind = "unrelated_warning"
    says = (
        "perf: interrupt took too long (2513 > 2500), lowering kernel.perf_event_max_sample_rate to 79000",
        "EXT4-fs (sda1): warning: mounting fs with errors, running e2fsck is recommended",
        "systemd-journald[812]: Data hash table of /run/log/journal has a fill level at 75.0, suggesting rotation.",
        "igb 0000:01:00.1 eno2: igb: eno2 NIC Link is Up 1000 Mbps Full Duplex, Flow Control: RX/TX",
    )

    def draw(self, dice: np.random.Generator) -> None:
        super().draw(dice)
        self._said = str(dice.choice(self.says))

    def lines(self, block: Block, voice: Voice) -> Iterable[Text]:
        onset = self.onset_in(block)
        if onset is not None:
            yield voice.kernel(onset, self.nodes[0], self._said)


class BenignXid(Oddity):
    """Another user's process ends on a shared device, and the driver says so."""

    kind = "benign_xid"

    def lines(self, block: Block, voice: Voice) -> Iterable[Text]:
        onset = self.onset_in(block)
        if onset is not None:
            yield voice.kernel(
                onset, self.nodes[0], "NVRM: Xid (PCI:0000:ca:00): 43, pid=9021, name=jupyter, Ch 00000018"
            )
            yield voice.kernel(
                onset + 0.1, self.nodes[0], "NVRM: Xid (PCI:0000:ca:00): 45, pid=9021, name=jupyter, Ch 00000018"
            )


class MissedHeartbeats(Oddity):
    """The heartbeats of a rank stay away for a while in which it works."""

    kind = "missed_heartbeats"

    def beats(self, rank: int, instants: Floats) -> Floats:
        if self.began_s is None or rank not in self.ranks:
            return instants
        return instants[(instants < self.began_s) | (instants > self.began_s + 20.0)]


class CorrectableErrors(Oddity):
    """A device corrects a memory error now and then."""

    kind = "correctable_errors"

    def read(self, readings: "Readings") -> None:
        if self.began_s is not None:
            some = np.floor(np.clip(readings.instants - self.began_s, 0.0, None) / 1200.0)
            readings.device["ecc_corrected"][:, list(self.ranks)] += 1 + some[:, None]


class OldRetransmits(Oddity):
    """A link has had many errors in its life, and none now."""

    kind = "old_link_errors"

    def read(self, readings: "Readings") -> None:
        readings.node["system/network/ib0/errors"][:, list(self.nodes)] += 18_211.0
        readings.node["system/network/ib0/drops"][:, list(self.nodes)] += 40_177.0


class RetriedRequest(Oddity):
    """A request fails, is sent again, and succeeds."""

    kind = "retried_request"

    def lines(self, block: Block, voice: Voice) -> Iterable[Text]:
        onset = self.onset_in(block)
        if onset is not None:
            rank = self.ranks[0]
            yield voice.log(onset, rank, "upload of metrics failed: connection reset by peer; retry 1 of 5", "WARNING")
            yield voice.log(onset + 2.0, rank, "upload of metrics succeeded after 1 retry")


ODDITIES: list[type[Trouble]] = [
    UnrelatedWarning, BenignXid, MissedHeartbeats, CorrectableErrors, OldRetransmits, RetriedRequest,
]  # fmt: skip
