"""Event files: scalars of every kind, what is passed over, files that grow, break off, or are damaged."""

import math
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepward.errors import ParseError, UsageError
from stepward.importers.tensorboard import EventFile, fields, folders, masked_crc, scalars


def varint(value: int) -> bytes:
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def blob(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def event(step: int, *values: bytes, wall: float = 1.5) -> bytes:
    summary = b"".join(blob(1, value) for value in values)
    return b"\x09" + struct.pack("<d", wall) + b"\x10" + varint(step & (1 << 64) - 1) + blob(5, summary)


def simple(tag: str, value: float) -> bytes:
    return blob(1, tag.encode()) + b"\x15" + struct.pack("<f", value)


def tensor(tag: str, content: bytes, plugin: bytes = b"scalars") -> bytes:
    return blob(1, tag.encode()) + blob(9, blob(1, blob(1, plugin))) + blob(8, content)


def record(data: bytes) -> bytes:
    head = struct.pack("<Q", len(data))
    return head + struct.pack("<I", masked_crc(head)) + data + b"\0\0\0\0"


def test_the_checksum_is_that_of_tfrecords() -> None:
    assert masked_crc(b"123456789") == ((0xE3069283 >> 15 | 0xE3069283 << 17) + 0xA282EAD8) & 0xFFFFFFFF


@given(step=st.integers(-(1 << 63), (1 << 63) - 1), value=st.floats(width=32))
def test_a_simple_value_is_a_point(step: int, value: float) -> None:
    (point,) = scalars(event(step, simple("loss", value)))
    assert (point.metric, point.step, point.time_us) == ("loss", step, 1_500_000)
    assert point.value == value or (math.isnan(value) and math.isnan(point.value))


@pytest.mark.parametrize(
    ("content", "value"),
    [
        (b"\x08\x01" + blob(4, struct.pack("<f", 0.5)), 0.5),
        (b"\x08\x02" + blob(4, struct.pack("<d", 0.1)), 0.1),
        (b"\x08\x01" + blob(5, struct.pack("<f", 2.0)), 2.0),
        (b"\x08\x03" + blob(7, varint(7)), 7.0),
        (b"\x08\x09" + blob(10, varint((1 << 64) - 3)), -3.0),
    ],
    ids=["float bytes", "double bytes", "float list", "int list", "negative int64 list"],
)
def test_a_tensor_of_one_number_is_a_point(content: bytes, value: float) -> None:
    assert [point.value for point in scalars(event(1, tensor("m", content)))] == [value]


@pytest.mark.parametrize(
    ("wall", "time_us"),
    [(1e300, (1 << 63) - 1), (-1e300, 1 - (1 << 63)), (1e308, 0), (math.inf, 0), (math.nan, 0)],
)
def test_a_clock_that_cannot_be_true_loses_no_point(wall: float, time_us: int) -> None:
    (point,) = scalars(event(1, simple("loss", 2.0), wall=wall))
    assert (point.value, point.time_us) == (2.0, time_us)


def test_everything_else_is_passed_over() -> None:
    many = b"\x08\x01" + blob(4, struct.pack("<2f", 1, 2))
    image = tensor("picture", b"\x08\x01" + blob(4, struct.pack("<f", 1)), plugin=b"images")
    assert list(scalars(event(1, tensor("m", many), image, blob(1, b"no value")))) == []
    assert list(scalars(blob(3, b"brain.Event:2"))) == []


def test_a_file_is_read_on_as_it_grows(tmp_path: Path) -> None:
    path = tmp_path / "events.out.tfevents.1"
    whole = record(event(1, simple("m", 1))) + record(event(2, simple("m", 2)))
    file = EventFile(str(path))
    steps = []
    for end in range(0, len(whole) + 1, 7):
        path.write_bytes(whole[:end])
        steps += [point.step for point in file.read()]
    path.write_bytes(whole)
    steps += [point.step for point in file.read()]
    assert steps == [1, 2]
    assert file.damaged is None


def test_a_damaged_length_ends_the_file_and_is_said(tmp_path: Path) -> None:
    path = tmp_path / "events.out.tfevents.1"
    good = record(event(1, simple("m", 1)))
    path.write_bytes(good + b"\xff" * 40)
    file = EventFile(str(path))
    assert [point.step for point in file.read()] == [1]
    assert f"byte {len(good)}" in str(file.damaged)
    assert list(file.read()) == []


PIECES = st.sampled_from(
    [blob(5, blob(1, simple("m", 1))), b"\x09", b"\x0a\x01x", blob(5, blob(1, blob(2, b"x"))), b"*"]
)


@given(st.binary(max_size=60) | st.lists(PIECES | st.binary(max_size=4), max_size=6).map(b"".join))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        list(scalars(data))
        list(fields(data))
    except ParseError as refused:
        assert refused.code == "not_an_event"


def test_folders_with_event_files_are_runs(tmp_path: Path) -> None:
    for place in ("", "a", "a/b"):
        (tmp_path / place).mkdir(exist_ok=True)
        (tmp_path / place / "events.out.tfevents.1").touch()
    (tmp_path / "none").mkdir()
    assert [folder.name for folder in folders(str(tmp_path))] == [tmp_path.name, "a", "a/b"]
    with pytest.raises(UsageError) as refused:
        folders(str(tmp_path / "none"))
    assert refused.value.code == "no_event_files"
