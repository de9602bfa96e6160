"""Output: every byte once, every line with its number, a view that is safe and short."""

import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stepward.errors import NotFound, UsageError
from stepward.ingest.protocols import CommittedFrame
from stepward.model.frames import LogChunk, Logs, Source
from stepward.model.resources import LogPage
from stepward.model.words import SourceKind
from stepward.store.logs import LogStore, append
from stepward.store.logs.view import FOLD_FROM, MAX_TEXT, UNFOLDED_BYTES, visible

WRAPPER = Source(kind=SourceKind.WRAPPER, attempt="a", node="n")


def a_frame(seq: int, *chunks: LogChunk, run: str = "run_a", writer: str = "w") -> CommittedFrame:
    return CommittedFrame(
        project="p",
        run=run,
        writer=writer,
        seq=seq,
        end=seq + 1,
        sent_at=0,
        received_at=0,
        source=WRAPPER,
        payloads=[("logs", Logs(list(chunks)))],
        metrics=[],
    )


def feed(store: LogStore, data: bytes, cuts: Sequence[int] = (), run: str = "run_a") -> str:
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    for number, (begin, end) in enumerate(pairwise(edges)):
        marks = [(0, number * 1_000_000)]
        store.apply([a_frame(number, LogChunk("stdout", begin, data[begin:end], marks), run=run, writer=f"{run}-w")])
    return store.streams("p", run, attempts={"a": 1})[0].id


def page(store: LogStore, stream: str, **asked: Any) -> LogPage:
    return store.page("p", asked.pop("run", "run_a"), stream, attempts={"a": 1}, **asked)


def texts(of: LogPage) -> list[str]:
    return [line.text for line in of.lines]


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A store that seals early, so that short texts have many pieces."""
    monkeypatch.setattr(append, "SEAL_BYTES", 64)
    monkeypatch.setattr(append, "_GROW_BYTES", 16)
    store = LogStore(str(tmp_path))
    yield store
    store.close()


pieces_of_text = st.lists(st.sampled_from([b"\n", b"\n", b"a", b"step 12", b"\xff\xfe", "é".encode(), b"x" * 40, b" "]))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(parts=pieces_of_text, cuts=st.lists(st.integers(0, 300), max_size=8), turn=st.integers(1, 12))
def test_bytes_and_lines_are_the_same_however_they_were_cut(
    store: LogStore, parts: list[bytes], cuts: list[int], turn: int
) -> None:
    data = b"".join(parts)
    run = f"run_{hash((data, tuple(cuts)))}"
    if not data or store.streams("p", run, attempts={}):
        return
    stream = feed(store, data, cuts, run)
    assert b"".join(store.raw("p", run, stream)) == data
    lines = data.split(b"\n")
    lines = lines[:-1] if data.endswith(b"\n") else lines
    want = [line.decode("utf-8", "replace") for line in lines]
    got = page(store, stream, run=run, from_n=1, limit=1000)
    assert (texts(got), [line.n for line in got.lines]) == (want, list(range(1, len(want) + 1)))
    assert store.line_counts("p", run) == {stream: len(want)}
    some = page(store, stream, run=run, from_n=turn, limit=3)
    assert texts(some) == want[turn - 1 : turn + 2]
    assert texts(page(store, stream, run=run, tail=2)) == want[-2:]
    for q in ("STEP 1", "/p 1+2/", "é"):
        hits = page(store, stream, run=run, q=q, from_n=turn, limit=2)
        needle = "p 12" if q.startswith("/") else q.lower()
        numbers = [number for number, line in enumerate(want, 1) if needle in line.lower()]
        assert hits.matches == len(numbers)
        assert [line.n for line in hits.lines] == [number for number in numbers if number >= turn][:2]
        assert texts(hits) == [want[line.n - 1] for line in hits.lines]


def test_a_chunk_that_came_before_is_taken_once_and_lost_bytes_are_counted(store: LogStore) -> None:
    store.apply([a_frame(0, LogChunk("stdout", 0, b"one\ntw", [(0, 5)]))])
    store.apply([a_frame(0, LogChunk("stdout", 0, b"one\ntw", [(0, 5)]))])  # the frame again
    store.apply([a_frame(1, LogChunk("stdout", 4, b"two\n", [(0, 7)]))])  # cut again, overlapping
    store.apply([a_frame(2, LogChunk("stdout", 20, b"three\n", [(0, 9)], lost=12))])
    (stream,) = store.streams("p", "run_a", attempts={"a": 2})
    assert b"".join(store.raw("p", "run_a", stream.id)) == b"one\ntwo\nthree\n"
    assert (stream.lines, stream.bytes, stream.lost_bytes, stream.attempt) == (3, 14, 12, 2)
    assert stream.last_at == "1970-01-01T00:00:00.000009Z"
    assert [line.at for line in page(store, stream.id).lines] == [
        "1970-01-01T00:00:00.000005Z",
        "1970-01-01T00:00:00.000005Z",
        "1970-01-01T00:00:00.000009Z",
    ]
    assert store.applied("p") == {"w": 3}


def test_streams_are_told_apart_by_writer_name_and_rank(store: LogStore) -> None:
    chunks = [
        LogChunk("stdout", 0, b"a", [], rank=1),
        LogChunk("stdout", 0, b"b", [], rank=0),
        LogChunk("out.log", 0, b"c", []),
    ]
    store.apply([a_frame(0, *chunks)])
    streams = store.streams("p", "run_a", attempts={"a": 1})
    assert [(stream.rank, stream.stream) for stream in streams] == [(0, "stdout"), (1, "stdout"), (None, "out.log")]


def test_the_last_line_grows_while_it_is_written(store: LogStore) -> None:
    store.apply([a_frame(0, LogChunk("stdout", 0, b"done\nhal", []))])
    stream = store.streams("p", "run_a", attempts={})[0].id
    first = page(store, stream)
    store.apply([a_frame(1, LogChunk("stdout", 8, b"f done\n", []))])
    assert first.last_n == 2
    assert texts(page(store, stream, from_n=first.last_n)) == ["half done"]


def test_a_progress_bar_shows_its_last_state_and_stays_raw(store: LogStore) -> None:
    bar = b"".join(b"\r%3d%%|####" % at for at in range(101)) + b"\r\nnext\n"
    stream = feed(store, bar, [33, 200])
    assert texts(page(store, stream)) == ["100%|####", "next"]
    assert b"".join(store.raw("p", "run_a", stream)) == bar


def test_a_progress_bar_of_hours_and_a_line_of_10_mb_are_shown_short(tmp_path: Path) -> None:
    store = LogStore(str(tmp_path))
    bar = b"".join(b"\rstep %07d" % at for at in range(100_000)) + b"\n"
    long = b"x" * 10_000_000 + b"\nend\n"
    stream = feed(store, bar + long, [700_000, 2_000_000, 7_000_000])
    got = page(store, stream)
    assert got.lines[0].text == "step 0099999"
    assert (got.lines[1].text, got.lines[1].truncated) == ("x" * MAX_TEXT, 10_000_000 - MAX_TEXT)
    assert texts(got)[2] == "end"
    assert page(store, stream, q="end").lines[0].n == 3
    store.close()


@pytest.mark.parametrize(
    ("raw", "seen"),
    [
        (b"\x1b[31mred\x1b[0m", "red"),
        (b"\x1b]0;title\x07x", "x"),
        (b"a\x00\x07\x08b\tc", "ab\tc"),
        (b"\xff\xfeok", "\ufffd\ufffdok"),
        ("\u202eevil\u2028".encode(), "evil"),
        (b"50%\r", "50%"),
        (b"\x1b[2K\rdone", "done"),
        (b"\x9b31mc1", "\ufffd31mc1"),
    ],
)
def test_text_is_safe_to_show(raw: bytes, seen: str) -> None:
    assert visible(raw) == seen


@given(st.binary())
def test_no_control_character_is_ever_shown(raw: bytes) -> None:
    assert not {char for char in visible(raw) if char != "\t" and (ord(char) < 32 or 127 <= ord(char) < 160)}


def test_repeats_are_folded_but_never_at_the_ends_or_where_causes_stand(tmp_path: Path) -> None:
    store = LogStore(str(tmp_path))
    filler = b"".join(b"%08d filler %s\n" % (at, chr(97 + at % 26).encode()) for at in range(UNFOLDED_BYTES // 18 + 1))
    middle = b"".join(b"step %d loss 0.%d\n" % (at, at) for at in range(5000))
    trace = b"Traceback (most recent call last):\n" + b'  File "x.py", line 1, in f\n' * 9 + b"ValueError: no\n"
    errors = b"CUDA error 7\n" * 9
    few = b"quiet 1\n" * (FOLD_FROM - 1)
    stream = feed(store, filler + middle + trace + errors + few + filler)
    start = filler.count(b"\n") + 1
    got = page(store, stream, from_n=start, limit=40)
    first = got.lines[0]
    assert (first.text, first.n, first.n_last, first.repeats) == ("step 0 loss 0.0", start, start + 4999, 5000)
    assert [line.repeats for line in got.lines[1:]] == [1] * 39
    assert texts(got)[1] == "Traceback (most recent call last):"
    assert texts(got)[1 + 11 + 9 :][:3] == ["quiet 1"] * 3
    assert page(store, stream, from_n=start, limit=2, fold=False).lines[1].n == start + 1
    at_the_end = page(store, stream, tail=3).lines
    assert [line.repeats for line in at_the_end] == [1, 1, 1]
    store.close()


def test_a_bad_pattern_and_an_unknown_stream_are_named(store: LogStore) -> None:
    stream = feed(store, b"a\n")
    with pytest.raises(UsageError) as refused:
        page(store, stream, q="/(/")
    assert refused.value.code == "bad_regex"
    assert page(store, stream, q="/(a+)+$/").matches == 1
    for unknown in ("99", "x", "", "9" * 30, "²"):
        with pytest.raises(NotFound):
            page(store, unknown)
    with pytest.raises(NotFound):
        page(store, stream, run="run_b")
    with pytest.raises(NotFound):
        list(store.raw("q", "run_a", stream))


def test_a_run_is_deleted_with_its_blobs_and_a_backup_has_everything(store: LogStore, tmp_path: Path) -> None:
    data = b"line\n" * 100
    stream = feed(store, data, range(0, 500, 20))
    kept = feed(store, data, [7], run="run_b")
    store.backup(str(tmp_path / "copy"))
    store.delete_run("p", "run_a")
    assert store.streams("p", "run_a", attempts={}) == []
    assert not list(tmp_path.glob("projects/p/logs/run_a/*"))
    assert b"".join(store.raw("p", "run_b", kept)) == data
    copy = LogStore(str(tmp_path / "copy"))
    assert b"".join(copy.raw("p", "run_a", stream)) == data
    assert b"".join(copy.raw("p", "run_b", kept)) == data
    copy.close()


def test_a_page_is_json(store: LogStore) -> None:
    import msgspec

    stream = feed(store, b"a\xff\n")
    assert json.loads(msgspec.json.encode(page(store, stream)))["lines"][0]["text"] == "a\ufffd"
