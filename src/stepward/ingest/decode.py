"""From the bytes of a frame to columns, with everything checked before anything is written.

Points stay in numpy from here to the engine: one pass a block, none a point. A block's rows x series become columns series
by series, so that a series lies together in the store. No dictionary and no store is needed here: it runs in any thread.
"""

from typing import NamedTuple

import msgspec
import numpy as np

from stepward.errors import ParseError
from stepward.ingest.protocols import Bools, Floats, Ints, StepColumns
from stepward.model import frames
from stepward.model.frames import Block, Frame, Part, Payload, Points, SeriesDef, Steps
from stepward.model.identity import attempt_key

MAX_RANK = (1 << 31) - 1


class BlockColumns(NamedTuple):
    """A block of n rows x k series as columns of n * k points, series by series.

    ``series`` are the writer's numbers. ``newest`` is the row of the highest step, then the latest time, then the last.
    """

    series: list[int]
    rows: int
    step: Ints
    time: Ints
    value: Floats
    rounded: Bools
    newest: int


class Decoded(msgspec.Struct, frozen=True):
    """A frame whose content was checked.

    Attributes:
        parts, payloads: every part but ``points`` and ``steps``: all as they came; those of known kinds, read.
        points: number of points.
        nbytes: memory that it holds, about.
    """

    frame: Frame
    defs: list[SeriesDef]
    blocks: list[BlockColumns]
    steps: list[StepColumns]
    parts: list[Part]
    payloads: list[tuple[str, Payload]]
    points: int
    nbytes: int


def decode_frame(data: bytes) -> Decoded:
    """Read and check a frame.

    Raises:
        TooLarge, IncompatibleVersion, ParseError: see ``frames.decode``.
    """
    frame = _bounded(frames.decode(data))
    _check_number("rank", frame.source.rank)
    defs: list[SeriesDef] = []
    blocks: list[BlockColumns] = []
    steps: list[StepColumns] = []
    parts: list[Part] = []
    payloads: list[tuple[str, Payload]] = []
    for part in frame.parts:
        content = frames.payload(part)
        if isinstance(content, Points):
            for definition in content.defs:
                _check_number("device", definition.device)
                _check_number("rank", definition.rank)
            defs += content.defs
            blocks += [_block_columns(block) for block in content.blocks if block.steps]
        elif isinstance(content, Steps):
            steps.append(_step_columns(content))
        else:
            parts.append(part)
            if content is not None:
                payloads.append((part.kind, content))
    points = sum(len(block.value) for block in blocks)
    raw = sum(memoryview(part.payload).nbytes for part in parts)
    nbytes = 32 * points + 2 * raw + len(data) + 64 * sum(column.seconds.size + 3 for column in steps)
    return Decoded(frame, defs, blocks, steps, parts, payloads, points, nbytes)


def _bounded(frame: Frame) -> Frame:
    """The frame with an attempt key that catalog, points and output keep alike."""
    key = attempt_key(frame.source.attempt)
    if key == frame.source.attempt:
        return frame
    return msgspec.structs.replace(frame, source=msgspec.structs.replace(frame.source, attempt=key))


def _block_columns(block: Block) -> BlockColumns:
    columns = len(block.series)
    steps = np.frombuffer(block.steps, np.int64)
    times = np.frombuffer(block.times, np.int64)
    values = np.frombuffer(block.values, np.float64).reshape(len(steps), columns)
    rounded = np.zeros(values.size, np.bool_)
    if block.rounded:
        rounded[block.rounded] = True
        rounded = rounded.reshape(values.shape).T.ravel()
    return BlockColumns(
        series=block.series,
        rows=len(steps),
        step=np.tile(steps, columns),
        time=np.tile(times, columns),
        value=values.T.ravel(),
        rounded=rounded,
        newest=int(np.lexsort((times, steps))[-1]),
    )


def _step_columns(steps: Steps) -> StepColumns:
    rows = len(steps.steps) // 8
    return StepColumns(
        phases=steps.phases,
        step=np.frombuffer(steps.steps, np.int64),
        start=np.frombuffer(steps.starts, np.int64),
        duration=np.frombuffer(steps.durations, np.float64),
        seconds=np.frombuffer(steps.seconds, np.float64).reshape(rows, len(steps.phases)),
    )


def _check_number(what: str, number: int | None) -> None:
    if number is not None and not 0 <= number <= MAX_RANK:
        raise ParseError(
            f"malformed frame: {number} is no {what}", code="frame_malformed", hint="nothing of it was stored"
        )
