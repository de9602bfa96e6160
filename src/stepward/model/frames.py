"""Frames: the wire between whatever writes and the server, and the unit of "exactly once".

A frame is one range of one writer's journal (``docs/wire.md``): the bytes ``[seq, end)`` of its record stream, cut into
parts by kind. The server commits a frame whole or not at all and remembers ``end`` for the writer; the next frame must
begin there. A frame that is cut again after a crash therefore needs no memory of earlier cuts.

Layout, little-endian::

    magic "SWFR" · u8 major · u8 minor · u16 flags · u32 length of body · u32 CRC-32 of the 12 bytes before it and body
    body: MessagePack of ``Frame``, zlib-compressed where flag 1 is set

A frame with a damaged byte, a wrong length, columns of unequal lengths or numbers out of range is refused whole, with a
stable code. Parts of an unknown kind are kept as they came: a newer peer may know them.
"""

import re
import struct
import zlib
from collections.abc import Iterable
from typing import Any

import msgspec

from stepward.errors import IncompatibleVersion, ParseError, TooLarge
from stepward.model.states import Exit, State
from stepward.model.words import Clock, Int64, RunKind, SourceKind

MAGIC = b"SWFR"
MAJOR, MINOR = 1, 0
COMPRESSED = 1
MAX_FRAME_BYTES = 8 << 20
"""Largest body accepted, as sent."""
MAX_INFLATED_BYTES = 64 << 20
"""Largest body after decompression; a small body may not unfold without limit."""
MAX_NAME = 1024
"""Characters of a metric name, unit, phase or stream name."""
MAX_DEPTH = 100
"""Levels of a tree of an event or a configuration: whoever reads one later has the stack for it."""

_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""Ids become names of folders and keys of rows: one that could be a path never gets past the door."""

_HEAD = struct.Struct("<4sBBHI")
_CRC = struct.Struct("<I")
HEAD_BYTES = _HEAD.size + _CRC.size


class Source(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Who wrote a frame, as known when it was sent (a rank may learn its number late).

    Attributes:
        kind: only ``rank`` is a rank of the attempt.
        attempt: attempt key; equal for all sources of one launch.
        rank: number of the rank; None for other sources.
        role: ``trainer``, ``sampler``, ``reward``, ``server``.
        node: host name.
        pid: process id on the node.
        boot: boot id of the node, so that a pid can be trusted.
        vouched_by: run whose heartbeats stand for this source's: a watcher beats once for all of its jobs.
    """

    kind: SourceKind
    attempt: str
    rank: Int64 | None = None
    role: str = "trainer"
    node: str = ""
    pid: Int64 = 0
    boot: str = ""
    vouched_by: str = ""


class Part(msgspec.Struct, frozen=True):
    """One kind of content of a frame; ``payload`` is MessagePack of the struct that ``KINDS`` names."""

    kind: str
    payload: msgspec.Raw


class Frame(msgspec.Struct, frozen=True, kw_only=True):
    """One range of a writer's journal.

    Attributes:
        project, run: where it belongs; ``run`` is a run id.
        writer: ULID of the writing process.
        seq, end: journal positions (bytes) of the range; ``end`` is the next frame's ``seq``.
        sent_at: sender's clock when it was sent, µs since the epoch; differs when the frame is sent again.
        alive: the writer's process was seen alive when it was sent, however old the content is.
    """

    project: str
    run: str
    writer: str
    seq: int
    end: int
    sent_at: Int64
    source: Source
    parts: list[Part]
    alive: bool = False


class SeriesDef(msgspec.Struct, frozen=True, array_like=True):
    """What a writer's series number stands for: a metric, its unit, and the device or the rank that it is about.

    ``rank`` is for sources that are no rank themselves: a wrapper's readings of one of its ranks.
    """

    id: Int64
    metric: str
    unit: str = ""
    device: Int64 | None = None
    rank: Int64 | None = None


class Block(msgspec.Struct, frozen=True, omit_defaults=True):
    """Points that share their set of series: n rows of k series.

    Attributes:
        series: k series numbers of the writer, one a column.
        steps: n int64.
        times: n int64, µs since the epoch.
        values: n * k float64, row by row.
        rounded: indexes into ``values`` of integers that a float64 does not hold exactly.
    """

    series: list[Int64]
    steps: bytes
    times: bytes
    values: bytes
    rounded: list[Int64] = msgspec.field(default_factory=list)


class Points(msgspec.Struct, frozen=True):
    """Kind ``points``. ``defs`` defines the series that are new since the last acknowledged frame (or all of them)."""

    defs: list[SeriesDef]
    blocks: list[Block]


class PhaseColumn(msgspec.Struct, frozen=True, array_like=True):
    """A phase of the ``steps`` table and the clock that measured it."""

    name: str
    clock: Clock = Clock.HOST


class Steps(msgspec.Struct, frozen=True):
    """Kind ``steps``: one row a step of the writing rank.

    Attributes:
        phases: k columns.
        steps: n int64.
        starts: n int64, µs since the epoch.
        durations: n float64, seconds.
        seconds: n * k float64, seconds spent in each phase, row by row; NaN where it was not measured.
    """

    phases: list[PhaseColumn]
    steps: bytes
    starts: bytes
    durations: bytes
    seconds: bytes


class LogChunk(msgspec.Struct, frozen=True, array_like=True):
    """Bytes of an output stream, as they came.

    Attributes:
        stream: ``stdout``, ``stderr``, or the path of a followed file.
        offset: position of ``data`` in the stream.
        data: the bytes; a chunk may end inside a line.
        marks: (position in ``data``, µs since the epoch) of each read, ascending.
        rank: the rank whose output it is, where a wrapper knows it.
        lost: bytes that were not kept before ``offset`` (0 = none).
    """

    stream: str
    offset: Int64
    data: bytes
    marks: list[tuple[Int64, Int64]]
    rank: Int64 | None = None
    lost: Int64 = 0


class Logs(msgspec.Struct, frozen=True):
    """Kind ``logs``."""

    chunks: list[LogChunk]


class Status(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Kind ``status``: a heartbeat.

    Attributes:
        at: sender's clock, µs since the epoch.
        step: last step that began or that points were logged for.
        progress_at: when that happened.
        phase: phase that is open now.
        pending: points taken from devices and not journaled yet.
        dropped: points refused since the start because the spool was full.
        gaps: damaged journal stretches that were skipped.
        stopped: ranks that the wrapper sees stopped (process state T).
        alive: ranks that the wrapper sees running.
        next_attempt: key of the attempt that the launcher has announced.
        state: what the scheduler says of the job (watchers only): ``queued``, ``starting`` or ``running``.
        reason: why, in words: what a queued job waits for.
        paused: the scheduler has suspended the job: no progress is expected of it.
    """

    at: Int64
    step: Int64 | None = None
    progress_at: Int64 | None = None
    phase: str | None = None
    pending: Int64 = 0
    dropped: Int64 = 0
    gaps: Int64 = 0
    stopped: list[Int64] = msgspec.field(default_factory=list)
    alive: list[Int64] = msgspec.field(default_factory=list)
    next_attempt: str | None = None
    state: State | None = None
    reason: str | None = None
    paused: bool = False


class Event(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Something that happened over an interval, as its writer saw it.

    ``type`` is an event word (``hang``, ``oom``, ...) or one of the plain facts of the ledger: ``phase`` (data: name,
    clock), ``checkpoint`` (data: path, blocking_s), ``checkpoint_durable``, ``gap``, ``rank_exit``.
    """

    id: str
    type: str
    started_at: Int64
    ended_at: Int64 | None = None
    step: Int64 | None = None
    rank: Int64 | None = None
    title: str = ""
    data: dict[str, Any] = msgspec.field(default_factory=dict)


class Events(msgspec.Struct, frozen=True):
    """Kind ``events``; an event sent again with the same id replaces the earlier one."""

    events: list[Event]


class Config(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Kind ``config``: what the run is and runs on. A later one is merged key by key; None leaves as it is.

    Attributes:
        key: run key that the run id was derived from.
        name, kind, tags, notes: for people.
        user, software, system: the three trees.
        job: the scheduler's object: {"system": "slurm", "id": "42", ...}.
        ranks: number of ranks that the launcher started or that the world has.
        started_at: when the attempt began, µs since the epoch.
        nodes: nodes that the scheduler has given to the attempt.
    """

    key: str | None = None
    name: str | None = None
    kind: RunKind | None = None
    tags: list[str] | None = None
    notes: str | None = None
    user: dict[str, Any] | None = None
    software: dict[str, Any] | None = None
    system: dict[str, Any] | None = None
    job: dict[str, Any] | None = None
    ranks: Int64 | None = None
    started_at: Int64 | None = None
    nodes: list[str] | None = None


Payload = Points | Steps | Logs | Status | Events | Config | Exit

KINDS: dict[str, type[Payload]] = {
    "points": Points,
    "steps": Steps,
    "logs": Logs,
    "status": Status,
    "events": Events,
    "config": Config,
    "exit": Exit,
}

_encoder = msgspec.msgpack.Encoder()
_frame_decoder = msgspec.msgpack.Decoder(Frame)
_decoders: dict[str, msgspec.msgpack.Decoder[Payload]] = {
    kind: msgspec.msgpack.Decoder(content) for kind, content in KINDS.items()
}


def part(kind: str, payload: Payload) -> Part:
    """Pack a payload as a part of a frame."""
    return Part(kind, msgspec.Raw(_encoder.encode(payload)))


def encode(frame: Frame, *, level: int = 1) -> bytes:
    """The bytes of a frame, compressed with zlib at ``level`` (0 = not)."""
    body, flags = _encoder.encode(frame), 0
    if level:
        body, flags = zlib.compress(body, level), COMPRESSED
    head = _HEAD.pack(MAGIC, MAJOR, MINOR, flags, len(body))
    return head + _CRC.pack(zlib.crc32(body, zlib.crc32(head))) + body


def decode(data: bytes | memoryview) -> Frame:
    """Read one frame.

    Raises:
        TooLarge: ``frame_too_large``.
        IncompatibleVersion: ``frame_version``.
        ParseError: ``frame_damaged`` (magic, length, checksum) or ``frame_malformed`` (content).
    """
    view = memoryview(data)
    if len(view) < HEAD_BYTES:
        raise _damaged(f"{len(view)} bytes are no frame: the head alone has {HEAD_BYTES}")
    magic, major, _minor, flags, length = _HEAD.unpack_from(view)
    if magic != MAGIC:
        raise _damaged(f"a frame begins with {MAGIC!r}, not {bytes(magic)!r}")
    if major != MAJOR:
        raise IncompatibleVersion(
            f"frame version {major} is not understood, only {MAJOR}",
            code="frame_version",
            hint="upgrade the server" if major > MAJOR else "upgrade stepward where the run runs",
        )
    if length > MAX_FRAME_BYTES:
        raise TooLarge(f"a frame of {length} bytes is over the limit of {MAX_FRAME_BYTES}", code="frame_too_large")
    body = view[HEAD_BYTES:]
    if len(body) != length:
        raise _damaged(f"the head promises {length} bytes, {len(body)} came")
    (crc,) = _CRC.unpack_from(view, _HEAD.size)
    if zlib.crc32(body, zlib.crc32(view[: _HEAD.size])) != crc:
        raise _damaged("the checksum does not fit")
    return _decode_body(_inflate(body) if flags & COMPRESSED else body)


def _inflate(body: memoryview) -> bytes:
    inflater = zlib.decompressobj()
    try:
        data = inflater.decompress(body, MAX_INFLATED_BYTES)
    except zlib.error as error:
        raise _damaged(f"the body does not decompress: {error}") from None
    if inflater.unconsumed_tail:
        raise TooLarge(f"a body unfolds to more than {MAX_INFLATED_BYTES} bytes", code="frame_too_large")
    if not inflater.eof:
        raise _damaged("the compressed body is cut off")
    return data


def _decode_body(body: bytes | memoryview) -> Frame:
    try:
        frame = _frame_decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise _malformed(f"not a frame: {error}") from None
    if not 0 <= frame.seq < frame.end <= _INT64_MAX:
        raise _malformed(f"the range [{frame.seq}, {frame.end}) is no range")
    for name, id in (("run", frame.run), ("writer", frame.writer)):
        if not _ID.fullmatch(id):
            raise _malformed(f"{name} is {id[:80]!r}, no id of 1 to 64 letters, digits, _ and -")
    if not 0 < len(frame.project) <= MAX_NAME:
        raise _malformed(f"project is empty or longer than {MAX_NAME} characters")
    return frame


def payload(part: Part) -> Payload | None:
    """The content of a part, checked; None for a kind that this version does not know.

    Raises:
        ParseError: ``frame_malformed``.
    """
    decoder = _decoders.get(part.kind)
    if decoder is None:
        return None
    try:
        content = decoder.decode(part.payload)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise _malformed(f"part {part.kind}: {error}") from None
    if isinstance(content, Points):
        _check_points(content)
    elif isinstance(content, Steps):
        _check_steps(content)
    elif isinstance(content, Logs):
        _check_logs(content)
    elif isinstance(content, Events):
        _check_depth(*(event.data for event in content.events))
    elif isinstance(content, Config):
        _check_depth(content.user, content.software, content.system, content.job)
    return content


def _check_points(points: Points) -> None:
    for definition in points.defs:
        if not 0 < len(definition.metric) <= MAX_NAME or len(definition.unit) > MAX_NAME:
            raise _malformed(f"series {definition.id}: metric or unit is empty or longer than {MAX_NAME} characters")
    for block in points.blocks:
        rows, columns = len(block.steps) // 8, len(block.series)
        if not columns or len(set(block.series)) != columns:
            raise _malformed("a block needs at least one series, and none twice")
        if len(block.steps) != 8 * rows or len(block.times) != 8 * rows or len(block.values) != 8 * rows * columns:
            raise _malformed(f"a block of {rows} rows x {columns} series has columns of other lengths")
        if any(not 0 <= index < rows * columns for index in block.rounded):
            raise _malformed("a rounded mark points outside its block")


def _check_steps(steps: Steps) -> None:
    rows = len(steps.steps) // 8
    if any(len(column) != 8 * rows for column in (steps.steps, steps.starts, steps.durations)):
        raise _malformed(f"{rows} steps have columns of other lengths")
    if len(steps.seconds) != 8 * rows * len(steps.phases):
        raise _malformed(f"{rows} steps x {len(steps.phases)} phases have another number of seconds")
    if any(not 0 < len(column.name) <= MAX_NAME for column in steps.phases):
        raise _malformed(f"a phase's name is empty or longer than {MAX_NAME} characters")


def _check_logs(logs: Logs) -> None:
    for chunk in logs.chunks:
        if chunk.offset < 0 or chunk.lost < 0 or not 0 < len(chunk.stream) <= MAX_NAME:
            raise _malformed("a log chunk needs a stream, an offset and a loss of 0 or more")
        if any(not 0 <= position <= len(chunk.data) for position, _ in chunk.marks):
            raise _malformed("a time mark points outside its log chunk")


def _check_depth(*trees: object) -> None:
    level: list[object] = list(trees)
    for _ in range(MAX_DEPTH + 1):
        level = [inner for outer in level for inner in _inside(outer)]
        if not level:
            return
    raise _malformed(f"a tree of more than {MAX_DEPTH} levels")


def _inside(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


_INT64_MAX = (1 << 63) - 1


def _damaged(message: str) -> ParseError:
    return ParseError(f"damaged frame: {message}", code="frame_damaged", hint="nothing of it was stored; send it again")


def _malformed(message: str) -> ParseError:
    return ParseError(f"malformed frame: {message}", code="frame_malformed", hint="nothing of it was stored")
