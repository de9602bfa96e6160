"""Records: the bytes of a journal (docs/wire.md, Journal).

``u32 length of the content · u8 type · content · u32 CRC-32 of type and content``, little-endian. The length is written
last, so that a process killed in the middle of a record leaves a zero length: "nothing yet". Pure: no files, no clock.
"""

import struct
from collections.abc import Sequence
from typing import NamedTuple
from zlib import crc32

import msgspec

from stepward.model.frames import PhaseColumn, SeriesDef

VOID = 0
"""How a void record is read; its type and content mean nothing (``void_crc``)."""
KEYSET = 1
"""u32 id · MessagePack of [SeriesDef]: the series of the rows that name this id."""
ROW = 2
"""u32 keyset · i64 step · i64 time in µs · f64 a series."""
ROUNDED_ROW = 3
"""u16 k · u16 * k indexes of integers that f64 does not hold exactly · content of a ROW."""
PHASES = 4
"""u32 id · MessagePack of [PhaseColumn]: the phases of the step rows that name this id."""
STEP = 5
"""u32 phases · i64 step · i64 start in µs · f64 duration in s · f64 seconds a phase."""
PAYLOAD = 6
"""u8 length · kind · MessagePack of the payload of that kind."""

OVERHEAD = 9
"""Bytes of a record beside its content."""
ROW_HEAD = 20
STEP_HEAD = 28
INT64_MAX = (1 << 63) - 1

U32 = struct.Struct("<I")
_U16 = struct.Struct("<H")
_encoder = msgspec.msgpack.Encoder()
_series_decoder = msgspec.msgpack.Decoder(list[SeriesDef])
_phases_decoder = msgspec.msgpack.Decoder(list[PhaseColumn])


class Record(NamedTuple):
    """One record as read: its type and content."""

    type: int
    content: memoryview


def seal(type: int, content: bytes) -> bytes:
    """The whole record of ``content``."""
    body = bytes((type,)) + content
    return U32.pack(len(content)) + body + U32.pack(crc32(body))


def keyset(id: int, series: Sequence[SeriesDef]) -> bytes:
    """A sealed KEYSET record."""
    return seal(KEYSET, U32.pack(id) + _encoder.encode(series))


def phases(id: int, columns: Sequence[PhaseColumn]) -> bytes:
    """A sealed PHASES record."""
    return seal(PHASES, U32.pack(id) + _encoder.encode(columns))


def payload(kind: str, content: bytes) -> bytes:
    """The content of a PAYLOAD record."""
    name = kind.encode()
    return bytes((len(name),)) + name + content


def rounded_row(row: bytes, rounded: Sequence[int]) -> bytes:
    """The content of a ROUNDED_ROW record; ``row`` is the content of a ROW."""
    return _U16.pack(len(rounded)) + struct.pack(f"<{len(rounded)}H", *rounded) + row


def read_keyset(content: memoryview) -> tuple[int, list[SeriesDef]]:
    """Id and series of a KEYSET record."""
    return U32.unpack_from(content)[0], _series_decoder.decode(content[4:])


def read_phases(content: memoryview) -> tuple[int, list[PhaseColumn]]:
    """Id and columns of a PHASES record."""
    return U32.unpack_from(content)[0], _phases_decoder.decode(content[4:])


def read_payload(content: memoryview) -> tuple[str, bytes]:
    """Kind and MessagePack of a PAYLOAD record."""
    start = 1 + content[0]
    return bytes(content[1:start]).decode(), bytes(content[start:])


def read_rounded(content: memoryview) -> tuple[tuple[int, ...], memoryview]:
    """Marks and row of a ROUNDED_ROW record."""
    (count,) = _U16.unpack_from(content)
    start = 2 + 2 * count
    return struct.unpack_from(f"<{count}H", content, 2), content[start:]


def void_crc(crc: int) -> int:
    """The checksum that makes a record void: the complement of the right one.

    A signal handler that wants to write while a row is half written closes the row's place this way. The type and content
    stay as they are, so that the interrupted row needs only its checksum to be whole.
    """
    return crc ^ 0xFFFFFFFF


def points_of(type: int, length: int) -> int:
    """Points in a record, for the size of a frame; marks of rounded rows are taken as part of them."""
    return (length - ROW_HEAD) // 8 if type in (ROW, ROUNDED_ROW) else 0


def clamp(number: int) -> int:
    """``number`` within int64."""
    return max(-INT64_MAX - 1, min(INT64_MAX, number))


class Shape:
    """Layout of the records of one keyset or phase set: what the hot path needs, computed once."""

    __slots__ = ("columns", "definition", "id", "length", "pack_into", "points", "size")

    def __init__(self, id: int, columns: int, definition: bytes, points: int) -> None:
        body = struct.Struct(f"<BIqq{columns}d")
        self.pack_into = body.pack_into
        self.id = id
        self.length = body.size - 1
        self.size = self.length + OVERHEAD
        self.columns = columns
        self.points = points
        self.definition = definition
