"""A writer of frames without a spool, for tests and benchmarks."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from stepward.model import frames
from stepward.model.frames import Block, Frame, Part, PhaseColumn, Points, SeriesDef, Source, Steps
from stepward.model.words import SourceKind


class FrameWriter:
    """Cuts frames of one writer, each behind the last.

    Args:
        bytes_a_frame: how far the journal goes on with each frame.
    """

    def __init__(
        self,
        run: str = "run_a",
        writer: str = "w0",
        *,
        project: str = "p",
        source: Source | None = None,
        bytes_a_frame: int = 100,
    ) -> None:
        self.run = run
        self.writer = writer
        self.project = project
        self.source = source or Source(kind=SourceKind.RANK, attempt="a0", rank=0, node="n0")
        self.position = 0
        self._bytes = bytes_a_frame

    def frame(self, *parts: Part, sent_at: int = 0) -> Frame:
        """The next frame."""
        begin, self.position = self.position, self.position + self._bytes
        return Frame(
            project=self.project,
            run=self.run,
            writer=self.writer,
            seq=begin,
            end=self.position,
            sent_at=sent_at,
            source=self.source,
            parts=list(parts),
        )

    def encoded(self, *parts: Part) -> bytes:
        """The next frame, encoded."""
        return frames.encode(self.frame(*parts))


def points_part(
    names: Sequence[tuple[str, int | None] | tuple[str, int | None, int | None]],
    steps: ArrayLike,
    times: ArrayLike,
    values: ArrayLike,
    *,
    define: bool = True,
    first: int = 0,
    rounded: Sequence[int] = (),
) -> Part:
    """One block of points: a row a step, a column a (metric, device[, rank]); series are numbered from ``first`` on."""
    numbers = list(range(first, first + len(names)))
    defs = [
        SeriesDef(number, metric, "", *about) for number, (metric, *about) in zip(numbers, names, strict=True) if define
    ]
    block = Block(
        numbers,
        np.asarray(steps, np.int64).tobytes(),
        np.asarray(times, np.int64).tobytes(),
        np.asarray(values, np.float64).tobytes(),
        list(rounded),
    )
    return frames.part("points", Points(defs, [block]))


def steps_part(
    phases: Sequence[PhaseColumn], steps: ArrayLike, starts: ArrayLike, durations: ArrayLike, seconds: ArrayLike
) -> Part:
    """Rows of the table of steps; ``seconds`` has a row a step, a column a phase, NaN where it was not measured."""
    table = Steps(
        list(phases),
        np.asarray(steps, np.int64).tobytes(),
        np.asarray(starts, np.int64).tobytes(),
        np.asarray(durations, np.float64).tobytes(),
        np.asarray(seconds, np.float64).tobytes(),
    )
    return frames.part("steps", table)
