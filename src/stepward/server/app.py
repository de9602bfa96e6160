"""The server: the only place where its parts are wired. ``create_app`` puts them together, ``serving`` runs them.

A server owns its data folder, listens on loopback unless told otherwise, and ends within 10 s of SIGTERM.
"""

import asyncio
import contextlib
import getpass
import logging
import os
import shutil
import socket
import time
from collections.abc import Sequence
from typing import cast

import msgspec
from litestar import Litestar

import stepward
from stepward.api.accounts import Accounts
from stepward.api.door import LOOPBACK, ASGIApp, Door
from stepward.api.ledger_events import LedgerEvents
from stepward.api.live import LiveHub
from stepward.api.parts import Parts, Waiting
from stepward.api.points import newest_survivor
from stepward.api.routes import application
from stepward.api.session import login_url
from stepward.clusters.fleet import Fleet
from stepward.clusters.health import HealthWatch, watched_clusters
from stepward.clusters.queues import Queues
from stepward.detect.signals import Detected
from stepward.errors import StepwardError
from stepward.goodput.ledger import VERSION as LEDGER_VERSION
from stepward.ingest.hearing import Hearing
from stepward.ingest.ingestor import Ingestor
from stepward.ingest.protocols import Applier
from stepward.model.frames import Event
from stepward.model.resources import Backup
from stepward.observe.diagnosing import Diagnosing
from stepward.observe.inputs import Gathering
from stepward.observe.lines import LineReader
from stepward.observe.observer import Observer
from stepward.observe.replay import Replay
from stepward.observe.reprocess import Reprocessor
from stepward.observe.rules import UserRules
from stepward.respond.notices.describing import Describing
from stepward.respond.notices.notifier import Notifier
from stepward.respond.notices.routes import Routes
from stepward.respond.restarting import Restarting
from stepward.server.backup import backup, remove_unfinished
from stepward.server.folder import DataFolder
from stepward.server.interface import interface
from stepward.server.moves import Moves
from stepward.server.reporting import Reporting
from stepward.server.retention import Sweeper
from stepward.server.worker import repeat_until, tick_until
from stepward.store.catalog import (
    Access,
    CatalogApplier,
    Change,
    Claims,
    Edits,
    Mending,
    Retention,
    Runs,
    open_database,
)
from stepward.store.catalog.actions import Actions
from stepward.store.catalog.detected import DetectedEvents
from stepward.store.catalog.diagnoses import Diagnoses
from stepward.store.catalog.events import StoredEvents, tell
from stepward.store.catalog.ledgers import Ledgers
from stepward.store.catalog.nodes import Nodes
from stepward.store.catalog.notices import Outbox
from stepward.store.catalog.restarts import restart_facts
from stepward.store.catalog.rules import StoredRules
from stepward.store.logs import LogStore
from stepward.store.points.duckdb import DuckDBPoints

DEFAULT_PORT = 7070
FIRST_LINK_S = 86_400.0
"""The link that ``up`` prints works once, within a day."""
LOW_DISK_BYTES = 256 << 20
RESTARTS_S = 2.0
"""Pause between two looks at the jobs of clusters whose restart policy is on."""
TEND_S = 3.0
"""Pause between two looks at the daemons of the clusters."""


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How to serve.

    Attributes:
        data: the data folder.
        host, port: where to listen; port 0 picks a free one.
        root_path: path below which a proxy serves this server, such as ``/stepward``.
        allowed_hosts: further names by which it may be asked for, as behind a proxy.
        force: accept a data folder on a network file system.
    """

    data: str = ""
    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    root_path: str = ""
    allowed_hosts: tuple[str, ...] = ()
    force: bool = False

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach the server."""
        return self.host.lower() in LOOPBACK


def default_data() -> str:
    """The data folder of a user who names none."""
    home = os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")
    return f"{home}/stepward"


def now_us() -> int:
    """The server's clock, µs since the epoch."""
    return time.time_ns() // 1000


class Server:
    """A wired server on an open data folder.

    Raises:
        StepwardError: what ``DataFolder`` and the stores raise; the folder is let go again.
    """

    def __init__(self, settings: ServerSettings) -> None:
        self.settings = settings
        self._ended = asyncio.Event()
        self._working: asyncio.Future[tuple[None, None, None, None]] | None = None
        self.folder = DataFolder(settings.data or default_data(), force=settings.force)
        remove_unfinished(self.folder.path)
        try:
            self.parts = self._wire()
        except BaseException:
            self.folder.close()
            raise

    def _wire(self) -> Parts:
        data, started_at = self.folder.path, now_us()
        self.catalog = open_database(f"{data}/catalog.db")
        points, logs = DuckDBPoints(data), LogStore(data)

        def listener(changes: Sequence[Change]) -> None:
            live.publish(changes)
            self.diagnosing.follow_changes(changes)

        hearing = Hearing(started_at)
        runs = Runs(self.catalog, hearing, now_us)
        heard_until = runs.heard_until()
        if heard_until is not None:
            hearing.outage(heard_until, started_at)
        live = LiveHub(runs.many, logs.line_counts)
        access = Access(self.catalog, now_us)
        self.local = access.set_local(self.folder.token(), getpass.getuser())
        # The catalog comes last: who is told of new output by it finds it in the log store.
        self.mending = Mending(self.catalog, runs, lambda head, metric: newest_survivor(points, head, metric), listener)
        self.moves = Moves()
        catalog = CatalogApplier(self.catalog, hearing, listener, self.mending.note, self.moves.note)
        appliers: list[Applier] = [logs, catalog]
        lines, detected = LineReader(logs), DetectedEvents(self.catalog, listener)
        nodes = Nodes(self.catalog, listener, runs.of_jobs)
        diagnoses = Diagnoses(self.catalog)
        outbox = Outbox(self.catalog)
        self.routes = Routes(data, outbox, logging.getLogger("stepward.notices").warning)
        self.notifier = Notifier(outbox, self.routes, Describing(runs, diagnoses), lambda: self.url, now_us)
        self.diagnosing = Diagnosing(
            Gathering(points, logs, detected, nodes), diagnoses, logs, now_us, ended=self.notifier.follow_end
        )

        def seen(project: str, run: str, events: Sequence[Detected]) -> None:
            self.diagnosing.follow_events(project, run, events)
            self.notifier.follow_events(project, run, events)

        rules = UserRules(StoredRules(self.catalog), now_us)
        self.observer = Observer(
            Replay(points, lines, detected),
            lines,
            detected,
            now_us,
            rules=rules.of,
            watcher=seen,
        )
        # With a reader of its own: one is used by one thread.
        self.reprocessor = Reprocessor(
            Replay(points, LineReader(logs), detected), detected, rules.of, self.observer, now_us
        )
        ledgers = Ledgers(self.catalog, LEDGER_VERSION)
        reporting = Reporting(access, self.url)
        fleet = Fleet(data, now_us, server=reporting.server, ended=reporting.forget)
        managed = fleet.records
        actions = Actions(self.catalog, now_us)
        queues = Queues(managed)

        def say(run: str, event: Event) -> None:
            project = tell(self.catalog, listener, run, event)
            if project is not None:
                self.notifier.follow_own(project, run, event)

        self.restarting = Restarting(
            lambda: {name: spec.restarts for name, spec in watched_clusters(managed).items()},
            queues=queues,
            facts=lambda of: restart_facts(self.catalog, of),
            of_jobs=runs.of_jobs,
            actions=actions,
            tell=say,
            clock=now_us,
        )
        self.health = HealthWatch(
            lambda: {name: spec.health for name, spec in watched_clusters(managed).items()},
            nodes=nodes,
            queues=queues,
            actions=actions,
            hearing=hearing,
            clock=now_us,
        )
        return Parts(
            clock=now_us,
            version=stepward.__version__,
            started_at=started_at,
            url=self.url,
            cookie=f"stepward_{self.settings.port}",
            cookie_path=self.root_path or "/",
            origins=frozenset(self.settings.allowed_hosts),
            runs=runs,
            events=StoredEvents(self.catalog),
            diagnoses=diagnoses,
            diagnosing=self.diagnosing,
            outbox=outbox,
            notice_routes=self.routes,
            notifier=self.notifier,
            rules=rules,
            observer=self.observer,
            reprocessor=self.reprocessor,
            edits=Edits(self.catalog, hearing, now_us, listener),
            claims=Claims(self.catalog),
            retention=Retention(self.catalog, now_us),
            access=access,
            points=points,
            logs=logs,
            accounts=Accounts(ledgers, LedgerEvents(ledgers, points, logs), now_us),
            ingestor=Ingestor(points, appliers, now_us, follow=self.observer.follow),
            hearing=hearing,
            waiting=Waiting(now_us),
            nodes=nodes,
            queues=queues,
            actions=actions,
            live=live,
            clusters=fleet,
            problems=self._problems,
            backup=self._backup,
        )

    @property
    def root_path(self) -> str:
        """The root path with a leading and without a trailing slash, or nothing."""
        path = self.settings.root_path.strip("/")
        return f"/{path}" if path else ""

    @property
    def url(self) -> str:
        """Where people of this machine reach the server."""
        host = self.settings.host
        shown = "127.0.0.1" if host == "0.0.0.0" else "[::1]" if host == "::" else f"[{host}]" if ":" in host else host
        return f"http://{shown}:{self.settings.port}{self.root_path}"

    def app(self) -> Litestar:
        """The application; its life is the server's."""
        return application(
            self.parts,
            more=interface(self.root_path),
            on_startup=[self._start],
            on_shutdown=[self._stop],
        )

    def door(self) -> Door:
        """The application behind its door."""
        hosts = {*self.settings.allowed_hosts, self.settings.host}
        if not self.settings.loopback:
            hosts |= {socket.gethostname(), socket.getfqdn()}
        return Door(
            cast(ASGIApp, self.app()), root_path=self.root_path, hosts=hosts, addresses=not self.settings.loopback
        )

    def login_link(self) -> str:
        """A one-time link for the user who started the server."""
        secret, _ = self.parts.access.new_link(self.local, FIRST_LINK_S)
        return login_url(self.url, secret)

    def finish_deletions(self) -> None:
        """Delete what a crash in the middle of a deletion, or a frame that was on its way then, has left of a run."""
        parts = self.parts
        for project in parts.points.projects():
            stored = {writer: position.run for writer, position in parts.points.positions(project).items()}
            for run in parts.edits.half_deleted(project, stored):
                parts.logs.delete_run(project, run)
                parts.points.delete_run(project, run)

    def clear_moved(self) -> None:
        """Delete the runs that stood for jobs which turned out to have runs of their own."""
        self.moves.clear(self.parts)

    async def _start(self) -> None:
        self.moves.resume(self.parts)
        sweeper = Sweeper(self.parts)
        await self.parts.live.start()
        await asyncio.to_thread(self.observer.start)
        self.diagnosing.start()
        self.notifier.start()
        self.reprocessor.start()
        clockwork = asyncio.create_task(
            tick_until(
                self.parts,
                self._ended,
                each_second=[
                    self.parts.edits.judge_live,
                    self.mending.mend,
                    self.parts.accounts.settle,
                    sweeper.sweep,
                    self.clear_moved,
                ],
                each_minute=[self.parts.access.remember_use, self.catalog.tidy, self.finish_deletions, sweeper.look],
            )
        )

        # Apart from the clockwork: a Slurm that does not answer holds nobody else up.
        self._working = asyncio.gather(
            clockwork,
            repeat_until(self._ended, self.health.look),
            repeat_until(self._ended, self.restarting.look, RESTARTS_S),
            repeat_until(self._ended, self.parts.clusters.tend, TEND_S),
        )

    async def _stop(self) -> None:
        self._ended.set()
        await self.parts.live.stop()
        if self._working is not None:  # None where the start itself has failed
            await self._working
        await self.parts.ingestor.stop()
        await asyncio.to_thread(self.reprocessor.stop)
        await asyncio.to_thread(self.observer.stop)
        await asyncio.to_thread(self.diagnosing.stop)
        await asyncio.to_thread(self.notifier.stop)
        await asyncio.to_thread(self.close)

    def close(self) -> None:
        """Close the stores and let go of the data folder."""
        with contextlib.suppress(StepwardError):
            self.parts.access.remember_use()
        self.parts.points.close()
        self.parts.logs.close()
        self.catalog.close()
        self.folder.close()

    def _problems(self) -> list[str]:
        free = shutil.disk_usage(self.folder.path).free
        low = [f"{free >> 20} MiB are free on the data folder's disk"] if free < LOW_DISK_BYTES else []
        problem = self.routes.problem
        return [*low, *([problem] if problem else [])]

    def _backup(self, path: str | None) -> Backup:
        return backup(
            self.folder.path, path, catalog=self.catalog, points=self.parts.points, logs=self.parts.logs, now=now_us
        )


def create_app(settings: ServerSettings) -> Litestar:
    """The application of a server with these settings, as its OpenAPI document is made from; ``serve`` serves it."""
    return Server(settings).app()
