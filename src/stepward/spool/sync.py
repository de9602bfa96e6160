"""Ships everything that is left in the spool of this user on this host: ``stepward sync``.

Folders that another process ships are left alone. Writers that ended before their run was known are given one: that of
a sibling of the same attempt, else the one that their key names, else one run for all of the attempt on this host.
"""

import os
import time
from collections.abc import Iterator

import msgspec

from stepward.errors import Unavailable
from stepward.model.identity import RUN_ID, derived_run_id
from stepward.settings import Settings
from stepward.spool import roots, writers
from stepward.spool.delivery import Outcome
from stepward.spool.rounds import Rounds
from stepward.spool.writers import PENDING, WriterMeta

_TRIES = 3
"""Tries without a time limit before a server counts as away."""


class SyncReport(msgspec.Struct, kw_only=True):
    """What ``sync`` did.

    Attributes:
        runs: run ids whose folders were looked at.
        frames, bytes: delivered; bytes of the journal.
        left_bytes: not delivered.
        busy: run ids that another process ships.
        gaps: damaged stretches that were passed over.
        refused: records that the server will never take; kept aside as ``<position>.refused``.
        deleted: run ids that the server says were deleted there; ``stepward.spool.discard`` throws their records away.
        discarded_bytes: thrown away.
        problem: why something is left; "" where nothing is.
    """

    runs: list[str] = []
    frames: int = 0
    bytes: int = 0
    left_bytes: int = 0
    busy: list[str] = []
    gaps: int = 0
    refused: int = 0
    deleted: list[str] = []
    discarded_bytes: int = 0
    problem: str = ""


def sync(settings: Settings, *, run: str | None = None, timeout_s: float | None = None) -> SyncReport:
    """Deliver what is in the spool.

    Args:
        settings: server, token and spool.
        run: only this run id.
        timeout_s: how long to try; None: until all is delivered or the server is away.

    Raises:
        Unavailable: ``no_server``: none is known.
    """
    if settings.server is None:
        raise Unavailable(
            "no server is known", code="no_server", hint="stepward up, or STEPWARD_SERVER=http://host:7070"
        )
    root = roots.resolve(settings.spool)
    report = SyncReport()
    end = None if timeout_s is None else time.monotonic() + timeout_s
    if root is None:
        return report
    _adopt(root)
    for name in writers.folders(root):
        if RUN_ID.fullmatch(name) and run in (None, name):
            _sync_run(settings, f"{root}/{name}", name, end, report)
    return report


def _sync_run(settings: Settings, folder: str, run: str, end: float | None, report: SyncReport) -> None:
    lock = writers.lock_run(folder)
    if lock is None:
        report.busy.append(run)
        return
    rounds = Rounds(folder, run)
    try:
        rounds.connect(settings)
        report.runs.append(run)
        if not _deliver(rounds, end):
            report.problem = rounds.problem or "time is up"
        report.left_bytes += rounds.left()
        report.deleted += [run] if rounds.deleted() else []
    finally:
        rounds.close()
        writers.remove_run(folder)
        os.close(lock)
    report.frames += rounds.frames
    report.bytes += rounds.bytes
    report.gaps += rounds.gaps
    report.refused += rounds.refused


def _deliver(rounds: Rounds, end: float | None) -> bool:
    """Rounds until nothing is left; False when time or patience ended before."""
    failures = 0
    while True:
        outcome = rounds.round()
        if outcome is Outcome.IDLE:
            return True
        if outcome in (Outcome.STUCK, Outcome.DENIED):
            return False
        left = float("inf") if end is None else end - time.monotonic()
        if left <= 0:
            return False
        if outcome is Outcome.SENT:
            failures = 0
            continue
        failures += 1
        if end is None and failures >= _TRIES:
            return False
        time.sleep(min(left, rounds.retry_after_s or 0.5 * failures, 5.0))


def _adopt(root: str) -> None:
    """Move finished writers without a run to the run that is theirs."""
    for name in writers.folders(f"{root}/{PENDING}"):
        folder = f"{root}/{PENDING}/{name}"
        meta = writers.read_meta(folder)
        if meta is None or not writers.finished(folder, meta):
            continue
        run = meta.run or _sibling_run(root, meta) or _derived_run(meta)
        try:
            writers.write_meta(folder, msgspec.structs.replace(meta, run=run))
            os.makedirs(f"{root}/{run}", mode=0o700, exist_ok=True)
            os.rename(folder, f"{root}/{run}/{name}")
        except OSError as error:
            roots.warn(f"{folder} cannot be moved to its run {run}: {error.strerror}")


def _sibling_run(root: str, meta: WriterMeta) -> str | None:
    ours = meta.project, meta.source.attempt
    return next((known.run for known in _known(root) if (known.project, known.source.attempt) == ours), None)


def _known(root: str) -> Iterator[WriterMeta]:
    for run in writers.folders(root):
        for name in writers.folders(f"{root}/{run}") if run != PENDING else ():
            meta = writers.read_meta(f"{root}/{run}/{name}")
            if meta is not None:
                yield meta


def _derived_run(meta: WriterMeta) -> str:
    return derived_run_id(meta.project, meta.key or f"host:{meta.source.node}:{meta.source.attempt}")
