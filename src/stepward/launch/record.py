"""What the wrapper writes down of one attempt: a journal of its own, as a source that is no rank.

Each attempt has its own journal, since a writer's frames carry one attempt key. Where no journal can be made (no folder
will do, a full disk), nothing is kept and the job runs all the same.
"""

import time
from collections.abc import Callable, Sequence

from stepward.collect.readings import Reading
from stepward.launch.notes import guarded
from stepward.launch.plan import Plan
from stepward.model.frames import Config, LogChunk, Logs, Payload, Source, Status
from stepward.model.identity import ulid
from stepward.model.states import Exit
from stepward.model.words import SourceKind
from stepward.spool.journal import CAP_BYTES, Journal, WriterMeta


def now_us() -> int:
    """The clock of all records, µs since the epoch."""
    return time.time_ns() // 1000


def writer_meta(plan: Plan, restart: int) -> WriterMeta:
    """Who writes: the wrapper of one attempt."""
    source = Source(kind=SourceKind.WRAPPER, attempt=plan.attempt_key(restart), node=plan.node)
    return WriterMeta(
        project=plan.project, run=plan.run, writer=ulid(), source=source, created_at=now_us(), key=plan.key
    )


class Record:
    """The journal of one attempt of this wrapper, or of an agent.

    Attributes:
        series: series of all rows that were kept; each set of them stays in memory.
    """

    def __init__(self, root: str, meta: WriterMeta, *, cap_bytes: int = CAP_BYTES) -> None:
        self._journal: Journal | None = guarded(
            "keeping records", lambda: Journal.create(root, meta, cap_bytes=cap_bytes), None
        )
        self._keysets: dict[tuple[tuple[str, str, int | None, int | None], ...], int] = {}
        self.series = 0

    def emit(self, kind: str, payload: Payload) -> bool:
        """Keep a payload; False when it was not kept."""
        journal = self._journal
        return journal is not None and guarded("keeping records", lambda: journal.emit(kind, payload), False)

    def logs(self, chunk: LogChunk) -> bool:
        """Keep a chunk of output."""
        return self.emit("logs", Logs([chunk]))

    def config(self, config: Config) -> None:
        """Keep what is known of run, job and node."""
        self.emit("config", config)

    def exit(self, exit: Exit) -> None:
        """Keep an observation of an end."""
        self.emit("exit", exit)

    def status(self, alive: Sequence[int] = (), stopped: Sequence[int] = (), next_attempt: str | None = None) -> bool:
        """Keep a heartbeat; False when it was not kept."""
        journal = self._journal
        return self.emit(
            "status",
            Status(
                at=now_us(),
                alive=sorted(alive),
                stopped=sorted(stopped),
                next_attempt=next_attempt,
                dropped=journal.dropped if journal else 0,
                gaps=journal.gaps if journal else 0,
            ),
        )

    def readings(self, readings: Sequence[Reading], step: int, time_us: int) -> None:
        """Keep the readings of one sample as points."""
        journal = self._journal
        if journal is None or not readings:
            return
        series = tuple((reading.metric, reading.unit, reading.device, reading.rank) for reading in readings)
        if series not in self._keysets:
            self._keysets[series] = journal.define(series)
            self.series += len(series)
        journal.row(self._keysets[series], step, time_us, [reading.value for reading in readings])

    def close(self) -> None:
        """Write no more."""
        if self._journal is not None:
            close: Callable[[], None] = self._journal.close
            guarded("closing the records", close, None)
