"""The queues of all Slurms that this server can ask, for many who ask: each question goes to Slurm once a second at most.

A cluster is one that was made here, by its name or by Slurm's, or ``host``: the Slurm of the server's own host.
"""

import threading
import time
from collections.abc import Callable
from typing import Any, Generic, TypeVar, cast

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
STALE_S = 15.0
"""Seconds for which an answer may still stand in while Slurm is asked again: longer than a command of a dead Slurm tries."""
NAME_S = 10.0
"""Seconds after which a Slurm that did not say its name is asked again: whoever names a cluster that is not there asks."""
_WINDOWS, _JOBS = 4, 64
"""Windows of history, and jobs with their launches, that are remembered at a time."""

K = TypeVar("K")
T = TypeVar("T")


class Remembered(Generic[T]):
    """An answer that is asked for once in a while, whoever wants it.

    Who comes while it is asked gets the last answer, or error, unless that is older than ``STALE_S``; then it waits for the
    new one. So a Slurm that does not answer holds up one thread, not all that want to know.
    """

    def __init__(self, ask: Callable[[], T], good_s: float, clock: Callable[[], float]) -> None:
        self._ask, self._good_s, self._clock = ask, good_s, clock
        self._asking = threading.Lock()
        self._last: tuple[float, T | None, StepwardError | None] | None = None
        self._changes = 0

    def get(self) -> T:
        """The answer; raises what asking raised."""
        last = self._last
        if last is None or self._clock() - last[0] >= self._good_s:
            recent = last is not None and self._clock() - last[0] < STALE_S
            if self._asking.acquire(blocking=not recent):
                try:
                    # Who has waited finds what the one before has just learned.
                    newer = self._last
                    last = self._asked() if newer is None or newer is last else newer
                finally:
                    self._asking.release()
        assert last is not None
        if last[2] is not None:
            raise last[2]
        return cast(T, last[1])

    def _asked(self) -> tuple[float, T | None, StepwardError | None]:
        changes, value, failure = self._changes, None, None
        try:
            value = self._ask()
        except StepwardError as error:
            failure = error
        answer = self._clock(), value, failure
        if changes == self._changes:
            self._last = answer
        return answer

    def forget(self) -> None:
        """Ask anew next time, and keep nothing of what is asked now: something was changed."""
        self._changes += 1
        self._last = None


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
        self._asked_name = Remembered(slurm.cluster, NAME_S, clock)
        self._jobs = Remembered(slurm.jobs, LIVE_S, clock)
        self._partitions = Remembered(slurm.partitions, LIVE_S, clock)
        self._nodes = Remembered(slurm.nodes, LIVE_S, clock)
        self._history: dict[int, Remembered[list[SlurmJob]]] = {}
        self._attempts: dict[str, Remembered[list[SlurmJob]]] = {}

    @property
    def slurm_name(self) -> str:
        """Slurm's ClusterName."""
        if self._slurm_name is None:
            self._slurm_name = self._asked_name.get()
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
        once: list[Remembered[Any]] = [self._jobs, self._partitions, self._nodes]
        for one in (*once, *self._history.values(), *self._attempts.values()):
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
        self._seen: dict[str, tuple[str | None, str]] = {}
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
            # What Slurm said before an operation, or in it, is not how the cluster is after it.
            seen = record.operation, record.state
            if self._seen.get(record.slurm_name) != seen:
                self._seen[record.slurm_name] = seen
                known.forget()
            return known

    def slurm_name(self, cluster: str) -> str:
        """Slurm's ClusterName of a cluster, by either of its names; a name that no Slurm has stands for itself."""
        try:
            return self.of(cluster).slurm_name
        except StepwardError:
            return cluster

    def _is_host(self, cluster: str) -> bool:
        try:
            return self._host.slurm_name == cluster
        except StepwardError:
            return False
