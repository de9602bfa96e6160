"""What an agent writes down, for as long as it runs: journals that follow each other, and one in memory for the worst day.

Names of series stay in memory as long as their journal is open, and jobs and exporters bring new ones for ever: after
``MOST_SERIES`` a new journal is begun. Where the disk takes nothing more, heartbeats go through a small spool in memory,
since a node whose disk is full is ill, not dead.
"""

import os
from collections.abc import Sequence

from stepward.agent.plan import Plan
from stepward.collect.readings import Reading
from stepward.collect.sampler import sample_step
from stepward.launch.output import StreamLog
from stepward.launch.record import Record, now_us
from stepward.launch.shipping import Shipping
from stepward.model.frames import Config, Event, Events, LogChunk
from stepward.model.states import Exit, Witness
from stepward.spool import roots
from stepward.spool.journal import CAP_BYTES

MOST_SERIES = 20_000
KERNEL_STREAM = "kernel"
MEMORY_ROOT = "/dev/shm"
MEMORY_BYTES = 4 << 20


class NodeRecord:
    """The records of one agent. Safe to write to from several threads.

    Args:
        memory: folder in memory for the spool of the last resort.
    """

    def __init__(self, plan: Plan, *, memory: str = MEMORY_ROOT, cap_bytes: int = CAP_BYTES) -> None:
        self._plan, self._cap_bytes = plan, cap_bytes
        self._memory_root = f"{memory}/stepward-{os.getuid()}"
        self._record = self._new()
        self._kernel = StreamLog(KERNEL_STREAM, None, self._keep_log)
        self._shipping = Shipping(plan.settings, plan.root, plan.run)
        self._memory: tuple[Record, Shipping] | None = None

    def start(self) -> None:
        """Begin to send."""
        self._shipping.start()

    def beat(self) -> None:
        """Keep a heartbeat, in memory where the disk does not take it."""
        if self._record.series > MOST_SERIES:
            self._roll()
        if self._record.status():
            return
        if self._memory is None:
            root = roots.resolve(self._memory_root) or self._memory_root
            record = Record(root, self._plan.writer(now_us()), cap_bytes=MEMORY_BYTES)
            self._memory = record, Shipping(self._plan.settings, root, self._plan.run)
            self._memory[1].start()
        self._memory[0].status()

    def readings(self, readings: Sequence[Reading], at: int) -> None:
        """Keep the readings of one moment as one row."""
        self._record.readings(readings, sample_step(at), at)

    def config(self, config: Config) -> None:
        """Keep what is known of the node."""
        self._record.config(config)

    def event(self, event: Event) -> None:
        """Keep an event of the node."""
        self._record.emit("events", Events([event]))

    def kernel(self, lines: Sequence[tuple[int, str]]) -> None:
        """Keep lines of the kernel's log, each with when it was written (µs since the epoch)."""
        data, marks = bytearray(), list[tuple[int, int]]()
        for at, line in lines:
            marks.append((len(data), at))
            data += f"{line}\n".encode()
        if lines:
            self._kernel.feed_marked(bytes(data), marks)

    def finish(self) -> None:
        """The agent ends as it was told to; send what is left."""
        self._record.exit(Exit(at=now_us(), by=Witness.SDK, exit_code=0, reason="the agent was stopped"))
        self._record.close()
        self._shipping.finish()
        if self._memory is not None:
            self._memory[0].close()
            self._memory[1].finish()

    def _new(self) -> Record:
        return Record(self._plan.root, self._plan.writer(now_us()), cap_bytes=self._cap_bytes)

    def _roll(self) -> None:
        before, self._record = self._record, self._new()
        self._record.config(Config(key=self._plan.key, name=self._plan.node))
        # A new writer's streams begin at 0.
        self._kernel = StreamLog(KERNEL_STREAM, None, self._keep_log)
        before.close()

    def _keep_log(self, chunk: LogChunk) -> bool:
        return self._record.logs(chunk)
