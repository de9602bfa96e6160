"""Live updates: one stream of server-sent events a browser tab, told what it watches and may see.

What was committed is told at once, then what comes within ``FLUSH_S`` is merged and read once, and only where somebody watches,
so that a thousand heartbeats cost one query. That there are new points needs no query and is told every ``POINTS_S``, for a
chart waits for it. Queues are bounded: a client that does not keep up loses its queue and gets a ``resync`` event instead,
upon which it reads everything again. Nothing is replayed; a client that connects reads first what it shows.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence

import msgspec

from stepward.model.resources import Run
from stepward.model.updates import EventsUpdate, LiveUpdate, LogsUpdate, PointsUpdate, RunRemoved, RunUpdate
from stepward.model.words import NODES_PROJECT
from stepward.store.catalog import Change, Metrics, Principal
from stepward.store.catalog.newest import FIRST

FLUSH_S = 0.3
POINTS_S = 0.1
KEEP_ALIVE_S = 15.0
QUEUED = 256
_log = logging.getLogger("stepward.api")
_HELLO = b"retry: 2000\n: live\n\n"
_ALIVE = b": alive\n\n"
_RESYNC = b"event: resync\ndata: {}\n\n"


class LiveClient:
    """One stream: what it watches, and what waits to be sent.

    Args:
        all_runs: tell of every run in the principal's projects.
        all_events: tell of what detectors see in any of them.
        runs: runs whose points, output and events are told, too.
        metrics: newest values that it wants of a run.
    """

    def __init__(
        self,
        principal: Principal,
        *,
        all_runs: bool,
        runs: frozenset[str],
        metrics: Metrics = FIRST,
        all_events: bool = False,
    ) -> None:
        self.principal = principal
        self.all_events = all_events
        self.all_runs = all_runs
        self.runs = runs
        self.metrics = metrics
        self.queue: asyncio.Queue[bytes | None] = asyncio.Queue(QUEUED)

    def watches(self, change: Change) -> bool:
        """Whether this client is told of the run at all."""
        listed = self.all_runs and change.project != NODES_PROJECT
        wanted = listed or change.run in self.runs or (self.all_events and bool(change.events))
        return wanted and self.principal.sees(change.project)

    def put(self, message: bytes | None) -> None:
        """Queue a message; where the queue is full, everything in it is replaced by ``resync``."""
        if self.queue.full():
            while not self.queue.empty():
                self.queue.get_nowait()
            self.queue.put_nowait(_RESYNC)
        self.queue.put_nowait(message)


class _Pile:
    """Changes that wait to be told, those of a run merged; a flush every ``every_s`` at most takes them all."""

    def __init__(self, every_s: float) -> None:
        self.every_s = every_s
        self.changes: dict[str, Change] = {}
        self.changed = asyncio.Event()

    def add(self, change: Change) -> None:
        known = self.changes.get(change.run)
        self.changes[change.run] = change if known is None or change.removed else _merged(known, change)
        self.changed.set()

    async def take(self) -> list[Change]:
        """Wait for changes."""
        await self.changed.wait()
        self.changed.clear()
        changes, self.changes = self.changes, {}
        return list(changes.values())


class LiveHub:
    """Hands changes from the committer threads to the clients of the event loop.

    Args:
        runs: reads runs by id, with the newest values of some metrics.
        line_counts: (project, run) -> lines of each stream.
    """

    def __init__(
        self,
        runs: Callable[[Sequence[str], Metrics], list[Run]],
        line_counts: Callable[[str, str], Mapping[str, int]],
    ) -> None:
        self._runs = runs
        self._line_counts = line_counts
        self._clients: set[LiveClient] = set()
        self._points, self._rest = _Pile(POINTS_S), _Pile(FLUSH_S)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._flushing: list[asyncio.Task[None]] = []

    def __len__(self) -> int:
        return len(self._clients)

    async def start(self) -> None:
        """Begin to tell; called once on the event loop."""
        self._loop = asyncio.get_running_loop()
        flushes = (self._points, self._flush_points), (self._rest, self._flush)
        self._flushing = [asyncio.create_task(self._flush_forever(pile, flush)) for pile, flush in flushes]

    async def stop(self) -> None:
        """End all streams."""
        for task in self._flushing:
            task.cancel()
        for client in list(self._clients):
            client.put(None)

    def publish(self, changes: Sequence[Change]) -> None:
        """Take what a commit changed; any thread may call, and it never blocks."""
        if self._loop is None or not self._clients or self._loop.is_closed():
            return
        self._loop.call_soon_threadsafe(self._take, changes)

    async def stream(self, client: LiveClient, allowed: Callable[[], bool]) -> AsyncIterator[bytes]:
        """The bytes of a client's stream, until it goes, the hub stops, or ``allowed`` says no (asked for each message)."""
        self._clients.add(client)
        try:
            yield _HELLO
            while True:
                try:
                    message = await asyncio.wait_for(client.queue.get(), KEEP_ALIVE_S)
                except TimeoutError:
                    message = _ALIVE
                if message is None or not allowed():
                    return
                yield message
        finally:
            self._clients.discard(client)

    def _take(self, changes: Sequence[Change]) -> None:
        for change in changes:
            self._points.add(change)
            self._rest.add(change)

    async def _flush_forever(self, pile: _Pile, flush: Callable[[Sequence[Change]], Awaitable[None]]) -> None:
        while True:
            changes = await pile.take()
            watched = [change for change in changes if any(client.watches(change) for client in self._clients)]
            try:
                await flush(watched)
            except Exception:
                # It must go on: no other change may come to tell of what was lost, so that everybody reads again.
                _log.exception("live updates were lost")
                for client in list(self._clients):
                    client.put(_RESYNC)
            await asyncio.sleep(pile.every_s)

    async def _flush_points(self, changes: Sequence[Change]) -> None:
        for change in changes:
            clients = [client for client in self._clients if change.run in client.runs and client.watches(change)]
            if clients and not change.removed and (change.metrics or change.step is not None):
                message = _message(PointsUpdate(run=change.run, metrics=sorted(change.metrics), step=change.step))
                for client in clients:
                    client.put(message)

    async def _flush(self, changes: Sequence[Change]) -> None:
        if not changes:
            return
        heads = {metrics: await self._heads(changes, metrics) for metrics in {one.metrics for one in self._clients}}
        for change in changes:
            removed = [_message(RunRemoved(change.run))] if change.removed else []
            details, detected = await self._details(change), _detected(change)
            for client in list(self._clients):
                if client.watches(change):
                    head = removed or heads.get(client.metrics, {}).get(change.run, [])
                    seen = detected if client.all_events else []
                    for message in head + (details if change.run in client.runs else seen):
                        client.put(message)

    async def _heads(self, changes: Sequence[Change], metrics: Metrics) -> dict[str, list[bytes]]:
        """By run, what is told to those who want the newest values of these metrics."""
        clients = [client for client in self._clients if client.metrics == metrics]
        told = [change.run for change in changes if not change.removed and any(one.watches(change) for one in clients)]
        found = await asyncio.to_thread(self._runs, told, metrics) if told else []
        return {run.id: [_message(RunUpdate(run))] for run in found}

    async def _details(self, change: Change) -> list[bytes]:
        if not any(change.run in client.runs for client in self._clients):
            return []
        updates: list[LiveUpdate] = []
        if change.events:
            updates.append(EventsUpdate(change.run, change.events))
        if change.logs:
            counts = await asyncio.to_thread(self._line_counts, change.project, change.run)
            updates.append(LogsUpdate(change.run, dict(counts)))
        return [_message(update) for update in updates]


def _detected(change: Change) -> list[bytes]:
    """What is told to those who follow the detectors' events of all runs."""
    seen = [event for event in change.events if event.detector is not None]
    return [_message(EventsUpdate(change.run, seen))] if seen else []


def _merged(one: Change, other: Change) -> Change:
    steps = [step for step in (one.step, other.step) if step is not None]
    events = {event.id: event for event in [*one.events, *other.events]}
    return Change(
        project=other.project,
        run=other.run,
        metrics=one.metrics | other.metrics,
        step=max(steps, default=None),
        events=list(events.values()),
        logs=one.logs or other.logs,
    )


def _message(update: LiveUpdate) -> bytes:
    tag = str(type(update).__struct_config__.tag)
    return b"event: " + tag.encode() + b"\ndata: " + msgspec.json.encode(update) + b"\n\n"
