"""The files of all projects: opened on use, few at a time, their memory shared out; and a thread that looks after them.

The keeper closes files that rest, and hands each file to a rewrite that wants one. A file that is closed by it opens again
on the next use, unnoticed.
"""

import contextlib
import logging
import math
import threading
import time
from collections.abc import Callable, Iterator

from stepward.errors import StepwardError, Unavailable
from stepward.store.layout import project_folder
from stepward.store.points.duckdb.file import ProjectFile
from stepward.store.points.duckdb.names import Names

MAX_OPEN = 16
"""Files open at once: each has its threads and buffers. More only while more than that are in use at one moment."""
REST_S = 300.0
"""A file is closed when nobody used it for that long."""
LOOK_S = 5.0
MEMORY_MB = 768
"""Buffers of all open files together."""
LEAST_MB = 48
"""Buffers below which the engine can't sort a commit."""
MOST_MB = 512

_log = logging.getLogger(__name__)


class Project:
    """A project's file and what its writer knows of it; ``names`` is None when it must be read again."""

    def __init__(self, folder: str) -> None:
        self.file = ProjectFile(folder, f"{MOST_MB}MB")
        self.names: Names | None = None
        self.deletions = 0
        self._rewriting = threading.Lock()
        self.committed_at = time.monotonic()
        self._rewritten_at = self._rewrite_s = 0.0

    @contextlib.contextmanager
    def rewriting(self) -> Iterator[None]:
        """Around a rewrite, one at a time, whatever comes of it."""
        with self._rewriting:
            begun = time.monotonic()
            try:
                yield
            finally:
                self._rewritten_at = time.monotonic()
                self._rewrite_s = self._rewritten_at - begun

    @property
    def rests(self) -> float:
        """Time since the last rewrite, in multiples of what that took."""
        since = time.monotonic() - self._rewritten_at
        return since / self._rewrite_s if self._rewrite_s else math.inf


class Projects:
    """Files by the name of their project.

    Args:
        data: the data folder.
        look: called by the keeper for each open file of a project.
    """

    def __init__(self, data: str, look: Callable[[str, Project], None]) -> None:
        self._data = data
        self._look = look
        self._all: dict[str, Project] = {}
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._keeper: threading.Thread | None = None
        self._share = 0

    @property
    def over(self) -> bool:
        """Whether the files are being closed for good."""
        return self._over.is_set()

    def of(self, project: str) -> Project:
        """A project's file, open or not.

        Raises:
            UsageError: ``bad_project_name``.
            Unavailable: ``store_closed``.
        """
        with self._lock:
            if self.over:
                raise Unavailable("the points store is closed", code="store_closed")
            at = self._all.get(project)
            if at is None:
                at = self._all[project] = Project(project_folder(self._data, project))
            at.file.used_at = time.monotonic()
            if self._keeper is None:
                self._keeper = threading.Thread(target=self._keep, name="points keeper", daemon=True)
                self._keeper.start()
        if not at.file.opened:
            self.make_room(spare=at)
        return at

    def make_room(self, spare: Project | None = None) -> None:
        """Close files that rest, and the longest unused ones beyond ``MAX_OPEN``; share out the memory anew."""
        with self._lock:
            files = sorted((at.file for at in self._all.values() if at.file.opened), key=lambda file: file.used_at)
            rested = time.monotonic() - REST_S
            surplus = len(files) + (spare is not None) - MAX_OPEN
            for index, file in enumerate(files):
                if file.used_at < rested or index < surplus:
                    with contextlib.suppress(StepwardError):
                        file.rest()
            still = [file for file in files if file.opened] + ([spare.file] if spare is not None else [])
            share = max(LEAST_MB, min(MOST_MB, MEMORY_MB // max(1, len(still))))
            if spare is not None or share != self._share:
                self._share = share
                for file in still:
                    file.limit_memory(f"{share}MB")

    def close(self) -> None:
        """Close every file for good."""
        self._over.set()
        if self._keeper is not None and self._keeper is not threading.current_thread():
            self._keeper.join()
        with self._lock:
            files, self._all = [at.file for at in self._all.values()], {}
        for file in files:
            file.close()

    def _keep(self) -> None:
        while not self._over.wait(LOOK_S):
            self.make_room()
            with self._lock:
                opened = [(name, at) for name, at in self._all.items() if at.file.opened]
            for name, at in opened:
                try:
                    self._look(name, at)
                except StepwardError as error:
                    _log.warning("project %s was not put in order: %s", name, error)
                except Exception:  # the last guard: the other files must be looked after
                    _log.exception("project %s was not put in order", name)
