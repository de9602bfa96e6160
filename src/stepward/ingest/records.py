"""A committed frame as bytes: what the points store keeps until every applier has seen it.

It holds the raw parts and the metric summaries, which the points alone would not give back; not the points themselves.
"""

import logging
import zlib

import msgspec

from stepward.errors import ParseError
from stepward.ingest.protocols import CommittedFrame, FrameRows, MetricSummary
from stepward.model import frames
from stepward.model.frames import Part, Payload, Source


class _Record(msgspec.Struct, frozen=True, kw_only=True):
    project: str
    run: str
    writer: str
    seq: int
    end: int
    sent_at: int
    received_at: int
    source: Source
    parts: list[Part]
    metrics: list[MetricSummary]
    last_step: int | None
    last_time: int | None
    alive: bool = False


_log = logging.getLogger("stepward.ingest")
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_Record)


def encode_record(rows: FrameRows) -> bytes:
    """The bytes of a committed frame."""
    frame = rows.frame
    record = _Record(
        project=frame.project,
        run=frame.run,
        writer=frame.writer,
        seq=frame.seq,
        end=frame.end,
        sent_at=frame.sent_at,
        received_at=frame.received_at,
        source=frame.source,
        parts=rows.parts,
        metrics=frame.metrics,
        last_step=frame.last_step,
        last_time=frame.last_time,
        alive=frame.alive,
    )
    return zlib.compress(_encoder.encode(record), 1)


def decode_record(data: bytes) -> CommittedFrame:
    """The frame that ``encode_record`` wrote; parts that this version does not know or would not take are left out."""
    record = _decoder.decode(zlib.decompress(data))
    payloads = [(part.kind, _payload(part, record)) for part in record.parts]
    return CommittedFrame(
        project=record.project,
        run=record.run,
        writer=record.writer,
        seq=record.seq,
        end=record.end,
        sent_at=record.sent_at,
        received_at=record.received_at,
        source=record.source,
        payloads=[(kind, content) for kind, content in payloads if content is not None],
        metrics=record.metrics,
        last_step=record.last_step,
        last_time=record.last_time,
        alive=record.alive,
    )


def _payload(part: Part, record: _Record) -> Payload | None:
    try:
        return frames.payload(part)
    except ParseError as error:
        # An older version took it. It is kept as it came; one part is no reason for a server not to start.
        _log.warning("%s, frame %d of %s is left out: %s", record.run, record.seq, record.writer, error.message)
        return None
