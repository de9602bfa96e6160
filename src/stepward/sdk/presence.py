"""A run as the rest of the world sees it: who writes, that it lives, that its frames are shipped, how it ended.

Three ways to know the run and rank of this process: a launcher says the rank (settled at once); nothing hints at other
ranks (settled at the first step, or after three seconds, so that a group that forms right after ``init`` is still seen);
or there are other ranks that nothing names: then frames wait in the spool for rank 0's word (``meeting``).
"""

import os
import threading
import time
import weakref
from typing import Any

import msgspec

from stepward import settings as configured
from stepward.model.frames import Config, Source, Status
from stepward.model.states import Exit
from stepward.model.words import HEARTBEAT_S, SourceKind
from stepward.orchestrators import identity as identities
from stepward.orchestrators.local import identity as launchers
from stepward.orchestrators.protocol import Identity, ProcFacts
from stepward.sdk.meeting import Agreement, Meeting, find_group
from stepward.sdk.recorder import Recorder
from stepward.settings import Settings
from stepward.spool.records import clamp
from stepward.spool.roots import warn

GRACE_S = 3.0
"""How long a process that looks alone may turn out to be one of several."""
MEETING_S = 60.0
"""How long ranks wait for rank 0's word; then each host is a run of its own."""
POLL_S = 0.25
STOP_S = 0.5
"""How long of the end the shipper gets to stop."""
DEAD_FLUSH_S = 2.0
"""How long the end waits for a server that does not answer, or has not in this run so far."""

_presences: "weakref.WeakSet[Presence]" = weakref.WeakSet()


class Presence:
    """The run's presence; fields without underscore are written by the training thread and read by the heartbeat.

    Attributes:
        step, progress_at, phase: for the heartbeat.
        settled: run and rank are known; frames are shipped.
        ended: how the process ends has been said, or is being said.
    """

    def __init__(
        self, settings: Settings, me: Identity, facts: ProcFacts, recorder: Recorder, *, role: str, ordinal: int
    ) -> None:
        self.me, self.role = me, role
        self.step: int | None = None
        self.progress_at: int | None = None
        self.phase: str | None = None
        self.settled = self.ended = False
        self._settings, self._facts = settings, facts
        self._recorder, self._journal = recorder, recorder.journal
        self._meeting = Meeting(ordinal)
        self._since = time.monotonic()
        self._shipper: Any = None
        self._exit_said = self._agreed = False
        self._lock = threading.RLock()
        _presences.add(self)
        if not me.alone and identities.has_rank(os.environ):
            self._settle(me)

    @property
    def run(self) -> str:
        """Id of the run; as long as ranks have not agreed, the one that this process would have alone."""
        return self.me.run

    def who(self) -> Identity | None:
        """The identity, once settled."""
        return self.me if self.settled else None

    def look(self, *, now: bool = False) -> None:
        """Settle where it can be; with ``now`` don't wait for a group that nothing hints at."""
        waited = time.monotonic() - self._since
        if not self.settled and (self.me.alone or self._joins_others()):
            if not self._agree() and waited > MEETING_S:
                self._settle_on_host()
        elif not self.settled and (now or waited > GRACE_S):
            self._settle(self._ranked())
        elif self.settled:
            if self._waits_for_word():
                self._agree()
            if self._ranked() != self.me:
                self._settle(self._ranked())

    def beat(self) -> float:
        """The heartbeat; seconds until the next."""
        if self.ended:
            return HEARTBEAT_S
        self.look()
        self._journal.emit("status", self._status())
        self._ship()
        return HEARTBEAT_S if self.settled and not self._waits_for_word() else POLL_S

    def end(self, exit: Exit, flush_s: float) -> bool:
        """Say how it ended and flush, at most ``flush_s``; whether nothing is left in the spool.

        Safe in a signal handler, also while it runs already in the main thread: then it only makes sure that the exit is
        in the journal.
        """
        if self.ended:
            self._say(exit)
            return False
        self.ended = True
        until = time.monotonic() + flush_s
        self._recorder.drain(flush_s / 2)
        self.look(now=True)
        while self._waits_for_word() and time.monotonic() < until - flush_s / 2:
            time.sleep(POLL_S / 5)
            self.look(now=True)
        if not self.settled:
            self._settle_on_host()
        self._journal.emit("status", self._status())
        self._say(exit)
        return self._flush(until)

    def close(self) -> None:
        """Write no more."""
        self._journal.close()

    def _say(self, exit: Exit) -> None:
        if not self._exit_said:
            self._exit_said = True
            self._journal.emit("exit", msgspec.structs.replace(exit, rank=self.me.rank))

    def _status(self) -> Status:
        return Status(
            at=time.time_ns() // 1000,
            step=None if self.step is None else clamp(self.step),
            progress_at=self.progress_at,
            phase=self.phase,
            pending=self._recorder.pending,
            dropped=self._journal.dropped,
            gaps=self._journal.gaps,
        )

    def _ranked(self) -> Identity:
        """The identity with the rank as it is known now: the environment's, else that of the framework's group."""
        inner, world = launchers.rank(os.environ), self.me.world
        if inner is None:
            group = find_group()
            if group is None or group.world < 2:
                return self.me
            inner, world = group.rank, group.world
        if (inner, world) == (self.me.rank, self.me.world):
            return self.me
        return msgspec.structs.replace(self.me, rank=inner, world=world)

    def _joins_others(self) -> bool:
        """Whether a framework joins this process with others, and nothing names their run."""
        group = find_group() if self.me.key is None else None
        return group is not None and group.world > 1

    def _waits_for_word(self) -> bool:
        return not self._agreed and self._joins_others()

    def _agree(self) -> bool:
        """Take rank 0's run and attempt (an explicit run keeps its name); whether there is its word."""
        said = self._meeting.agree(Agreement(self.me.run, self.me.attempt, self.me.key))
        if said is None or (self.me.key is not None and not self.me.alone):
            return False
        self._agreed = True
        me = msgspec.structs.replace(self._ranked(), attempt=said.attempt, alone=False)
        if self.me.key is None:
            me = msgspec.structs.replace(me, run=said.run)
        if not self.settled or me != self.me:
            self._settle(me)
        return True

    def _settle_on_host(self) -> None:
        warn(
            "the ranks could not agree on a run: each host has its own; name one with `stepward run --run` or init(run=)"
        )
        self._settle(identities.host_run(self._ranked(), os.environ, self._facts, project=self._settings.project))

    def _settle(self, me: Identity) -> None:
        with self._lock:
            moved, grown = self.settled and me.run != self.me.run, me.world != self.me.world
            self.me = me
            self._journal.assign(me.run, self._source())
            self.settled = True
            if grown and me.rank == 0:
                self._journal.emit("config", Config(ranks=me.world))
            if moved and self._shipper is not None:
                self._shipper.stop(0.0)
                self._shipper = None

    def _source(self) -> Source:
        me = self.me
        return Source(
            kind=SourceKind.RANK, attempt=me.attempt, rank=me.rank, role=self.role, node=me.node, pid=os.getpid()
        )

    def _ship(self) -> None:
        """Start shipping; the shipper itself waits for servers and for the folder's lock."""
        with self._lock:
            if self._shipper is not None or not self.settled or self._journal.root is None:
                return
            # Imported in the background thread: it brings http.client (rule 4 of ARCHITECTURE.md).
            from stepward.spool.shipper import Shipper

            self._shipper = Shipper(self._settings, self._journal.root, self.me.run, self._journal)
            self._shipper.start()

    def _flush(self, until: float) -> bool:
        try:
            self._ship()
            if self._shipper is None:
                return False
            # A server that was started since counts; without one there is nothing to wait for.
            known = self._settings.server or configured.load(project=self._settings.project).server
            wait = min(until - STOP_S - time.monotonic(), DEAD_FLUSH_S if self._shipper.problem else until)
            done = known is not None and self._shipper.flush(max(wait, 0.0), unheard_s=DEAD_FLUSH_S)
            self._shipper.stop(STOP_S)
        except Exception:  # a thread can't start any more: what is left is shipped by the next who comes
            return False
        return bool(done)

    def forked(self) -> None:
        """In a forked child: the lock may have been held, the shipper is the parent's."""
        self._lock = threading.RLock()
        self._shipper = None


def _forked() -> None:
    for presence in list(_presences):
        presence.forked()


os.register_at_fork(after_in_child=_forked)
