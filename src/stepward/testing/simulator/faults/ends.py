"""Faults that end an attempt at once, or after a while in which memory runs out."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from stepward.testing.simulator.layout import Floats
from stepward.testing.simulator.readings import HOST_B, MEMORY_B
from stepward.testing.simulator.trouble import Stop, Trouble
from stepward.testing.simulator.voice import Text, Voice

if TYPE_CHECKING:
    from stepward.testing.simulator.readings import Readings


class UserError(Trouble):
    """A bug in user code raises on one rank."""

    kind, label, type = "user_error", "user_code_index", "crash"
    stops = True
    errors: ClassVar[tuple[str, ...]] = (
        "RuntimeError: mat1 and mat2 shapes cannot be multiplied (8x4096 and 5120x4096)",
        "IndexError: index 50304 is out of bounds for dimension 0 with size 50257",
        "TypeError: forward() got an unexpected keyword argument 'attention_bias'",
    )

    def draw(self, dice: np.random.Generator) -> None:
        self.one_rank(dice)
        self._error = str(dice.choice(self.errors))

    def stop(self, attempt: int) -> Stop | None:
        if attempt or self.step is None:
            return None
        return Stop(self.step, "died", self.ranks, exit_code=1, after_s=9.0, reason=self._error, again=False)

    def last_words(self, stopped_s: float, voice: Voice) -> Iterable[Text]:
        rank = self.ranks[0]
        for line in ("Traceback (most recent call last):", '  File "/app/train.py", line 131, in step', self._error):
            yield voice.raw(stopped_s, rank, f"[rank{rank}]: {line}")


class LoaderDies(UserError):
    """A sample that cannot be read ends a worker of the loader, and its rank with it."""

    kind, label = "loader_dies", "data_pipeline"
    errors = (
        "pyarrow.lib.ArrowInvalid: Parquet magic bytes not found in footer. Either the file is corrupted or this is "
        "not a parquet file.",
        "PIL.UnidentifiedImageError: cannot identify image file '/data/shard-0412/000123.jpg'",
    )

    def last_words(self, stopped_s: float, voice: Voice) -> Iterable[Text]:
        rank = self.ranks[0]
        head = self._error.split(":")[0].rsplit(".", 1)[-1]
        for line in (
            "Traceback (most recent call last):",
            f"{head}: Caught {head} in DataLoader worker process 3.",
            "Original Traceback (most recent call last):",
            '  File "/app/data.py", line 57, in __getitem__',
            self._error,
        ):
            yield voice.raw(stopped_s, rank, f"[rank{rank}]: {line}")


class SegmentationFault(Trouble):
    """A native library of one rank crashes."""

    kind, label, type = "segfault", "framework_bug", "crash"
    stops = True

    def draw(self, dice: np.random.Generator) -> None:
        self.one_rank(dice)

    def stop(self, attempt: int) -> Stop | None:
        if attempt or self.step is None:
            return None
        return Stop(self.step, "died", self.ranks, signal="SIGSEGV", after_s=9.0, state="crashed", reason="signal 11")

    def last_words(self, stopped_s: float, voice: Voice) -> Iterable[Text]:
        rank = self.ranks[0]
        yield voice.raw(stopped_s, rank, "Fatal Python error: Segmentation fault")
        yield voice.kernel(
            stopped_s, self.nodes[0],
            f"pt_main_thread[{voice.pid(rank)}]: segfault at 7f797fe00000 ip 00007f7c7ac69996 sp 00007f7c12fd7c30 "
            "error 4 in libnccl.so.2[7f7c7ac00000+d3d3000]",
        )  # fmt: skip


class HostMemory(Trouble):
    """A rank's process grows until the kernel ends it; ``magnitude`` is the share of the host's memory that it takes."""

    kind, label, type = "host_oom", "host_oom", "oom"
    also = ("memory_growth", "crash")
    stops = True
    strengths = {"train": (0.6, 0.85), "test": (0.5, 0.7)}
    lasts = 220

    def draw(self, dice: np.random.Generator) -> None:
        self.one_rank(dice)
        self._lasts = min(self.lasts, self.plan.steps // 3)
        self.step = min(self.step or 0, self.plan.steps - self._lasts - 5)
        self._stopped_s = np.inf

    def grown(self, instants: Floats) -> Floats:
        """Share of the free memory that it has taken by each instant; 0 once its process is gone."""
        if self.began_s is None:
            return np.zeros(len(instants))
        part = np.clip((instants - self.began_s) / (self._lasts * self.plan.step_s), 0.0, 1.0)
        return np.where(instants < self._stopped_s, part, 0.0)

    def read(self, readings: "Readings") -> None:
        nodes = list(self.nodes)
        used = readings.node["system/host/memory_used"]
        grown = self.grown(readings.instants)[:, None] * (HOST_B * 0.99 - used[:, nodes])
        readings.process["system/process/rss"][:, list(self.ranks)] += grown
        used[:, nodes] += grown

    def stop(self, attempt: int) -> Stop | None:
        if attempt or self.step is None:
            return None
        return Stop(
            self.step + self._lasts,
            "died",
            self.ranks,
            signal="SIGKILL",
            after_s=9.0,
            state="oom",
            reason="out of memory",
        )

    def last_words(self, stopped_s: float, voice: Voice) -> Iterable[Text]:
        self._stopped_s = stopped_s
        pid, size = voice.pid(self.ranks[0]), round(self.magnitude * HOST_B / 1024)
        yield voice.kernel(
            stopped_s, self.nodes[0],
            f"Memory cgroup out of memory: Killed process {pid} (python3) total-vm:{size * 2}kB, anon-rss:{size}kB",
        )  # fmt: skip
        yield voice.launcher(
            stopped_s + 1.0,
            f"slurmstepd: error: Detected 1 oom_kill event in StepId={self.plan.job}.0. Some of the step tasks have been "
            "OOM Killed.",
        )  # fmt: skip


class DeviceMemory(HostMemory):
    """Batches get longer until one does not fit into a device."""

    kind, label = "gpu_oom", "gpu_oom"
    lasts = 60

    def read(self, readings: "Readings") -> None:
        memory, ranks = readings.device["memory_used"], list(self.ranks)
        memory[:, ranks] += self.grown(readings.instants)[:, None] * (0.985 * MEMORY_B - memory[:, ranks])

    def stop(self, attempt: int) -> Stop | None:
        if attempt or self.step is None:
            return None
        return Stop(
            self.step + self._lasts,
            "died",
            self.ranks,
            exit_code=1,
            after_s=9.0,
            reason="OutOfMemoryError",
            again=False,
        )

    def last_words(self, stopped_s: float, voice: Voice) -> Iterable[Text]:
        self._stopped_s = stopped_s
        rank = self.ranks[0]
        local = rank % self.plan.layout.per_node
        yield voice.raw(stopped_s, rank, f"[rank{rank}]: Traceback (most recent call last):")
        yield voice.raw(
            stopped_s, rank,
            f"[rank{rank}]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU {local} has a "
            f"total capacity of 79.11 GiB of which 1.02 GiB is free. Process {voice.pid(rank)} has 78.08 GiB memory in use.",
        )  # fmt: skip


class NodeLoss(Trouble):
    """A node is gone with all that was on it; the scheduler notices after its time-out."""

    kind, label, type = "node_loss", "node_failure", "crash"
    also = ("hang", "telemetry_gap", "hardware_fault")
    stops = True

    def draw(self, dice: np.random.Generator) -> None:
        self.one_node(dice)
        self._after_s = float(dice.uniform(60, 300))

    def stop(self, attempt: int) -> Stop | None:
        if attempt or self.step is None:
            return None
        return Stop(
            self.step, "vanished", self.ranks, after_s=self._after_s, peers="signal", state="lost", reason="NODE_FAIL"
        )

    def last_words(self, stopped_s: float, voice: Voice) -> Iterable[Text]:
        noticed, node = stopped_s + self._after_s, self.plan.layout.node(self.nodes[0])
        yield voice.scheduler(noticed, f"slurmctld: error: Nodes {node} not responding, setting DOWN")
        yield voice.launcher(
            noticed + 0.5,
            f"slurmstepd: error: *** JOB {self.plan.job} ON {node} CANCELLED AT {voice.clock(noticed):%Y-%m-%dT%H:%M:%S} "
            "DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***",
        )  # fmt: skip


class Told(Trouble):
    """Base: the scheduler ends the job."""

    stops = True
    state, word = "preempted", "PREEMPTION"

    def draw(self, dice: np.random.Generator) -> None:
        self._grace_s = float(dice.uniform(5, 30))

    def stop(self, attempt: int) -> Stop | None:
        if attempt or self.step is None:
            return None
        return Stop(
            self.step, "told", (), signal="SIGTERM", after_s=self._grace_s, peers="signal", state=self.state,
            reason=self.state.upper(), again=self.state == "preempted",
        )  # fmt: skip

    def last_words(self, stopped_s: float, voice: Voice) -> Iterable[Text]:
        node = self.plan.layout.node(0)
        yield voice.launcher(
            stopped_s,
            f"slurmstepd: error: *** JOB {self.plan.job} ON {node} CANCELLED AT {voice.clock(stopped_s):%Y-%m-%dT%H:%M:%S} "
            f"DUE TO {self.word} ***",
        )  # fmt: skip
        for rank in range(self.plan.layout.ranks):
            yield voice.log(stopped_s + 0.2, rank, "got signal 15, stopping after this step", "WARNING")


class Preemption(Told):
    """A job of higher priority takes the nodes."""

    kind, label, type = "preemption", "preemption", "preemption"
    also = ("crash",)


class TimeLimit(Told):
    """The job's time is over: a cause, but no event beside the end itself."""

    kind, label = "time_limit", "scheduler_limit"
    also = ("preemption", "crash")
    state, word = "timeout", "TIME LIMIT"


ENDS: list[type[Trouble]] = [
    UserError, LoaderDies, SegmentationFault, HostMemory, DeviceMemory, NodeLoss, Preemption, TimeLimit,
]  # fmt: skip
