"""Frames that came over the wire: whole or refused with a stable code, never anything else."""

import math
import struct

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepward.errors import ParseError, StepwardError
from stepward.ingest.decode import decode_frame
from stepward.ingest.dictionary import Dictionaries, point_columns, summarize
from stepward.model import frames
from stepward.model.frames import Block, Part, PhaseColumn, Points, SeriesDef, Source, Status, Steps
from stepward.model.words import SourceKind
from stepward.testing.frames import FrameWriter, points_part

REFUSALS = {"frame_damaged", "frame_malformed", "frame_too_large", "frame_version"}


def a_frame() -> bytes:
    steps = Steps([PhaseColumn("forward")], bytes(8), bytes(8), struct.pack("<d", 0.5), struct.pack("<d", math.nan))
    parts = [
        points_part([("loss", None), ("lr", None)], [1, 2], [10, 20], [[0.5, 1.0], [math.nan, 2.0]], rounded=[2]),
        frames.part("steps", steps),
        frames.part("status", Status(at=1)),
    ]
    return FrameWriter().encoded(*parts)


def test_a_block_becomes_columns_series_by_series() -> None:
    decoded = decode_frame(a_frame())
    (block,) = decoded.blocks
    assert block.step.tolist() == [1, 2, 1, 2]
    assert block.time.tolist() == [10, 20, 10, 20]
    np.testing.assert_array_equal(block.value, [0.5, math.nan, 1.0, 2.0])
    assert block.rounded.tolist() == [False, True, False, False]
    assert (decoded.points, block.newest, [kind for kind, _ in decoded.payloads]) == (4, 1, ["status"])


@given(st.data())
def test_a_damaged_byte_is_refused_with_a_stable_code(data: st.DataObject) -> None:
    good = bytearray(a_frame())
    at = data.draw(st.integers(0, len(good) - 1))
    good[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(StepwardError) as refused:
        decode_frame(bytes(good))
    assert refused.value.code in REFUSALS


hostile = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 64) - 1) | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=8,
)


@given(kind=st.sampled_from([*frames.KINDS, "unknown"]), content=hostile)
def test_any_content_is_read_or_refused_with_a_stable_code(kind: str, content: object) -> None:
    part = Part(kind, msgspec.Raw(msgspec.msgpack.encode(content)))
    try:
        decoded = decode_frame(FrameWriter().encoded(part))
    except StepwardError as refused:
        assert refused.code in REFUSALS
    else:
        assert kind in {"points", "steps"} or decoded.parts == [part]


@pytest.mark.parametrize("rank", [-1, 1 << 31])
def test_a_rank_or_device_that_is_none_is_malformed(rank: int) -> None:
    source = Source(kind=SourceKind.RANK, attempt="a", rank=rank)
    with pytest.raises(ParseError, match="no rank"):
        decode_frame(FrameWriter(source=source).encoded())
    with pytest.raises(ParseError, match="no device"):
        decode_frame(FrameWriter().encoded(points_part([("m", rank)], [], [], [])))


rows = st.lists(
    st.tuples(st.integers(-3, 3), st.integers(0, 3), st.lists(st.floats(), min_size=3, max_size=3)), min_size=1
)


@given(blocks=st.lists(rows, min_size=1, max_size=4))
def test_a_summary_is_what_the_points_of_a_frame_say(blocks: list[list[tuple[int, int, list[float]]]]) -> None:
    names = [("m", 1), ("m", 0), ("n", None)]
    points = Points([SeriesDef(at, name, "", device) for at, (name, device) in enumerate(names)], [])
    for block in blocks:
        columns = [np.array([row[at] for row in block], np.int64).tobytes() for at in (0, 1)]
        values = np.array([row[2] for row in block], np.float64).tobytes()
        points.blocks.append(Block([0, 1, 2], *columns, values))
    decoded = decode_frame(FrameWriter().encoded(frames.part("points", points)))
    dictionary = Dictionaries().of("w", decoded.defs)
    places = [dictionary.places(block.series) for block in decoded.blocks]
    summaries = {summary.metric: summary for summary in summarize(dictionary, decoded.blocks, places)}

    flat = [row for block in blocks for row in block]
    best = max(enumerate(flat), key=lambda item: (item[1][0], item[1][1], item[0]))[1]
    for metric, column, times in (("m", 1, 2), ("n", 2, 1)):
        summary = summaries[metric]
        assert (summary.step, summary.time) == best[:2]
        np.testing.assert_equal(summary.value, best[2][column])
        assert (summary.count, summary.first_step) == (times * len(flat), min(row[0] for row in flat))
    columns_ = point_columns(decoded.blocks, places)
    assert columns_ is not None
    assert len(columns_.value) == 3 * len(flat)


def test_an_attempt_key_that_is_too_long_is_the_same_for_every_store() -> None:
    source = Source(kind=SourceKind.RANK, attempt="a" * 3000, rank=0)
    kept = decode_frame(FrameWriter(source=source).encoded(frames.part("status", Status(at=1)))).frame.source
    assert len(kept.attempt) == 1024 and kept.rank == 0
