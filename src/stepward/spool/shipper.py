"""The background thread that ships a run's spool folder, whoever wrote it, while it holds the folder's lock.

Every process of a run on a host may have one; one of them holds the lock and ships for all, the others stand by. It is a
daemon: it never holds up the end of the process. It takes the interpreter lock in slices, so that a backlog does not
slow the training loop down, and looks for the server again while there is none.
"""

import contextlib
import os
import random
import threading
import time
import weakref
from typing import TYPE_CHECKING

from stepward import settings as configured
from stepward.errors import StepwardError
from stepward.settings import Settings
from stepward.spool import roots, writers
from stepward.spool.journal import Journal

if TYPE_CHECKING:
    from stepward.spool.rounds import Rounds

TICK_S = 0.5
"""Pause between two looks at an idle journal: what a live chart lags behind."""
BACKLOG_BYTES = 256 << 10
"""Journal bytes of a round from which the next follows at once; after less, rows gather for ``TICK_S``: a frame for each
row would take more of the interpreter than the rows themselves."""
SYNC_S = 1.0
"""Pause between two syncs to disk: what a crash of the host may cost."""
STANDBY_S = 2.0
"""Pause between two tries for the lock, and between two looks for a server that was not known."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0
LONGEST_LOCAL_PAUSE_S = 5.0
"""A refused connection to this host costs nothing, and its server may be back any moment."""
DENIED_PAUSE_S = 60.0
_SLICE_S = 0.001
_POLL_S = 0.02
_HURRY_S = 0.2
"""Pause between two tries while somebody waits in ``flush``."""

_shippers: "weakref.WeakSet[Shipper]" = weakref.WeakSet()


class Shipper:
    """Ships one run's folder.

    Args:
        settings: where the server is; loaded again while it is not reachable.
        root: the spool.
        run: run id; None where it is that of ``journal``, once it is known.
        journal: of this process: it is synced to disk every second, and told of gaps.

    Attributes:
        problem: why nothing is being delivered, for people; "" while all is well.
    """

    _thread: threading.Thread | None
    _lock: int | None
    _rounds: "Rounds | None"

    def __init__(self, settings: Settings, root: str, run: str | None = None, journal: Journal | None = None) -> None:
        self.problem = ""
        self._settings, self._root, self._journal = settings, roots.resolve(root), journal
        self._run = run
        self._given = _given(settings)
        self._said: set[str] = set()
        self._begin()
        _shippers.add(self)

    def start(self) -> None:
        """Start the thread, if it does not run."""
        with self._starting:
            if self._thread is None or not self._thread.is_alive():
                self._stopping.clear()
                self._thread = threading.Thread(target=self._work, name="stepward-shipper", daemon=True)
                self._thread.start()

    def flush(self, timeout_s: float, *, unheard_s: float | None = None) -> bool:
        """Deliver what the run's writers have written until now, trying at once; whether all of it was acknowledged.

        Args:
            timeout_s: longest wait.
            unheard_s: longest wait for a server that has acknowledged nothing of this run so far; None = ``timeout_s``.
        """
        self.start()
        begin, wanted = time.monotonic(), self._ends()
        heard = unheard_s is None
        self._urgent = True
        self._wake.set()
        try:
            while True:
                wanted = self._ends() if wanted is None else self._open(wanted)
                if wanted is not None and not wanted:
                    return True
                heard = heard or self._is_heard()
                limit = timeout_s if heard or unheard_s is None else min(timeout_s, unheard_s)
                left = begin + limit - time.monotonic()
                if left <= 0:
                    return False
                time.sleep(min(left, _POLL_S))
        finally:
            self._urgent = False

    @property
    def delivered_bytes(self) -> int:
        """Journal bytes that this shipper has had acknowledged; whoever waits for it sees by it whether it gets on."""
        return self._rounds.bytes if self._rounds is not None else 0

    def stop(self, timeout_s: float) -> None:
        """End the thread, which lets another process ship; waits at most ``timeout_s``."""
        self._stopping.set()
        self._wake.set()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout_s)

    def forked(self) -> None:
        """In a forked child: the thread and the lock are the parent's."""
        if self._lock is not None:
            os.close(self._lock)
        if self._rounds is not None:
            self._rounds.close()
        self._begin()

    def _begin(self) -> None:
        self._starting = threading.RLock()
        self._stopping, self._wake = threading.Event(), threading.Event()
        self._thread = self._lock = self._rounds = None
        self._urgent = False
        self._failures = 0
        self._send_at = self._hurry_at = self._sync_at = self._look_at = 0.0
        self._synced: dict[str, int] = {}
        self._synced_end = -1
        self._gaps = 0

    def _folder(self) -> str | None:
        run = self._run or (self._journal.run if self._journal is not None else None)
        return f"{self._root}/{run}" if run and self._root else None

    def _work(self) -> None:
        try:
            while not self._stopping.is_set():
                # A fault of ours must not end the delivery: it is tried again like a server that is away.
                try:
                    self._once()
                except Exception as error:
                    self._pause(f"{type(error).__name__}: {error}", None)
                due = min(self._send_at, self._sync_at, self._hurry_at if self._urgent else self._sync_at)
                self._wake.wait(min(max(due - time.monotonic(), _SLICE_S), SYNC_S))
                self._wake.clear()
        finally:
            self._release()

    def _once(self) -> None:
        now = time.monotonic()
        if now >= self._sync_at:
            self._sync_at = now + SYNC_S
            self._sync_to_disk()
        if self._failures and now >= self._look_at and self._look_again(now):
            self._send_at = now
        if now >= self._send_at or (self._urgent and now >= self._hurry_at):
            self._hurry_at = now + _HURRY_S
            self._send(now)

    def _send(self, now: float) -> None:
        from stepward.spool.delivery import Outcome

        rounds = self._held()
        if rounds is None:
            self._send_at = now + STANDBY_S
            return
        if self._urgent:
            rounds.unpark()
        frames, size = rounds.frames, rounds.bytes
        outcome = rounds.round()
        if self._journal is not None:
            self._journal.gaps += rounds.gaps - self._gaps
            self._gaps = rounds.gaps
        if outcome is Outcome.DENIED:
            self._say(rounds.problem)
            self._pause(rounds.problem, DENIED_PAUSE_S)
        elif outcome is Outcome.LATER:
            self._pause(rounds.problem or "no server is known", rounds.retry_after_s)
        else:
            self._failures = 0
            self.problem = rounds.problem if outcome is Outcome.STUCK else ""
            caught_up = rounds.frames > frames and rounds.bytes - size < BACKLOG_BYTES and not self._urgent
            self._send_at = now if outcome is Outcome.SENT and not caught_up else now + TICK_S

    def _held(self) -> "Rounds | None":
        """The rounds of the run's folder, while this process holds its lock."""
        from stepward.spool.rounds import Rounds

        folder = self._folder()
        if folder is None or not os.path.isdir(folder):
            return None
        if self._rounds is not None and self._rounds.folder == folder and self._lock_binds():
            return self._rounds
        self._release()
        self._lock = writers.lock_run(folder)
        if self._lock is None:
            return None
        self._rounds = Rounds(folder, os.path.basename(folder), lambda: time.sleep(_SLICE_S))
        self._rounds.connect(self._settings)
        self._gaps = 0
        return self._rounds

    def _lock_binds(self) -> bool:
        """Whether the lock is still that of the folder; somebody may have removed it, and a writer made another."""
        return self._lock is not None and os.fstat(self._lock).st_nlink > 0

    def _release(self) -> None:
        rounds, lock, self._rounds, self._lock = self._rounds, self._lock, None, None
        if rounds is not None:
            rounds.close()
            writers.remove_run(rounds.folder)
        if lock is not None:
            os.close(lock)

    def _pause(self, problem: str, asked_s: float | None) -> None:
        self.problem = problem
        longest = LONGEST_LOCAL_PAUSE_S if _is_local(self._settings.server) else LONGEST_PAUSE_S
        pause = min(longest, FIRST_PAUSE_S * 2.0 ** min(self._failures, 16)) * random.uniform(0.5, 1.0)
        if self._settings.server is None:
            pause = STANDBY_S
        self._failures += 1
        self._send_at = time.monotonic() + (pause if asked_s is None else asked_s)
        # Who is in a hurry does not wait out a back-off, but does what the server asks for.
        self._hurry_at = time.monotonic() + (_HURRY_S if asked_s is None else asked_s)

    def _look_again(self, now: float) -> bool:
        """Load the settings again; whether they name another server or token than before."""
        self._look_at = now + STANDBY_S
        try:
            fresh = configured.load(server=self._given[0], token=self._given[1])
        except StepwardError:
            return False
        token = fresh.token or self._settings.token
        if (fresh.server, token) == (self._settings.server, self._settings.token) or fresh.server is None:
            return False
        self._settings = fresh if fresh.token else configured.Settings(server=fresh.server, token=token)
        if self._rounds is not None:
            self._rounds.connect(self._settings)
        self._failures = 0
        return True

    def _sync_to_disk(self) -> None:
        """Bound what a crash of the host costs: this process' journal, or all of the run's where it has none."""
        if self._journal is not None:
            if self._journal.end == self._synced_end:
                return
            self._synced_end = self._journal.end
            folders = [self._journal.folder]
        else:
            parent = self._folder()
            folders = [f"{parent}/{name}" for name in writers.folders(parent)] if parent else []
        for folder in folders:
            name = os.path.basename(folder)
            self._synced[name] = writers.sync_to_disk(folder, self._synced.get(name, 0))

    def _ends(self) -> dict[str, int] | None:
        """Folder -> end of what each writer of the run has written; None while the run is not known."""
        from stepward.spool.reader import Reader

        parent = self._folder()
        if parent is None:
            return None
        ends = {}
        for folder in (f"{parent}/{name}" for name in writers.folders(parent)):
            acked = writers.read_delivered(folder)
            ends[folder] = Reader(folder).tail(acked.acked if acked else 0, finished=False)
        return ends

    def _open(self, wanted: dict[str, int]) -> dict[str, int]:
        """Those of ``wanted`` that are not acknowledged yet; a folder that is gone was delivered."""
        still = {}
        for folder, end in wanted.items():
            acked = writers.read_delivered(folder)
            if (acked.acked if acked else 0) < end and os.path.isdir(folder):
                still[folder] = end
        return still

    def _is_heard(self) -> bool:
        """Whether a server has acknowledged anything of the run, to this process or to another that ships."""
        rounds, parent = self._rounds, self._folder()
        if rounds is not None and rounds.frames:
            return True
        states = [writers.read_delivered(f"{parent}/{name}") for name in writers.folders(parent)] if parent else []
        return any(state is not None and state.acked for state in states)

    def _say(self, problem: str) -> None:
        if problem not in self._said:
            self._said.add(problem)
            roots.warn(f"{self._settings.server} does not take this run ({problem}); it waits in {self._root}")


def _given(settings: Settings) -> tuple[str | None, str | None]:
    """Server and token where they were given and not found; what was given stays."""
    with contextlib.suppress(StepwardError):
        found = configured.load()
        if found.server == settings.server:
            return None, settings.token if settings.token != found.token else None
    return settings.server, settings.token


def _is_local(server: str | None) -> bool:
    return server is not None and server.split("//")[-1].startswith(("127.", "localhost", "[::1]"))


def _forked() -> None:
    for shipper in list(_shippers):
        shipper.forked()


os.register_at_fork(after_in_child=_forked)
