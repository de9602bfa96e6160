"""The journal keeps what it accepted, whatever interrupts it, and counts what it refuses."""

import errno
import os
import shutil
import struct
import threading

import pytest

from stepward.model.frames import Config, Event, Events, LogChunk, Logs, Source, Status
from stepward.model.states import Exit, Witness
from stepward.model.words import Clock, SourceKind
from stepward.spool import records, writers
from stepward.spool.cutter import cut
from stepward.spool.delivery import Delivery, Outcome
from stepward.spool.journal import MAX_PAYLOAD_BYTES, spool_bytes
from stepward.spool.reader import Reader

RUN = "run_" + "a" * 26


def deliver(journal, server):
    delivery = Delivery(journal.folder, RUN, lambda: 7)
    while (outcome := delivery.turn(server)) is Outcome.SENT:
        pass
    assert outcome is Outcome.IDLE, delivery.problem
    return delivery


def test_rows_arrive_as_they_were_logged(create, model_server):
    journal, server = create(), model_server()
    keyset = journal.define([("loss", "", None), ("mem", "B", 1)])
    assert journal.row(keyset, 3, 17, (float("nan"), -0.0))
    assert journal.row(keyset, -5, 18, (1e308, float("inf")), [1])
    deliver(journal, server)
    names = (("loss", "", None), ("mem", "B", 1))
    assert server.rows == [
        (names, 3, 17, struct.pack("<2d", float("nan"), -0.0), ()),
        (names, -5, 18, struct.pack("<2d", 1e308, float("inf")), (1,)),
    ]


@pytest.mark.parametrize(("given", "kept"), [(1 << 70, (1 << 63) - 1), (-(1 << 70), -(1 << 63)), (1 << 62, 1 << 62)])
def test_steps_and_times_beyond_int64_are_clamped(create, model_server, given, kept):
    journal, server = create(), model_server()
    assert journal.row(journal.define([("a", "", None)]), given, given, [1.0])
    assert journal.row(journal.define([("b", "", None)]), given, given, [1.0], [0])
    assert journal.step_row(given, given, 1.0, [], [])
    deliver(journal, server)
    assert [row[1:3] for row in server.rows] == [(kept, kept)] * 2
    assert server.steps == [(kept, kept, 1.0, ())]


def test_steps_of_different_phases_become_one_table(create, model_server):
    journal, server = create(), model_server()
    journal.step_row(1, 10, 0.5, [("forward", Clock.HOST), ("backward", Clock.DEVICE)], [0.1, 0.2])
    journal.step_row(2, 20, 0.6, [("data_wait", Clock.HOST)], [0.3])
    deliver(journal, server)
    assert server.steps == [
        (1, 10, 0.5, ((("backward", Clock.DEVICE), 0.2), (("forward", Clock.HOST), 0.1))),
        (2, 20, 0.6, ((("data_wait", Clock.HOST), 0.3),)),
    ]


@pytest.mark.parametrize(
    "series",
    [
        [],
        [("", "", None)],
        [("x" * 1025, "", None)],
        [("a", "", None)] * 2,
        [("\ud800", "", None)],
        [("a", "u" * 1025, 0)],
    ],
)
def test_names_that_no_frame_may_carry_are_counted_not_written(create, series):
    journal = create()
    keyset = journal.define(series)
    assert keyset == 0
    assert not journal.row(keyset, 1, 1, [1.0])
    assert journal.dropped == 1
    assert journal.end == 0


def test_long_names_and_emoji_arrive(create, model_server):
    journal, server = create(), model_server()
    names = [("x" * 1024, "", None), ("🦖/é", "°C", None)]
    journal.row(journal.define(names), 1, 1, [1.0, 2.0])
    deliver(journal, server)
    assert server.rows[0][0] == tuple(names)


def test_a_row_that_fails_half_way_is_counted_and_costs_no_other(create, model_server):
    class Bad:
        def __float__(self):
            raise RuntimeError

    journal, server = create(), model_server()
    keyset = journal.define([("a", "", None), ("b", "", None)])
    assert journal.row(keyset, 1, 1, [1.0, 1.0])
    for values in ([1.0, Bad()], [1.0], [1.0, 2.0, 3.0], [1.0, None], [1.0, "x"]):
        assert not journal.row(keyset, 2, 2, values)
    assert journal.row(keyset, 3, 3, [3.0, 3.0])
    assert journal.dropped == 2 + 1 + 3 + 2 + 2
    deliver(journal, server)
    assert [row[1] for row in server.rows] == [1, 3]


def test_a_signal_handler_may_write_in_the_middle_of_a_row(create, model_server):
    """``__float__`` runs inside the packing of a row, where a signal handler could."""
    journal, server = create(), model_server()
    keyset = journal.define([("a", "", None)])
    emitted = []

    class Interrupts:
        def __float__(self):
            emitted.append(journal.emit("config", Config(name="from the handler")))
            return 2.0

    journal.row(keyset, 1, 1, [1.0])
    assert journal.row(keyset, 2, 2, [Interrupts()])
    journal.row(keyset, 3, 3, [3.0])
    deliver(journal, server)
    assert emitted == [True]
    assert [row[1] for row in server.rows] == [1, 2, 3]
    assert [payload.name for _, payload in server.payloads] == ["from the handler"]


def test_what_a_handler_writes_survives_the_death_of_the_interrupted_row(create, model_server):
    """The process ends inside the handler: the hole of the row must not hide the handler's record."""
    journal, server = create(), model_server()
    keyset = journal.define([("a", "", None)])
    seen = []

    class Dies:
        def __float__(self):
            journal.emit("config", Config(name="last words"))
            deliver(journal, server)
            seen.extend(server.payloads)
            return 1.0

    journal.row(keyset, 1, 1, [1.0])
    journal.row(keyset, 2, 2, [Dies()])
    assert [payload.name for _, payload in seen] == ["last words"]


def test_a_handler_that_needs_a_new_segment_does_not_disturb_the_row(small_segments, create, model_server):
    journal, server = create(), model_server()
    keyset = journal.define([("a", "", None)])

    class Interrupts:
        def __float__(self):
            for n in range(40):
                assert journal.emit("config", Config(name=f"{n:04d}" * 100))
            return 2.0

    assert journal.row(keyset, 1, 1, [1.0])
    assert journal.row(keyset, 2, 2, [Interrupts()])
    assert journal.row(keyset, 3, 3, [3.0])
    deliver(journal, server)
    assert sorted(row[1] for row in server.rows) == [1, 2, 3]
    assert len(server.payloads) == 40


def test_threads_share_a_journal(small_segments, create, model_server):
    journal, server = create(), model_server()

    def log(thread):
        keyset = journal.define([(f"m{thread}", "", None), ("shared", "", None)])
        for n in range(300):
            assert journal.row(keyset, n, thread, [float(n), float(thread)])

    threads = [threading.Thread(target=log, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    deliver(journal, server)
    assert len(server.rows) == 1800
    assert {row[1:3] for row in server.rows} == {(n, t) for n in range(300) for t in range(6)}


def test_each_segment_can_be_read_alone(small_segments, create):
    """Definitions are restated where they are used, so that acknowledged segments may go."""
    journal = create()
    keysets = [journal.define([(f"m{n}", "", None)]) for n in range(5)]
    for n in range(2000):
        journal.row(keysets[n % 5], n, n, [float(n)])
    kept = writers.segments(journal.folder)
    assert len(kept) > 5
    for segment in kept[:-1]:
        os.unlink(segment.path)
    found = cut(Reader(journal.folder), kept[-1].start, finished=True)
    assert not found.gaps
    assert {one.metric for one in found.series.values()} == {f"m{n}" for n in range(5)}


def test_a_full_disk_drops_and_recovers(monkeypatch, small_segments, create, model_server):
    journal, server, full = create(), model_server(), []

    def allocate(fd, offset, size, real=os.posix_fallocate):
        if full:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(fd, offset, size)

    monkeypatch.setattr(os, "posix_fallocate", allocate)
    keyset = journal.define([("a", "", None)])
    accepted = [journal.row(keyset, 0, 0, [0.0])]
    full.append(True)
    accepted += [journal.row(keyset, n, n, [0.0]) for n in range(1, 300)]
    full.clear()
    accepted += [journal.row(keyset, n, n, [0.0]) for n in range(300, 400)]
    assert journal.dropped == accepted.count(False) > 0
    assert all(accepted[300:])
    deliver(journal, server)
    assert [row[1] for row in server.rows] == [n for n, kept in enumerate(accepted) if kept]
    assert not [name for name in os.listdir(journal.folder) if name.startswith(".")]


def test_a_full_disk_is_not_asked_at_every_call(monkeypatch, create):
    asked = []

    def allocate(fd, offset, size):
        asked.append(size)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", allocate)
    journal = create()
    keyset = journal.define([("a", "", None)])
    for n in range(50):
        assert not journal.row(keyset, n, n, [0.0])
    assert asked == [1 << 20, 1 << 18, 1 << 16]
    assert journal.dropped == 50


def test_a_nearly_full_disk_is_used_to_its_end(monkeypatch, create, model_server):
    left = [(1 << 20) + (3 << 16)]

    def allocate(fd, offset, size, real=os.posix_fallocate):
        if size > left[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        left[0] -= size
        real(fd, offset, size)

    monkeypatch.setattr(os, "posix_fallocate", allocate)
    journal, server = create(), model_server()
    keyset = journal.define([("a", "", None)])
    rows = 0
    while journal.row(keyset, rows, 0, [0.0]):
        rows += 1
    assert left == [0]
    deliver(journal, server)
    assert len(server.rows) == rows


@pytest.mark.parametrize("trace", ["ValueError: x", "long " * 100_000])
def test_a_full_disk_does_not_hide_how_it_ended(monkeypatch, small_segments, create, model_server, capsys, trace):
    journal, server = create(), model_server()
    keyset = journal.define([("a", "", None)])
    journal.row(keyset, 0, 0, [0.0])

    def allocate(fd, offset, size):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", allocate)
    kept = [journal.row(keyset, n, n, [0.0]) for n in range(1, 500)]
    for rank in (3, None):
        assert journal.emit("exit", Exit(at=1, by=Witness.SDK, exit_code=7, traceback=trace, rank=rank))
    assert not journal.row(keyset, 500, 500, [0.0])
    journal.close()
    deliver(journal, server)
    told = [content for kind, content in server.payloads if kind in ("exit", "status")]
    exits, beats = told[::2], told[1::2]
    assert [(exit.exit_code, exit.rank) for exit in exits] == [(7, 3), (7, None)]
    assert {beat.dropped for beat in beats} == {kept.count(False)}
    assert capsys.readouterr().err.count("counted as dropped") == 1


def test_a_folder_that_is_removed_is_begun_anew_with_the_next_heartbeat(create, model_server, capsys):
    journal, server = create(), model_server()
    keyset = journal.define([("a", "", None)])
    journal.row(keyset, 0, 0, [0.0])
    deliver(journal, server)
    journal.row(keyset, 1, 1, [1.0])
    shutil.rmtree(journal.folder)
    for n in (2, 3):
        assert journal.emit("status", Status(at=n))
        assert journal.row(keyset, n, n, [float(n)])
    deliver(journal, server)
    assert [row[1] for row in server.rows] == [0, 2, 3]
    assert [event.type for kind, event in server.payloads if kind == "events"] == ["gap"]
    assert capsys.readouterr().err.count("was removed") == 1


def test_the_cap_counts_the_whole_spool(small_segments, create):
    first, second = create(cap_bytes=40_000), create(cap_bytes=40_000)
    for journal in (first, second):
        keyset = journal.define([("a", "", None)])
        for n in range(1000):
            journal.row(keyset, n, n, [0.0])
    assert first.dropped > 0
    assert second.dropped == 1000
    assert spool_bytes(first.root) <= 40_000
    for segment in writers.segments(first.folder)[:-1]:
        os.unlink(segment.path)
    assert second.row(second.define([("a", "", None)]), 1, 1, [0.0])


def test_logs_of_any_size_pass_and_other_payloads_do_not(create, model_server):
    journal, server = create(), model_server()
    line = bytes(range(256)) * 40_000
    marks = [(0, 1), (5_000_000, 2), (len(line), 3)]
    assert journal.emit("logs", Logs([LogChunk("stdout", 100, line, marks, 2, 7)]))
    assert not journal.emit("config", Config(user={"x": "y" * (MAX_PAYLOAD_BYTES + 1)}))
    assert journal.dropped == 1
    deliver(journal, server)
    chunks = [chunk for _, logs in server.payloads for chunk in logs.chunks]
    assert b"".join(chunk.data for chunk in chunks) == line
    offsets = [chunk.offset for chunk in chunks]
    assert offsets == [100 + sum(len(c.data) for c in chunks[:n]) for n in range(len(chunks))]
    assert [(c.offset - 100 + at, time) for c in chunks for at, time in c.marks] == marks
    assert [chunk.lost for chunk in chunks] == [7] + [0] * (len(chunks) - 1)
    assert {chunk.rank for chunk in chunks} == {2}


def test_payloads_that_cannot_be_encoded_are_counted(create):
    journal = create()
    assert not journal.emit("config", Config(user={"x": object()}))
    assert not journal.emit("config", Config(name="\ud800"))
    assert journal.dropped == 2


def test_the_run_and_rank_may_become_known_late(create, model_server):
    journal, server = create(run=None), model_server()
    keyset = journal.define([("a", "", None)])
    journal.row(keyset, 1, 1, [1.0])
    assert "/pending/" in journal.folder
    journal.assign(RUN, Source(kind=SourceKind.RANK, attempt="a", rank=3))
    journal.row(keyset, 2, 2, [1.0])
    assert journal.folder.split("/")[-2] == RUN
    assert not os.listdir(f"{journal.root}/pending")
    meta = writers.read_meta(journal.folder)
    assert (meta.run, meta.source.rank, meta.source.pid) == (RUN, 3, os.getpid())
    deliver(journal, server)
    assert [row[1] for row in server.rows] == [1, 2]


def test_close_gives_back_space_and_says_that_it_is_the_end(create, model_server):
    journal, server = create(), model_server()
    journal.row(journal.define([("a", "", None)]), 1, 1, [1.0])
    meta = writers.read_meta(journal.folder)
    assert not writers.finished(journal.folder, meta)
    end = journal.end
    journal.close()
    assert writers.finished(journal.folder, writers.read_meta(journal.folder))
    assert [segment.size for segment in writers.segments(journal.folder)] == [end]
    assert not journal.row(1, 2, 2, [1.0])
    assert journal.dropped == 1
    assert deliver(journal, server).done()


def test_a_journal_that_wrote_nothing_leaves_nothing(create):
    journal = create()
    journal.close()
    assert os.listdir(journal.root) == []


def test_folders_are_private(create):
    journal = create()
    journal.emit("events", Events([Event(id="1", type="phase", started_at=1)]))
    for folder in (journal.root, os.path.dirname(journal.folder), journal.folder):
        assert os.stat(folder).st_mode & 0o777 == 0o700
    assert {os.stat(f"{journal.folder}/{name}").st_mode & 0o077 for name in os.listdir(journal.folder)} == {0}


def test_a_removed_folder_is_made_again(small_segments, create):
    """A cleaner of temporary folders costs what it removed, not what comes."""
    journal = create()
    keyset = journal.define([("a", "", None)])
    journal.row(keyset, 1, 1, [1.0])
    for name in os.listdir(journal.folder):
        os.unlink(f"{journal.folder}/{name}")
    os.rmdir(journal.folder)
    os.rmdir(os.path.dirname(journal.folder))
    kept = [journal.row(keyset, n, n, [1.0]) for n in range(500)]
    assert all(kept)
    assert writers.read_meta(journal.folder) is not None
    reader = Reader(journal.folder)
    found = [item.what for item in reader.read(reader.oldest(), finished=True)]
    assert sum(record.type == records.ROW for record in found) > 100
