"""A committed frame comes back for the appliers, whatever an older version let into it."""

from typing import Any

import msgspec

from stepward.ingest.protocols import CommittedFrame, FrameRows
from stepward.ingest.records import decode_record, encode_record
from stepward.model import frames
from stepward.model.frames import MAX_DEPTH, Config, Part, Source, Status
from stepward.model.words import SourceKind


def stored(*parts: Part) -> CommittedFrame:
    source = Source(kind=SourceKind.RANK, attempt="a")
    frame = CommittedFrame(
        project="p", run="r", writer="w", seq=0, end=9, sent_at=1, received_at=2, source=source, payloads=[], metrics=[]
    )
    return decode_record(encode_record(FrameRows(frame=frame, parts=list(parts), keys=[], points=None, steps=[])))


def test_parts_that_this_version_would_not_take_are_left_out_and_the_rest_is_there() -> None:
    deep: dict[str, Any] = {}
    for _ in range(MAX_DEPTH + 1):
        deep = {"a": deep}
    beat = Status(at=7)
    read = stored(
        frames.part("config", Config(user=deep)),
        Part("status", msgspec.Raw(b"\xc0")),
        Part("later", msgspec.Raw(b"\x01")),
        frames.part("status", beat),
    )
    assert read.payloads == [("status", beat)]
    assert (read.run, read.writer, read.end) == ("r", "w", 9)
