"""Throws away what waits for a run that was deleted on the server: ``stepward sync --discard RUN``.

A server's word alone never costs a record: ``waiting`` says what would go, and somebody has to want it. ``discard`` asks
the server once more, under the lock of the run's folder, and removes only what is then refused as ``run_deleted`` and
whose writer has ended. Whatever the server takes instead is delivered.
"""

import os

import msgspec

from stepward.model.words import SourceKind
from stepward.settings import Settings
from stepward.spool import roots, writers
from stepward.spool.cutter import cut
from stepward.spool.reader import Reader
from stepward.spool.rounds import Rounds


class Waiting(msgspec.Struct, kw_only=True):
    """What one writer left undelivered.

    Attributes:
        kind, rank, node: who wrote.
        created_at: when it began, µs since the epoch.
        bytes, points, records: of the journal; records include those of points.
        writing: its process still lives and writes.
    """

    writer: str
    kind: SourceKind
    rank: int | None
    node: str
    created_at: int
    bytes: int = 0
    points: int = 0
    records: int = 0
    writing: bool = False


def waiting(settings: Settings, run: str) -> list[Waiting]:
    """What waits in the spool for a run id, oldest writer first; changes nothing."""
    root = roots.resolve(settings.spool)
    found = [_waiting(f"{root}/{run}/{name}") for name in writers.folders(f"{root}/{run}")] if root else []
    return [one for one in found if one is not None]


def discard(settings: Settings, run: str) -> int | None:
    """Remove what the server refuses because the run was deleted there; its bytes, None while another process ships."""
    root = roots.resolve(settings.spool)
    folder = f"{root}/{run}"
    lock = writers.lock_run(folder) if root and os.path.isdir(folder) else None
    if lock is None:
        return None
    rounds, removed = Rounds(folder, run), 0
    try:
        rounds.connect(settings)
        rounds.round()
        for name in rounds.deleted():
            left = _waiting(f"{folder}/{name}")
            if left is not None and not left.writing:
                writers.remove_writer(f"{folder}/{name}", refused=True)
                removed += left.bytes
    finally:
        rounds.close()
        writers.remove_run(folder)
        os.close(lock)
    return removed


def _waiting(folder: str) -> Waiting | None:
    meta = writers.read_meta(folder)
    if meta is None:
        return None
    source = meta.source
    found = Waiting(
        writer=meta.writer, kind=source.kind, rank=source.rank, node=source.node, created_at=meta.created_at
    )
    found.writing = not writers.finished(folder, meta)
    reader, delivered = Reader(folder), writers.read_delivered(folder)
    oldest = reader.oldest()
    if oldest is None:
        return found
    start = position = delivered.acked if delivered and reader.begins(delivered.acked) else oldest
    while (taken := cut(reader, position, finished=not found.writing)) is not None:
        position = taken.end
        found.points += taken.points
        found.records += taken.items
    found.bytes = position - start
    return found
