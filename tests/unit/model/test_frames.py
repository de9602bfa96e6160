"""The wire: what is encoded comes back, and whatever is damaged is refused whole, with a stable code."""

import struct
import zlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepward.errors import IncompatibleVersion, ParseError, StepwardError, TooLarge
from stepward.model import frames
from stepward.model.frames import Block, Frame, LogChunk, Logs, PhaseColumn, Points, SeriesDef, Source, Steps
from stepward.model.states import Exit, Witness
from stepward.model.words import SourceKind

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)


def ints(values: list[int]) -> bytes:
    return struct.pack(f"<{len(values)}q", *values)


def floats(values: list[float]) -> bytes:
    return struct.pack(f"<{len(values)}d", *values)


@st.composite
def blocks(draw: st.DrawFn) -> Block:
    series = draw(st.lists(st.integers(0, 1 << 31), min_size=1, max_size=5, unique=True))
    rows = draw(st.integers(0, 6))
    column = st.lists(INT64, min_size=rows, max_size=rows)
    values = draw(st.lists(st.floats(), min_size=rows * len(series), max_size=rows * len(series)))
    return Block(series, ints(draw(column)), ints(draw(column)), floats(values))


names = st.text(min_size=1, max_size=1024)
ids = st.from_regex(r"[A-Za-z0-9_-]{1,64}", fullmatch=True)
payloads = st.one_of(
    st.builds(Points, st.lists(st.builds(SeriesDef, st.integers(0, 1 << 31), names, st.just("s"))), st.lists(blocks())),
    st.builds(Logs, st.lists(st.builds(LogChunk, names, st.integers(0, 1 << 62), st.binary(), st.just([])))),
    st.builds(Exit, at=INT64, by=st.sampled_from(Witness), exit_code=st.none() | st.integers(0, 255)),
)


@st.composite
def some_frames(draw: st.DrawFn) -> Frame:
    seq = draw(st.integers(0, 1 << 62))
    contents = draw(st.lists(payloads, max_size=3))
    kind_of = {kind: name for name, kind in frames.KINDS.items()}
    return Frame(
        project=draw(names),
        run=draw(ids),
        writer=draw(ids),
        seq=seq,
        end=seq + draw(st.integers(1, 1 << 20)),
        sent_at=draw(INT64),
        source=Source(kind=draw(st.sampled_from(SourceKind)), attempt=draw(st.text()), rank=draw(st.none() | INT64)),
        parts=[frames.part(kind_of[type(content)], content) for content in contents],
    )


def contents(frame: Frame) -> list[object]:
    return [frames.payload(part) for part in frame.parts]


def same(left: object, right: object) -> bool:
    """Equality that takes NaN for NaN: by the bytes that both encode to."""
    return msgspec.msgpack.encode(left) == msgspec.msgpack.encode(right)


@given(some_frames(), st.sampled_from([0, 1, 9]))
def test_what_is_encoded_comes_back(frame: Frame, level: int) -> None:
    read = frames.decode(frames.encode(frame, level=level))
    assert (read.project, read.run, read.writer, read.seq, read.end) == (
        frame.project,
        frame.run,
        frame.writer,
        frame.seq,
        frame.end,
    )
    assert read.source == frame.source
    assert same(contents(read), contents(frame))


@given(some_frames(), st.data())
def test_one_damaged_byte_is_refused_whole(frame: Frame, data: st.DataObject) -> None:
    sound = frames.encode(frame)
    at = data.draw(st.integers(0, len(sound) - 1))
    damaged = bytearray(sound)
    damaged[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises((ParseError, IncompatibleVersion, TooLarge)) as refused:
        frames.decode(bytes(damaged))
    assert refused.value.code in {"frame_damaged", "frame_version", "frame_too_large"}


@given(some_frames(), st.data())
def test_a_frame_cut_short_or_grown_is_refused(frame: Frame, data: st.DataObject) -> None:
    sound = frames.encode(frame)
    with pytest.raises(ParseError, match="damaged"):
        frames.decode(sound[: data.draw(st.integers(0, len(sound) - 1))])
    with pytest.raises(ParseError, match="damaged"):
        frames.decode(sound + data.draw(st.binary(min_size=1)))


@given(st.binary(max_size=200))
def test_noise_is_no_frame(noise: bytes) -> None:
    with pytest.raises(StepwardError):
        frames.decode(noise)


@given(st.binary(max_size=200))
def test_noise_behind_a_sound_head_is_malformed(noise: bytes) -> None:
    """The checksum fits, the content does not: still refused, never a foreign exception."""
    for body, flags in ((noise, 0), (zlib.compress(noise), frames.COMPRESSED)):
        head = struct.pack("<4sBBHI", frames.MAGIC, frames.MAJOR, 0, flags, len(body))
        crc = struct.pack("<I", zlib.crc32(body, zlib.crc32(head)))
        with pytest.raises(ParseError) as refused:
            frames.decode(head + crc + body)
        assert refused.value.code == "frame_malformed"


def test_a_small_body_may_not_unfold_without_limit() -> None:
    body = zlib.compress(b"\0" * (frames.MAX_INFLATED_BYTES + 1), 9)
    head = struct.pack("<4sBBHI", frames.MAGIC, frames.MAJOR, 0, frames.COMPRESSED, len(body))
    with pytest.raises(TooLarge):
        frames.decode(head + struct.pack("<I", zlib.crc32(body, zlib.crc32(head))) + body)


def test_another_major_version_says_which_side_to_upgrade() -> None:
    sound = bytearray(frames.encode(a_frame([])))
    sound[4] = frames.MAJOR + 1
    with pytest.raises(IncompatibleVersion, match="upgrade the server"):
        frames.decode(bytes(sound))


def test_a_part_of_an_unknown_kind_is_kept_as_it_came() -> None:
    tomorrow = frames.Part("histograms", msgspec.Raw(msgspec.msgpack.encode({"bins": [1, 2, 3]})))
    read = frames.decode(frames.encode(a_frame([tomorrow]))).parts[0]
    assert read.kind == "histograms"
    assert bytes(read.payload) == bytes(tomorrow.payload)
    assert frames.payload(read) is None


BAD_PAYLOADS = {
    "no series": Points([], [Block([], ints([1]), ints([1]), b"")]),
    "a series twice": Points([], [Block([1, 1], ints([1]), ints([1]), floats([1, 2]))]),
    "too few values": Points([], [Block([1, 2], ints([1]), ints([1]), floats([1]))]),
    "half a step": Points([], [Block([1], ints([1])[:4], ints([1]), floats([1]))]),
    "times missing": Points([], [Block([1], ints([1]), b"", floats([1]))]),
    "mark outside": Points([], [Block([1], ints([1]), ints([1]), floats([1]), rounded=[1])]),
    "empty metric": Points([SeriesDef(1, "")], []),
    "long metric": Points([SeriesDef(1, "x" * 1025)], []),
    "steps of other lengths": Steps([PhaseColumn("forward")], ints([1]), ints([1]), floats([1]), b""),
    "empty phase": Steps([PhaseColumn("")], ints([1]), ints([1]), floats([1]), floats([1])),
    "log before its stream": Logs([LogChunk("stdout", -1, b"x", [])]),
    "log mark outside": Logs([LogChunk("stdout", 0, b"x", [(2, 0)])]),
}


@pytest.mark.parametrize("content", BAD_PAYLOADS.values(), ids=BAD_PAYLOADS.keys())
def test_a_part_that_contradicts_itself_is_malformed(content: frames.Payload) -> None:
    kind = next(name for name, struct_type in frames.KINDS.items() if struct_type is type(content))
    with pytest.raises(ParseError) as refused:
        frames.payload(frames.part(kind, content))
    assert refused.value.code == "frame_malformed"


@pytest.mark.parametrize(("seq", "end"), [(-1, 5), (5, 5), (6, 5), (0, 1 << 63)])
def test_a_range_that_is_none_is_malformed(seq: int, end: int) -> None:
    with pytest.raises(ParseError, match="no range"):
        frames.decode(frames.encode(a_frame([], seq=seq, end=end)))


@pytest.mark.parametrize("id", ["", ".", "..", "../other", "a/b", "a\\b", "a.b", "é", "a\0", "a\n", "a" * 65])
@pytest.mark.parametrize("name", ["run", "writer"])
def test_an_id_that_could_be_a_path_never_gets_in(name: str, id: str) -> None:
    with pytest.raises(ParseError, match=name) as refused:
        frames.decode(frames.encode(msgspec.structs.replace(a_frame([]), **{name: id})))
    assert refused.value.code == "frame_malformed"


def a_frame(parts: list[frames.Part], seq: int = 0, end: int = 1) -> Frame:
    source = Source(kind=SourceKind.RANK, attempt="a", rank=0)
    return Frame(project="p", run="r", writer="w", seq=seq, end=end, sent_at=0, source=source, parts=parts)


def nested(levels: int) -> bytes:
    return b"\x81\xa1a" * levels + b"\xc0"


@pytest.mark.parametrize("levels", [frames.MAX_DEPTH + 1, 900, 5_000, 100_000])
@pytest.mark.parametrize("tree", ["config", "events"])
def test_a_tree_too_deep_for_its_readers_is_malformed(tree: str, levels: int) -> None:
    content: frames.Payload = frames.Config(user={"a": None})
    if tree == "events":
        content = frames.Events([frames.Event(id="e", type="x", started_at=1, data={"a": None})])
    packed = msgspec.msgpack.encode(content)
    deep = packed.replace(nested(1), nested(levels))
    assert deep != packed
    with pytest.raises(ParseError) as refused:
        frames.payload(frames.decode(frames.encode(a_frame([frames.Part(tree, msgspec.Raw(deep))]))).parts[0])
    assert refused.value.code == "frame_malformed"


def test_a_tree_of_the_deepest_kind_comes_back() -> None:
    packed = msgspec.msgpack.encode(frames.Config(user={"a": None})).replace(nested(1), nested(frames.MAX_DEPTH))
    content = frames.payload(frames.Part("config", msgspec.Raw(packed)))
    assert isinstance(content, frames.Config) and content.user is not None


def test_a_frame_too_deep_in_a_part_of_an_unknown_kind_is_malformed() -> None:
    data = frames.encode(a_frame([frames.Part("later", msgspec.Raw(nested(100_000)))]))
    with pytest.raises(ParseError) as refused:
        frames.decode(data)
    assert refused.value.code == "frame_malformed"
