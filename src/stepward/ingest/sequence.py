"""Which frames are new, which are known, which don't fit: the rules of ``docs/wire.md`` for one project.

Pure but for one question to the store: the positions at the beginning and after a failure. Positions that frames of an
open group would reach are kept apart until the group is committed.
"""

from collections.abc import Callable, Mapping

from stepward.errors import Conflict, ParseError
from stepward.ingest.decode import Decoded
from stepward.ingest.dictionary import Dictionaries, point_columns, summarize, summarize_steps
from stepward.ingest.protocols import SYSTEM_PREFIX, CommittedFrame, FrameRows, MetricSummary, WriterPosition


class Sequencer:
    """Decides on the frames of one project, in the order of their arrival.

    Args:
        positions: reads the committed positions from the store.
    """

    def __init__(self, positions: Callable[[], Mapping[str, WriterPosition]]) -> None:
        self._read = positions
        self._committed: dict[str, WriterPosition] | None = None
        self._open: dict[str, WriterPosition] = {}
        self._dictionaries = Dictionaries()

    def admit(self, decoded: Decoded, *, allow_gap: bool, received_at: int) -> FrameRows | None:
        """The rows of a frame that is new; None for one that is committed, or will be with this group.

        Raises:
            Conflict: ``sequence_gap``, ``need_dictionary``.
            ParseError: ``writer_of_another_run``.
        """
        frame = decoded.frame
        at = self._position(frame.writer)
        if at is not None and at.run != frame.run:
            raise ParseError(
                f"writer {frame.writer} writes to run {at.run}, not {frame.run}", code="writer_of_another_run"
            )
        expected = at.end if at is not None else 0
        if frame.end <= expected:
            return None
        if frame.seq < expected or (frame.seq > expected and not allow_gap):
            raise Conflict(
                f"frame begins at {frame.seq}, the journal is committed up to {expected}",
                code="sequence_gap",
                hint="cut again from expected_seq",
                expected_seq=expected,
            )
        dictionary = self._dictionaries.of(frame.writer, decoded.defs)
        places = [dictionary.places(block.series) for block in decoded.blocks]
        metrics = summarize(dictionary, decoded.blocks, places) + summarize_steps(dictionary, decoded.steps)
        rows = FrameRows(
            frame=_committed(decoded, metrics, received_at),
            parts=decoded.parts,
            keys=dictionary.keys,
            points=point_columns(decoded.blocks, places),
            steps=decoded.steps,
        )
        self._open[frame.writer] = WriterPosition(frame.run, frame.end)
        return rows

    def position(self, writer: str) -> int:
        """Where the writer's next frame must begin."""
        at = self._position(writer)
        return at.end if at is not None else 0

    def committed(self) -> None:
        """The open group is on disk."""
        if self._committed is not None:
            self._committed.update(self._open)
        self._open.clear()

    def rolled_back(self) -> None:
        """The open group failed; what is on disk is read again, for a commit may fail after it took effect."""
        self._committed = None
        self._open.clear()

    def _position(self, writer: str) -> WriterPosition | None:
        if self._committed is None:
            self._committed = dict(self._read())
        return self._open.get(writer) or self._committed.get(writer)


def _committed(decoded: Decoded, metrics: list[MetricSummary], received_at: int) -> CommittedFrame:
    frame = decoded.frame
    steps = [metric.step for metric in metrics if not metric.metric.startswith(SYSTEM_PREFIX)]
    steps += [int(columns.step.max()) for columns in decoded.steps if columns.step.size]
    times = [int(block.time[: block.rows].max()) for block in decoded.blocks]
    times += [int(columns.start.max()) for columns in decoded.steps if columns.start.size]
    return CommittedFrame(
        project=frame.project,
        run=frame.run,
        writer=frame.writer,
        seq=frame.seq,
        end=frame.end,
        sent_at=frame.sent_at,
        received_at=received_at,
        source=frame.source,
        payloads=decoded.payloads,
        metrics=metrics,
        last_step=max(steps, default=None),
        last_time=max(times, default=None),
        alive=frame.alive,
    )
