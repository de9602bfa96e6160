"""Faults before the first step: jobs that wait, processes that never meet, services that refuse, and runs that do nothing."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from stepward.testing.simulator.block import Block
from stepward.testing.simulator.trouble import Opening, Stop, Trouble
from stepward.testing.simulator.voice import Text, Voice

if TYPE_CHECKING:
    from stepward.testing.simulator.readings import Readings


class FailedStart(Trouble):
    """Base: the first attempt fails before its first step."""

    type = "crash"
    also = ("restart_loop", "hang")
    stops = True
    says: tuple[str, ...] = ()
    everywhere = False
    attempts = 0
    """Launches that fail one after the other, beside the first."""

    def draw(self, dice: np.random.Generator) -> None:
        self.step = None
        if not self.everywhere:
            self.one_rank(dice)
        self._fails_s = float(dice.uniform(15, 120))
        self._said = str(dice.choice(self.says))

    def opening(self, attempt: int) -> Opening | None:
        if attempt > self.attempts:
            return None
        return Opening(fails_after_s=self._fails_s, ranks=self.ranks, exit_code=1, again=attempt < self.attempts)

    def first_words(self, begun_s: float, attempt: int, voice: Voice) -> Iterable[Text]:
        if attempt > self.attempts:
            return
        if self.began_s is None:
            self.began_s = begun_s
        self.ended_s = begun_s + self._fails_s
        for rank in self.ranks or range(self.plan.layout.ranks):
            values = {"rank": rank, "node": self.plan.layout.node(0), "port": 29500}
            yield voice.raw(self.ended_s - 0.5, rank, "Traceback (most recent call last):")
            yield voice.raw(self.ended_s - 0.5, rank, self._said.format(**values))


class Rendezvous(FailedStart):
    """Some ranks never reach the coordinator."""

    kind, label, everywhere = "rendezvous", "rendezvous_failure", True
    says = (
        "torch.distributed.DistStoreError: wait timeout after 600000ms, keys: /default_pg/0//cpu//0/0",
        "torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError",
    )


class NameService(FailedStart):
    """The coordinator's name is not known."""

    kind, label, everywhere = "dns", "network_config", True
    says = (
        "[W socket.cpp:767] [c10d] The IPv6 network addresses of ({node}, {port}) cannot be retrieved "
        "(gai error: -2 - Name or service not known).",
    )


class PortInUse(FailedStart):
    """Another process has the coordinator's port."""

    kind, label = "port_in_use", "resource_conflict"
    says = (
        "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. "
        "port: {port}, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use",
    )

    def draw(self, dice: np.random.Generator) -> None:
        super().draw(dice)
        self.ranks, self.nodes = (0,), (0,)


class HubThrottles(FailedStart):
    """The hub that the weights come from refuses so many requests."""

    kind, label, everywhere = "hub_throttle", "external_service", True
    says = (
        "huggingface_hub.utils.HfHubHTTPError: 429 Client Error: Too Many Requests for url: https://hub.example/api/models/m",
    )


class RestartLoop(FailedStart):
    """The same bug ends launch after launch before the first step."""

    kind, label, type = "restart_loop", "user_code_index", "restart_loop"
    also = ("crash", "no_progress_restart")
    says = ("KeyError: 'optimizer_state'", "ModuleNotFoundError: No module named 'train_utils'")
    attempts = 5

    def draw(self, dice: np.random.Generator) -> None:
        super().draw(dice)
        self._fails_s = float(dice.uniform(10, 40))

    def opening(self, attempt: int) -> Opening | None:
        return Opening(fails_after_s=self._fails_s, ranks=self.ranks, exit_code=1, again=attempt < self.attempts)


class NoProgress(Trouble):
    """The same sample ends attempt after attempt some steps behind the same checkpoint."""

    kind, label, type = "no_progress", "data_pipeline", "no_progress_restart"
    also = ("crash", "restart_loop")
    stops = True
    attempts = 3

    def draw(self, dice: np.random.Generator) -> None:
        self.one_rank(dice)
        self.step = min(max(self.step or 0, self.plan.habits.checkpoint_every + 30), self.plan.steps - 5)

    def stop(self, attempt: int) -> Stop | None:
        if self.step is None or attempt > self.attempts:
            return None
        return Stop(
            self.step, "died", self.ranks, exit_code=1, after_s=8.0, reason="ValueError", again=attempt < self.attempts
        )

    def last_words(self, stopped_s: float, voice: Voice) -> Iterable[Text]:
        rank = self.ranks[0]
        yield voice.raw(stopped_s, rank, f"[rank{rank}]: Traceback (most recent call last):")
        yield voice.raw(stopped_s, rank, f"[rank{rank}]: ValueError: Caught ValueError in DataLoader worker process 1.")


class Pending(Trouble):
    """The job waits in the queue; ``magnitude`` is seconds."""

    kind, label, type = "pending", "unschedulable", "scheduling_delay"
    strengths = {"train": (3600.0, 4 * 3600.0), "test": (2000.0, 3600.0)}
    why = "Resources"

    def draw(self, dice: np.random.Generator) -> None:
        self.step = self.until = None

    def opening(self, attempt: int) -> Opening | None:
        if attempt:
            return None
        return Opening(waited_s=self.magnitude, why=self.why)

    def first_words(self, begun_s: float, attempt: int, voice: Voice) -> Iterable[Text]:
        if not attempt:
            yield voice.scheduler(0.0, f"{self.plan.job} gpu train alice PD 0:00 {self.plan.layout.nodes} (Resources)")


class ImagePull(Pending):
    """The container's image cannot be pulled for a long time."""

    kind, why = "image_pull", "ImagePullBackOff"

    def first_words(self, begun_s: float, attempt: int, voice: Voice) -> Iterable[Text]:
        if not attempt:
            yield voice.scheduler(60.0, "Warning  Failed  kubelet  Error: ImagePullBackOff")


class Idle(Trouble):
    """The job holds its devices and does nothing with them for ``magnitude`` seconds: a notebook left open."""

    kind, label, type = "idle", "hang_in_user_code", "idle_accelerators"
    also = ("hang", "duty_cycle", "input_bound", "slowdown")
    strengths = {"train": (1500.0, 3600.0), "test": (900.0, 1500.0)}

    def draw(self, dice: np.random.Generator) -> None:
        self.until = (self.step or 0) + 1

    def shape(self, block: Block) -> None:
        rows = self.strikes(block)
        block.seconds["data_wait"][rows] += self.magnitude

    def read(self, readings: "Readings") -> None:
        works = self.works_at(readings.instants)[:, None]
        cpu = readings.node["system/host/cpu"]
        cpu *= 1 - 0.9 * works


STARTS: list[type[Trouble]] = [
    Rendezvous, NameService, PortInUse, HubThrottles, RestartLoop, NoProgress, Pending, ImagePull, Idle,
]  # fmt: skip
