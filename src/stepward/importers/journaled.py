"""Points into the spool, as if a run had logged them: a journal for each attempt and rank, delivered exactly once.

Nothing is sent from here: ``stepward.spool.sync`` does that, now or when the server is back.
"""

import time
from types import TracebackType
from typing import NamedTuple

from stepward.errors import StorageFull
from stepward.model.frames import Config, Source, Status
from stepward.model.identity import derived_run_id, random_run_id, ulid
from stepward.model.states import Exit, Witness
from stepward.model.words import SourceKind
from stepward.settings import Settings
from stepward.spool import roots
from stepward.spool.journal import Journal
from stepward.spool.writers import WriterMeta


class ImportedPoint(NamedTuple):
    """One point; ``attempt`` is any word, ``time_us`` is µs since the epoch, ``rounded``: an integer that did not fit."""

    metric: str
    step: int
    time_us: int
    value: float
    unit: str = ""
    attempt: str = "1"
    rank: int | None = 0
    device: int | None = None
    rounded: bool = False


class JournaledRun:
    """A run that takes points; a context manager, at whose end the run has finished.

    Args:
        settings: project and spool.
        name: the run's name.
        key: names the run, if it may be there already; else it is a new one.

    Raises:
        StorageFull: ``spool_full``: a point could not be kept; what was kept is delivered nevertheless.
    """

    def __init__(self, settings: Settings, name: str, key: str | None = None) -> None:
        self.run = random_run_id() if key is None else derived_run_id(settings.project, key)
        self._key = key
        self.points = 0
        self._settings = settings
        self.name = name
        self._journals: dict[tuple[str, int | None], Journal] = {}
        self._keysets: dict[tuple[str, int | None, str, str, int | None], int] = {}

    def add(self, point: ImportedPoint) -> None:
        """Keep one point."""
        journal = self._journal(point)
        key = (point.attempt, point.rank, point.metric, point.unit, point.device)
        keyset = self._keysets.get(key)
        if keyset is None:
            keyset = self._keysets[key] = journal.define([(point.metric, point.unit, point.device)])
        if not journal.row(keyset, point.step, point.time_us, [point.value], [0] if point.rounded else ()):
            raise StorageFull(
                f"the spool {journal.root} takes no more, or {point.metric[:80]!r} is no name",
                code="spool_full",
                hint="make space, or name another folder by STEPWARD_DIR",
            )
        self.points += 1

    def beat(self) -> None:
        """Say that whoever reads the points is alive."""
        for journal in self._journals.values():
            journal.emit("status", Status(at=time.time_ns() // 1000))

    def __enter__(self) -> "JournaledRun":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for (_, rank), journal in self._journals.items():
            now = time.time_ns() // 1000
            code = 0 if kind is None else 1
            journal.emit("exit", Exit(at=now, by=Witness.SDK, exit_code=code, rank=rank, reason="imported"))
            journal.close()

    def _journal(self, point: ImportedPoint) -> Journal:
        key = (point.attempt, point.rank)
        journal = self._journals.get(key)
        if journal is None:
            kind = SourceKind.RANK if point.rank is not None else SourceKind.WATCHER
            meta = WriterMeta(
                project=self._settings.project,
                run=self.run,
                writer=ulid(),
                source=Source(kind=kind, attempt=point.attempt, rank=point.rank),
                created_at=time.time_ns() // 1000,
            )
            journal = self._journals[key] = Journal.create(roots.resolve(self._settings.spool) or "", meta)
            journal.emit("config", Config(name=self.name, key=self._key, started_at=point.time_us))
        return journal
