"""How the parts of a job write their lines: trainers, kernels, launchers and schedulers, each with its node's own clock."""

from datetime import UTC, datetime
from typing import NamedTuple

from stepward.testing.simulator.noise import stream
from stepward.testing.simulator.plan import Plan


class Text(NamedTuple):
    """A line that somebody wrote; ``time`` (µs) is the true one, the clock in the text its node's.

    ``source`` is ``log`` (output of a rank, or of the launcher where ``rank`` is None), ``kernel`` or ``scheduler``.
    """

    time: int
    attempt: str
    rank: int | None
    node: str
    source: str
    text: str


class Voice:
    """Makes the lines of one run.

    Attributes:
        attempt: key of the attempt that speaks now.
        kernel_form: 2 where kernel lines name no node, so that each node's have to be kept apart.
    """

    def __init__(self, plan: Plan) -> None:
        dice = stream(plan.seed, "voice")
        self._plan = plan
        self._origin = plan.start_s
        self._form = int(dice.integers(4))
        self.kernel_form = int(dice.integers(3))
        skew = plan.telemetry.skew_s
        self._skews = dice.uniform(-skew, skew, plan.layout.nodes).tolist()
        self.attempt = "0"

    def at(self, seconds: float) -> int:
        """µs since the epoch of an instant of the run."""
        return self._origin * 1_000_000 + round(seconds * 1e6)

    def log(self, seconds: float, rank: int, text: str, level: str = "INFO") -> Text:
        """A line of a rank's own logger; several lines of text are one entry."""
        number = rank // self._plan.layout.per_node
        clock = self._clock(seconds, number)
        head = (
            f"{clock:%Y-%m-%d %H:%M:%S},{clock.microsecond // 1000:03d} {level} trainer: ",
            f"[{clock:%Y-%m-%d %H:%M:%S}] {level.lower()} | ",
            f"{clock:%Y-%m-%dT%H:%M:%S}.{clock.microsecond // 1000:03d}Z [{level}] ",
            f"{level[0]} {clock:%Y-%m-%d %H:%M:%S} train.py] ",
        )[self._form]
        return self.raw(seconds, rank, head + text)

    def raw(self, seconds: float, rank: int, text: str) -> Text:
        """Output of a rank as it stands: a traceback, a library's own line."""
        return Text(self.at(seconds), self.attempt, rank, self._plan.layout.node_of(rank), "log", text)

    def nccl(self, seconds: float, rank: int, text: str) -> Text:
        """A line of the collective library, which names host, process, thread and device."""
        node, local = self._plan.layout.node_of(rank), rank % self._plan.layout.per_node
        return self.raw(seconds, rank, f"{node}:{self.pid(rank)}:{self.pid(rank) + 311} [{local}] NCCL {text}")

    def torch(self, seconds: float, rank: int, level: str, place: str, text: str) -> Text:
        """A line of the C++ side of a trainer's framework."""
        clock = self._clock(seconds, rank // self._plan.layout.per_node)
        stamp = f"{level}{clock.month}{clock.day:02d} {clock:%H:%M:%S}.{clock.microsecond:06d}000"
        return self.raw(seconds, rank, f"[rank{rank}]:[{stamp} {place}] {text}")

    def launcher(self, seconds: float, text: str) -> Text:
        """A line of whatever started the ranks."""
        return Text(self.at(seconds), self.attempt, None, self._plan.layout.node(0), "log", text)

    def kernel(self, seconds: float, node: int, text: str) -> Text:
        """A line of a node's kernel log: of a syslog, of a journal, or as dmesg shows it, with the node's uptime alone."""
        clock, name = self._clock(seconds, node), self._plan.layout.node(node)
        head = (
            f"{clock:%b %e %H:%M:%S} {name} kernel: ",
            f"{clock:%Y-%m-%dT%H:%M:%S}.{clock.microsecond:06d}+00:00 {name} kernel: ",
            f"[{seconds + 86_400.0 * (3 + node % 40):14.6f}] ",
        )[self.kernel_form]
        return Text(self.at(seconds), self.attempt, None, name, "kernel", head + text)

    def scheduler(self, seconds: float, text: str) -> Text:
        """A line of the scheduler's own state or log."""
        return Text(self.at(seconds), self.attempt, None, "", "scheduler", text)

    def clock(self, seconds: float) -> datetime:
        """The time of day that a right clock shows."""
        return datetime.fromtimestamp(self._origin + seconds, UTC)

    def pid(self, rank: int) -> int:
        """Process id of a rank."""
        return 20_000 + 37 * int(self.attempt) + 113 * (rank + 1)

    def _clock(self, seconds: float, node: int) -> datetime:
        return self.clock(seconds + self._skews[node])
