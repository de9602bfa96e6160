"""Points store and applier in memory, for tests of what stands before and behind them."""

from collections.abc import Callable, Mapping, Sequence

from stepward.errors import StepwardError
from stepward.ingest.protocols import CommittedFrame, FrameRows, WriterPosition


class MemoryPoints:
    """The writing half of a points store.

    Attributes:
        rows: what is committed, by project, in order.
        fail: called with the frames of each commit before it takes effect; may raise.
        fail_after: the same, after it took effect: a commit whose outcome nobody is told.
    """

    def __init__(self) -> None:
        self.rows: dict[str, list[FrameRows]] = {}
        self.settled: dict[str, int] = {}
        self.commits = 0
        self.fail: Callable[[Sequence[FrameRows]], None] = lambda _: None
        self.fail_after: Callable[[Sequence[FrameRows]], None] = lambda _: None

    def projects(self) -> list[str]:
        """Projects with frames."""
        return sorted(self.rows)

    def positions(self, project: str) -> Mapping[str, WriterPosition]:
        """Newest end of each writer."""
        return {
            rows.frame.writer: WriterPosition(rows.frame.run, rows.frame.end) for rows in self.rows.get(project, [])
        }

    def commit(self, project: str, frames: Sequence[FrameRows]) -> None:
        """Keep frames, all or none."""
        self.fail(frames)
        self.rows.setdefault(project, []).extend(frames)
        self.commits += 1
        self.fail_after(frames)

    def unsettled(self, project: str) -> list[CommittedFrame]:
        """Frames that were not settled."""
        before = self.settled.get(project, -1)
        return [rows.frame for rows in self.rows.get(project, []) if rows.frame.received_at >= before]

    def settle(self, project: str, before: int) -> None:
        """Remember up to when."""
        self.settled[project] = before


class MemoryApplier:
    """An applier that remembers.

    Attributes:
        frames: what was applied, in order.
        error: raised instead of applying, while it is set.
        poison: a writer whose frames it chokes on.
    """

    def __init__(self) -> None:
        self.frames: list[CommittedFrame] = []
        self.error: StepwardError | None = None
        self.poison: str | None = None

    def apply(self, frames: Sequence[CommittedFrame]) -> None:
        """Take frames, those that it has left out."""
        if self.error is not None:
            raise self.error
        if any(frame.writer == self.poison for frame in frames):
            raise ZeroDivisionError("poison")
        done = self.applied(frames[0].project)
        self.frames += [frame for frame in frames if frame.end > done.get(frame.writer, 0)]

    def applied(self, project: str) -> dict[str, int]:
        """Newest end of each writer."""
        return {frame.writer: frame.end for frame in self.frames if frame.project == project}
