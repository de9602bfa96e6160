"""What the handlers work with: one object, put together in ``stepward.server.app`` and nowhere else."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

import msgspec
from litestar.di import NamedDependency

from stepward.api.accounts import Accounts
from stepward.api.live import LiveHub
from stepward.clusters.fleet import Fleet
from stepward.clusters.queues import Queues
from stepward.ingest.hearing import Hearing
from stepward.ingest.ingestor import Ingestor
from stepward.model.resources import Backup
from stepward.observe.diagnosing import Diagnosing
from stepward.observe.observer import Observer
from stepward.observe.reprocess import Reprocessor
from stepward.observe.rules import UserRules
from stepward.respond.notices.notifier import Notifier
from stepward.respond.notices.routes import Routes
from stepward.store.catalog import Access, Claims, Edits, Retention, Runs
from stepward.store.catalog.actions import Actions
from stepward.store.catalog.diagnoses import Diagnoses
from stepward.store.catalog.events import StoredEvents
from stepward.store.catalog.nodes import Nodes
from stepward.store.catalog.notices import Outbox
from stepward.store.logs import LogStore
from stepward.store.points.protocol import PointsStore


class Waiting:
    """Frames that have arrived and are not committed yet, and how many there were: for leases and ``/metrics``."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._arrivals: dict[int, int] = {}
        self._next = 0
        self.frames = 0
        self.bytes = 0
        self.refused = 0

    @contextmanager
    def frame(self, size: int) -> Iterator[None]:
        """Around the handling of one frame."""
        self._next += 1
        key = self._next
        self._arrivals[key] = self._clock()
        try:
            yield
            self.frames += 1
            self.bytes += size
        except BaseException:
            self.refused += 1
            raise
        finally:
            del self._arrivals[key]

    def since(self) -> int | None:
        """Arrival of the oldest frame that waits, µs since the epoch."""
        return min(list(self._arrivals.values()), default=None)

    def __len__(self) -> int:
        return len(self._arrivals)


class Parts(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a server.

    Attributes:
        clock: µs since the epoch.
        version: of the product.
        started_at: µs since the epoch.
        url: where people reach the server, root path included.
        cookie: name of the session cookie; cookies are not kept apart by port, so it holds the port.
        cookie_path: the root path, or ``/``.
        origins: hosts from which a browser may write, beside the host that it asks; as in ``Host``.
        problems: what the server cannot do now, in words.
        backup: writes a backup into a folder (None: a new one below the data folder).
    """

    clock: Callable[[], int]
    version: str
    started_at: int
    url: str
    cookie: str
    cookie_path: str
    origins: frozenset[str]
    runs: Runs
    events: StoredEvents
    diagnoses: Diagnoses
    diagnosing: Diagnosing
    outbox: Outbox
    notice_routes: Routes
    notifier: Notifier
    rules: UserRules
    observer: Observer
    reprocessor: Reprocessor
    edits: Edits
    claims: Claims
    retention: Retention
    access: Access
    points: PointsStore
    logs: LogStore
    accounts: Accounts
    ingestor: Ingestor
    hearing: Hearing
    waiting: Waiting
    live: LiveHub
    nodes: Nodes
    queues: Queues
    actions: Actions
    clusters: Fleet
    problems: Callable[[], list[str]]
    backup: Callable[[str | None], Backup]


Given: TypeAlias = NamedDependency[Parts]
"""The parts, as a parameter of a handler."""
