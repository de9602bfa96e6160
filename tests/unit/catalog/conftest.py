"""A catalog in a folder of its own, with a clock that tests set, and frames as the committer hands them over."""

import itertools

import pytest

from stepward.ingest.hearing import Hearing
from stepward.ingest.protocols import CommittedFrame, MetricSummary
from stepward.model.frames import Source
from stepward.model.identity import derived_run_id
from stepward.model.words import SourceKind
from stepward.store.catalog import Access, CatalogApplier, Claims, Edits, Retention, Runs, open_database
from stepward.store.catalog.events import StoredEvents

S = 1_000_000
T0 = 1_800_000_000 * S


class Bench:
    """The catalog's parts over one database."""

    def __init__(self, path):
        self.now = T0
        self.database = open_database(path)
        self.hearing = Hearing(T0 - 3600 * S)
        self.changes = []
        self.abandoned = []
        self.applier = CatalogApplier(
            self.database, self.hearing, self.changes.extend, lambda *what: self.abandoned.append(what)
        )
        self.runs = Runs(self.database, self.hearing, self.clock)
        self.events = StoredEvents(self.database)
        self.edits = Edits(self.database, self.hearing, self.clock, self.changes.extend)
        self.retention = Retention(self.database, self.clock)
        self.access = Access(self.database, self.clock)
        self.claims = Claims(self.database)

    def clock(self):
        return self.now

    def run(self, key="r", project="p"):
        return derived_run_id(project, key)

    def writer(self, key="r", project="p", attempt="a1", rank=0, kind=SourceKind.RANK, node="n1"):
        return Writer(self, project, self.run(key, project), attempt, rank, kind, node)

    def get(self, key="r", project="p"):
        return self.runs.get(None, self.run(key, project))


class Writer:
    """One process that writes; frames are applied at once unless ``apply=False``."""

    numbers = itertools.count()

    def __init__(self, bench, project, run, attempt, rank, kind, node):
        self.bench, self.project, self.run = bench, project, run
        self.source = Source(
            kind=kind, attempt=attempt, rank=rank if kind is SourceKind.RANK else None, node=node, pid=7
        )
        self.id = f"w{next(self.numbers)}"
        self.seq = 0

    def send(self, *payloads, metrics=(), sent_at=None, received_at=None, apply=True, **more):
        now = self.bench.now
        frame = CommittedFrame(
            project=self.project,
            run=self.run,
            writer=self.id,
            seq=self.seq,
            end=self.seq + 10,
            sent_at=now if sent_at is None else sent_at,
            received_at=now if received_at is None else received_at,
            source=self.source,
            payloads=list(payloads),
            metrics=list(metrics),
            **more,
        )
        self.seq += 10
        if apply:
            self.bench.applier.apply([frame])
        return frame


def point(metric, step, value, *, time=T0, first=None, system=False):
    return MetricSummary(metric, "", step, time, value, False, 1, step if first is None else first, system)


@pytest.fixture
def bench(tmp_path):
    made = Bench(str(tmp_path / "catalog.db"))
    yield made
    made.database.close()
