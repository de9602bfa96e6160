"""Event files that still grow, followed into runs: each point once, also after the follower was killed and started again.

A followed folder is always the same run (its key is host and path). Who begins to follow delivers first what an earlier
follower has left in the spool, then asks the server which points the run has, and passes over those: compared as a
multiset, bit by bit, so that it does not matter in which order files grew or new ones came.
"""

import math
import os
import socket
import struct
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from types import TracebackType

import msgspec

from stepward.client.api import Client
from stepward.errors import NotFound, Unavailable
from stepward.importers.journaled import ImportedPoint, JournaledRun
from stepward.importers.tensorboard import EventFile, Folder, folders
from stepward.model.identity import derived_run_id
from stepward.model.resources import Number, instant
from stepward.settings import Settings
from stepward.spool.sync import sync

SEND_S = 30.0
"""Seconds that one turn may take to deliver; what is left waits for the next."""


class _Stored(msgspec.Struct):
    """A line of the export, as far as it tells points apart."""

    metric: str
    step: int
    time: str
    value: Number


class Follower:
    """Reads a folder of event files again and again; a context manager, at whose end the runs have finished.

    Args:
        settings: server, project and spool.
        root: folder of event files, at any depth.

    Raises:
        UsageError: ``no_event_files``, ``no_server``.
        Unavailable: ``not_delivered``, and where the server does not answer: without it nobody knows what is stored.
    """

    def __init__(self, settings: Settings, root: str) -> None:
        self._settings, self._root = settings, root
        self._client = Client.of(settings)
        self._runs: dict[str, _FollowedRun] = {}
        self._open = ExitStack()

    def __enter__(self) -> "Follower":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.__exit__(kind, error, trace)

    @property
    def runs(self) -> list[JournaledRun]:
        """The runs that are followed."""
        return [one.run for one in self._runs.values()]

    @property
    def files(self) -> list[EventFile]:
        """The files that are followed."""
        return [file for one in self._runs.values() for file in one.files.values()]

    def turn(self) -> None:
        """Take what was added, in files and folders that are new, too; journal it, and deliver."""
        for folder in folders(self._root):
            if folder.name not in self._runs:
                self._runs[folder.name] = self._begin(folder)
            self._runs[folder.name].take(folder.files)
        for one in self._runs.values():
            one.run.beat()
            sync(self._settings, run=one.run.run, timeout_s=SEND_S)

    def _begin(self, folder: Folder) -> "_FollowedRun":
        path = os.path.realpath(os.path.dirname(folder.files[0]))
        key = f"tensorboard:{socket.gethostname()}:{path}"
        run = derived_run_id(self._settings.project, key)
        report = sync(self._settings, run=run, timeout_s=SEND_S)
        if report.left_bytes or report.busy:
            raise Unavailable(
                f"points that were read from {path} before are still in the spool: {report.problem or 'being sent'}",
                code="not_delivered",
                hint="try again when `stepward sync` has delivered them: only then is it known what is stored",
            )
        journaled = self._open.enter_context(JournaledRun(self._settings, folder.name, key=key))
        return _FollowedRun(journaled, Counter(self._stored(run)))

    def _stored(self, run: str) -> Iterator[int]:
        decoder = msgspec.json.Decoder(_Stored)
        try:
            for line in self._client.export(run):
                point = decoder.decode(line)
                yield _identity(point.metric, point.step, point.time, float(point.value))
        except NotFound:
            return


class _FollowedRun:
    """A run, its files, and the points that are stored and were not met again yet."""

    def __init__(self, run: JournaledRun, stored: Counter[int]) -> None:
        self.run = run
        self.files: dict[str, EventFile] = {}
        self._stored = stored

    def take(self, paths: list[str]) -> None:
        for path in paths:
            for point in self.files.setdefault(path, EventFile(path)).read():
                if not self._known(point):
                    self.run.add(point)

    def _known(self, point: ImportedPoint) -> bool:
        if not self._stored:
            return False
        identity = _identity(point.metric, point.step, instant(point.time_us), point.value)
        left = self._stored.pop(identity, 0)
        if left > 1:
            self._stored[identity] = left - 1
        return left > 0


def _identity(metric: str, step: int, at: str, value: float) -> int:
    # Any NaN is written as one word: their bits are not compared. Hashes, since millions of tuples would not fit.
    bits = b"nan" if math.isnan(value) else struct.pack("<d", value)
    return hash((metric, step, at, bits))
