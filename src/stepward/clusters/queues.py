"""The queues of all Slurms that this server can ask, for many who ask: each question goes to Slurm once a second at most.

A cluster is one that was made here, by its name or by Slurm's, or ``host``: the Slurm of the server's own host.
"""

import threading
import time
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from stepward.clusters.providers.local.layout import Layout
from stepward.clusters.record import Records
from stepward.errors import NotFound, StepwardError
from stepward.orchestrators.slurm.commands import Slurm
from stepward.orchestrators.slurm.records import SlurmJob, SlurmNode, SlurmPartition

HOST = "host"
"""The cluster that is the Slurm of the server's own host."""
LIVE_S = 1.0
"""Seconds that an answer of the controller is good for."""
HISTORY_S = 5.0
"""Seconds that an answer of accounting is good for: it costs a query of its database."""
_WINDOWS, _JOBS = 4, 64
"""Windows of history, and jobs with their launches, that are remembered at a time."""

K = TypeVar("K")
T = TypeVar("T")


class Remembered(Generic[T]):
    """An answer that is asked for once in a while, whoever wants it: who comes meanwhile waits for that one, or its error."""

    def __init__(self, ask: Callable[[], T], good_s: float, clock: Callable[[], float]) -> None:
        self._ask, self._good_s, self._clock = ask, good_s, clock
        self._lock = threading.Lock()
        self._until = float("-inf")
        self._value: T
        self._error: StepwardError | None = None

    def get(self) -> T:
        """The answer, not older than it may be; raises what asking raised."""
        with self._lock:
            if self._clock() >= self._until:
                try:
                    self._value, self._error = self._ask(), None
                except StepwardError as error:
                    self._error = error
                self._until = self._clock() + self._good_s
            if self._error is not None:
                raise self._error
            return self._value

    def forget(self) -> None:
        """Ask anew next time: something was changed."""
        with self._lock:
            self._until = float("-inf")


class Queue:
    """The queue of one Slurm. ``slurm`` asks and changes it directly; the other methods remember.

    Args:
        name: as this server calls the cluster.
        slurm_name: Slurm's ClusterName where it is known, as in run keys; None to ask for it.
    """

    def __init__(
        self, name: str, slurm: Slurm, slurm_name: str | None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.name, self.slurm = name, slurm
        self._slurm_name = slurm_name
        self._clock = clock
        self._jobs = Remembered(slurm.jobs, LIVE_S, clock)
        self._partitions = Remembered(slurm.partitions, LIVE_S, clock)
        self._nodes = Remembered(slurm.nodes, LIVE_S, clock)
        self._history: dict[int, Remembered[list[SlurmJob]]] = {}
        self._attempts: dict[str, Remembered[list[SlurmJob]]] = {}

    @property
    def slurm_name(self) -> str:
        """Slurm's ClusterName."""
        if self._slurm_name is None:
            self._slurm_name = self.slurm.cluster()
        return self._slurm_name

    def jobs(self) -> list[SlurmJob]:
        """What ``Slurm.jobs`` answers."""
        return self._jobs.get()

    def partitions(self) -> list[SlurmPartition]:
        """What ``Slurm.partitions`` answers."""
        return self._partitions.get()

    def nodes(self) -> list[SlurmNode]:
        """What ``Slurm.nodes`` answers."""
        return self._nodes.get()

    def history(self, span_us: int, now: int) -> list[SlurmJob]:
        """What ``Slurm.history`` answers of the last ``span_us``; ``now`` is µs since the epoch."""
        began = self._clock()

        def ask() -> list[SlurmJob]:
            return self.slurm.history(now + int((self._clock() - began) * 1e6) - span_us)

        return _known(self._history, span_us, _WINDOWS, lambda: Remembered(ask, HISTORY_S, self._clock)).get()

    def attempts(self, job: str) -> list[SlurmJob]:
        """What ``Slurm.attempts`` answers of a job."""
        return _known(
            self._attempts, job, _JOBS, lambda: Remembered(lambda: self.slurm.attempts(job), LIVE_S, self._clock)
        ).get()

    def forget(self) -> None:
        """Ask anew next time."""
        every: list[Remembered[Any]] = [self._jobs, self._nodes, *self._history.values(), *self._attempts.values()]
        for one in every:
            one.forget()


def _known(known: dict[K, Remembered[T]], key: K, most: int, make: Callable[[], Remembered[T]]) -> Remembered[T]:
    """What is remembered under a key; the oldest entry goes where there are too many."""
    found = known.get(key)
    if found is None:
        while len(known) >= most:
            known.pop(next(iter(known)), None)
        found = known[key] = make()
    return found


class Queues:
    """The queues of a server.

    Args:
        records: of the clusters that were made here.
        host: the Slurm of this host.
    """

    def __init__(self, records: Records, host: Slurm | None = None) -> None:
        self._records = records
        self._host = Queue(HOST, host or Slurm(), None)
        self._known: dict[str, Queue] = {}
        self._lock = threading.Lock()

    def of(self, cluster: str) -> Queue:
        """The queue of a cluster.

        Raises:
            NotFound: ``no_such_cluster``.
        """
        if cluster == HOST:
            return self._host
        try:
            record = self._records.find(cluster)
        except NotFound:
            if self._is_host(cluster):
                return self._host
            raise
        with self._lock:
            # A name may be used again for another cluster; Slurm's name never is.
            known = self._known.get(record.slurm_name)
            if known is None:
                conf = Layout(self._records.folder(record.name)).conf
                known = self._known[record.slurm_name] = Queue(record.name, Slurm(conf), record.slurm_name)
            return known

    def _is_host(self, cluster: str) -> bool:
        try:
            return self._host.slurm_name == cluster
        except StepwardError:
            return False
