"""Scalars from TensorBoard's event files, read without TensorBoard.

An event file is a sequence of TFRecords (length, masked CRC-32C of the length, data, masked CRC-32C of the data) that each
hold an ``Event`` protocol buffer. Scalars are ``simple_value`` (TensorFlow 1, PyTorch) or a tensor with one number of the
plugin ``scalars`` (TensorFlow 2). Anything else is passed over. A reader goes on where it stopped, so that a file that
still grows can be followed.
"""

import math
import os
import struct
from collections.abc import Callable, Iterator
from typing import NamedTuple

from stepward.errors import ParseError, UsageError
from stepward.importers.journaled import ImportedPoint

_LENGTH, _CRC = struct.Struct("<Q"), struct.Struct("<I")
_TENSORS = {1: "f", 2: "d", 3: "i", 9: "q"}
"""``DataType`` of a tensor -> how its bytes are read: float, double, int32, int64."""
_MAX_RECORD = 1 << 30
_FAR_US = (1 << 63) - 1

Field = tuple[int, int | bytes]


class EventFile:
    """Reads one event file; ``read`` again gives what was added.

    Attributes:
        damaged: why nothing behind ``position`` can be read.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.position = 0
        self.damaged: str | None = None

    def read(self) -> Iterator[ImportedPoint]:
        """The scalars of the whole records behind ``position``."""
        try:
            with open(self.path, "rb") as file:
                file.seek(self.position)
                while (data := self._record(file.read)) is not None:
                    yield from scalars(data)
                    self.position = file.tell()
        except OSError as error:
            raise UsageError(f"{self.path} can't be read: {error.strerror}", code="unreadable_file") from None

    def _record(self, read: Callable[[int], bytes]) -> bytes | None:
        head = read(_LENGTH.size + _CRC.size)
        if self.damaged or len(head) < _LENGTH.size + _CRC.size:
            return None
        (length,), (check,) = _LENGTH.unpack_from(head), _CRC.unpack_from(head, _LENGTH.size)
        if length > _MAX_RECORD or check != masked_crc(head[: _LENGTH.size]):
            self.damaged = f"a length at byte {self.position} has a wrong checksum"
            return None
        data = read(length + _CRC.size)
        return data[:length] if len(data) == length + _CRC.size else None


class Folder(NamedTuple):
    """A folder that has event files is a run, as TensorBoard sees it."""

    name: str
    files: list[str]


def folders(root: str) -> list[Folder]:
    """Every folder below ``root`` with event files, named by its path from there.

    Raises:
        UsageError: ``no_event_files``.
    """
    found = []
    for path, _, names in sorted(os.walk(root)):
        events = sorted(f"{path}/{name}" for name in names if "tfevents" in name)
        if events:
            name = os.path.relpath(path, root)
            found.append(Folder(os.path.basename(os.path.abspath(root)) if name == "." else name, events))
    if not found:
        raise UsageError(f"{root} has no event files", code="no_event_files", hint="files named *tfevents*")
    return found


def scalars(event: bytes) -> Iterator[ImportedPoint]:
    """The scalars of one event."""
    wall_time, step, summaries = 0.0, 0, []
    for number, value in fields(event):
        if number == 1 and isinstance(value, bytes):
            wall_time = _float("<d", value)
        elif number == 2 and isinstance(value, int):
            step = _signed(value)
        elif number == 5 and isinstance(value, bytes):
            summaries.append(value)
    # A clock that cannot be true is no reason to lose the points: they keep what 64 bits can say of it.
    time_us = max(-_FAR_US, min(_FAR_US, round(wall_time * 1e6))) if math.isfinite(wall_time * 1e6) else 0
    for summary in summaries:
        for number, value in fields(summary):
            if number == 1 and isinstance(value, bytes):
                tag, scalar = _scalar(value)
                if tag and scalar is not None:
                    yield ImportedPoint(tag, step, time_us, scalar)


def _scalar(summary: bytes) -> tuple[str, float | None]:
    tag, simple, tensor, plugin = "", None, None, ""
    for number, value in fields(summary):
        if not isinstance(value, bytes):
            continue
        if number == 1:
            tag = value.decode(errors="replace")
        elif number == 2:
            simple = _float("<f", value)
        elif number == 8:
            tensor = value
        elif number == 9:
            plugin = _plugin(value)
    if simple is None and tensor is not None and plugin == "scalars":
        simple = _number(tensor)
    return tag, simple


def _plugin(metadata: bytes) -> str:
    for number, value in fields(metadata):
        if number == 1 and isinstance(value, bytes):
            for inner, name in fields(value):
                if inner == 1 and isinstance(name, bytes):
                    return name.decode(errors="replace")
    return ""


def _number(tensor: bytes) -> float | None:
    """The one number of a tensor, from its bytes or from its list of values."""
    kind, content = 0, b""
    for number, value in fields(tensor):
        if number == 1 and isinstance(value, int):
            kind = value
        elif number in (4, 5, 6) and isinstance(value, bytes):
            content = value
        elif number in (7, 10) and isinstance(value, bytes):
            try:
                numbers = list(_varints(value))
            except IndexError:
                raise _not_an_event() from None
            return float(_signed(numbers[0])) if len(numbers) == 1 else None
    code = _TENSORS.get(kind)
    if code is None or len(content) != struct.calcsize(code):
        return None
    return float(struct.unpack(f"<{code}", content)[0])


def fields(message: bytes) -> Iterator[Field]:
    """The fields of a protocol buffer: numbers as they are, the rest as bytes.

    Raises:
        ParseError: ``not_an_event``.
    """
    at, end = 0, len(message)
    try:
        while at < end:
            key, at = _varint(message, at)
            wire = key & 7
            if wire == 0:
                value, at = _varint(message, at)
                yield key >> 3, value
                continue
            size = {1: 8, 5: 4}.get(wire, 0)
            if wire == 2:
                size, at = _varint(message, at)
            if wire not in (1, 2, 5) or at + size > end:
                raise IndexError
            yield key >> 3, message[at : at + size]
            at += size
    except IndexError:
        raise _not_an_event() from None


def _float(code: str, data: bytes) -> float:
    if len(data) != struct.calcsize(code):
        raise _not_an_event()
    return float(struct.unpack(code, data)[0])


def _not_an_event() -> ParseError:
    return ParseError("an event of the file is not understood", code="not_an_event")


def _varints(data: bytes) -> Iterator[int]:
    at = 0
    while at < len(data):
        value, at = _varint(data, at)
        yield value


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value & (1 << 64) - 1, at
        if shift > 63:
            raise IndexError


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def masked_crc(data: bytes) -> int:
    """CRC-32C, rotated and shifted as TFRecords have it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
