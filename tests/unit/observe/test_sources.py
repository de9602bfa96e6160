"""Streams as inputs of a diagnosis: every line under the number that it has in its stream, however long that is."""

import pytest

from stepward.diagnose.clues import Kind
from stepward.diagnose.engine import diagnose
from stepward.ingest.protocols import CommittedFrame
from stepward.model.frames import LogChunk, Logs, Source
from stepward.model.words import SourceKind
from stepward.observe.streams import MOST_HEAD, MOST_TAIL, KernelSource, Place, StreamSource, stream_name
from stepward.store.logs import LogStore

S = 1_000_000
T0 = 1_800_000_000 * S
MEMORY = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
XID = "NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, GPU has fallen off the bus."


@pytest.fixture
def store(tmp_path):
    made = LogStore(str(tmp_path))
    yield made
    made.close()


def put(store, pieces, stream="stdout", rank=3):
    """Pieces of output, each read a second after the one before; the stream."""
    at, marks, data = 0, [], b""
    for number, piece in enumerate(pieces):
        marks.append((at, T0 + number * S))
        data += piece
        at += len(piece)
    source = Source(kind=SourceKind.RANK, attempt="a", rank=rank, node="n1")
    frame = CommittedFrame(
        project="p", run="r", writer="w", seq=0, end=1, sent_at=0, received_at=0, source=source,
        payloads=[("logs", Logs([LogChunk(stream, 0, data, marks)]))], metrics=[],
    )  # fmt: skip
    store.apply([frame])
    (found,) = store.streams("p", "r", attempts={"a": 1})
    return found


@pytest.mark.parametrize("rest", [0, 1, 5000])
def test_a_long_stream_is_read_at_its_head_and_tail_with_its_own_numbers(store, rest):
    count = MOST_HEAD + MOST_TAIL + rest
    lines = [b"step %d loss 2.0 %s\n" % (n, b"all is well " * 34) for n in range(1, count + 1)]
    lines[-1] = MEMORY.encode() + b"\n"
    stream = put(store, [b"".join(lines)])
    source = StreamSource(store, Place("p", "r", stream.id), stream, stream_name(stream), of=1)
    document = diagnose([source])
    (cause,) = document.causes
    assert (cause.evidence[0].source, cause.evidence[0].line) == ("n1/rank3.stdout", count)
    (note,) = document.inputs
    assert (note.lines, note.truncated, note.rank, note.node) == (count, rest > 0, 3, "n1")


def test_a_short_stream_is_read_as_it_came_and_its_last_line_may_be_open(store):
    stream = put(store, [b"one\n\ntwo\n" + MEMORY.encode()])
    source = StreamSource(store, Place("p", "r", stream.id), stream, "job", of=1)
    (cause,) = diagnose([source]).causes
    assert (cause.evidence[0].line, cause.evidence[0].text, cause.evidence[0].rank) == (4, MEMORY, 3)


def test_of_a_kernel_log_only_what_was_written_since_counts(store):
    stream = put(store, [XID.encode() + b"\n", b"usb 1-1: new device\n", XID.encode() + b"\n"], "kernel", rank=None)
    for since, line in ((T0, 1), (T0 + S, 3)):
        source = KernelSource(store, Place("p", "r", stream.id), stream, "kernel", since=since)
        (cause,) = diagnose([source]).causes
        assert (cause.decided_by, cause.evidence[0].line) == (Kind.KERNEL, line)
    late = KernelSource(store, Place("p", "r", stream.id), stream, "kernel", since=T0 + 3 * S)
    assert diagnose([late]).causes == []


def test_a_stream_that_is_gone_is_named(store):
    stream = put(store, [b"one\n"])
    store.delete_run("p", "r")
    (note,) = diagnose([StreamSource(store, Place("p", "r", stream.id), stream, "job", of=1)]).inputs
    assert note.why is not None and "no output stream" in note.why
