"""Every point once, whatever server, network and process do in between; and no belief in what cannot be true."""

import os
import shutil
import subprocess
import tempfile

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stepward.client.transport import Response
from stepward.model.frames import Config, Points, decode, payload
from stepward.spool import writers
from stepward.spool.cutter import Cut, cut
from stepward.spool.delivery import Delivery, Outcome
from stepward.spool.reader import Gap, Misaligned, Reader

RUN = "run_" + "a" * 26
relaxed = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


def problem(status, code, **more):
    return Response(status, {}, msgspec.json.encode({"code": code, "detail": "said", **more}))


def fill(journal, rows, start=0):
    keyset = journal.define([("a", "", None), ("b", "", 1)])
    for n in range(start, start + rows):
        assert journal.row(keyset, n, n, [float(n), -float(n)])


def run_dry(delivery, server, turns=10_000):
    for _ in range(turns):
        if delivery.turn(server) is Outcome.IDLE:
            return
    raise AssertionError(f"no end after {turns} turns: {delivery.problem}")


class Replies:
    """A server that gives scripted answers and keeps what it was asked."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = []

    def request(self, method, path, *, body, headers, timeout_s):
        self.asked.append((decode(body), headers))
        answer = self.answers.pop(0)
        return answer(self.asked[-1][0]) if callable(answer) else answer


def accept(frame):
    return Response(200, {}, msgspec.json.encode({"end": frame.end, "server_time": 0}))


class Limits:
    """Cuts of random sizes, as other versions or smaller answers would make them."""

    def __init__(self, monkeypatch, draw):
        def random_cut(reader, position, *, finished, max_points, max_bytes):
            return cut(reader, position, finished=finished, max_points=draw(1, 40), max_bytes=draw(1, 4000))

        monkeypatch.setattr("stepward.spool.delivery.cut", random_cut)


@relaxed
@given(data=st.data())
def test_each_point_arrives_once(data, small_segments, create, model_server, monkeypatch):
    """Random records, cuts, faults of network and server, and deaths of the shipper with and without its state."""

    def draw(low, high):
        return data.draw(st.integers(low, high))

    server = model_server(lambda: data.draw(st.sampled_from([None, None, None, "lost", "deaf", "garbage"])))
    with monkeypatch.context() as patch, tempfile.TemporaryDirectory() as root:
        Limits(patch, draw)
        journal = create(root)
        keysets = [journal.define([(f"m{k}-{n}", "", None) for n in range(k)]) for k in range(1, 5)]
        expected, delivery = [], None
        for _ in range(draw(1, 12)):
            for n in range(draw(0, 60)):
                k = draw(0, 3)
                assert journal.row(keysets[k], len(expected), n, [float(n)] * (k + 1), [0] if draw(0, 9) == 0 else [])
                expected.append((k + 1, n))
            if delivery is None or draw(0, 2) == 0:
                if writers.read_delivered(journal.folder) and draw(0, 3) == 0:
                    with open(f"{journal.folder}/acked", "wb") as state:
                        state.write(data.draw(st.sampled_from([b"", b"noise", b"7 9\n", b"7 9 another-boot\n"])))
                delivery = Delivery(journal.folder, RUN, lambda: 0)
            for _ in range(draw(0, 6)):
                delivery.turn(server)
        server.faults = lambda: None
        run_dry(Delivery(journal.folder, RUN, lambda: 0), server)
        assert [(len(row[0]), row[2]) for row in sorted(server.rows, key=lambda row: row[1])] == expected
        assert [row[1] for row in sorted(server.rows, key=lambda row: row[1])] == list(range(len(expected)))
        assert not [event for kind, event in server.payloads if kind == "events"]
        journal.close()


@relaxed
@given(data=st.data())
def test_damage_costs_what_is_damaged_and_is_told(data, small_segments, create, model_server):
    """Random bytes of a finished journal overwritten: no error, no invented row, none twice, and a gap where one is missing."""
    with tempfile.TemporaryDirectory() as root:
        journal, server = create(root), model_server()
        fill(journal, 400)
        journal.close()
        for segment in data.draw(st.lists(st.sampled_from(writers.segments(journal.folder)), max_size=3)):
            noise = data.draw(st.binary(min_size=1, max_size=60))
            with open(segment.path, "r+b") as file:
                file.seek(data.draw(st.integers(0, segment.size - len(noise))))
                file.write(noise)
        delivery = Delivery(journal.folder, RUN, lambda: 0)
        run_dry(delivery, server)
        steps = [row[1] for row in server.rows]
        assert sorted(set(steps)) == sorted(steps)
        assert set(server.rows) <= {
            ((("a", "", None), ("b", "", 1)), n, n, msgspec.msgpack.encode(float(n))[:0:-1] + _double(-float(n)), ())
            for n in range(400)
        }
        told = [event for kind, event in server.payloads if kind == "events"]
        assert delivery.gaps == len(told)
        assert all(event.type == "gap" and event.data["from"] < event.data["to"] for event in told)


def _double(number):
    return msgspec.msgpack.encode(number)[:0:-1]


def test_one_flipped_bit_costs_one_row(create, model_server):
    journal, server = create(), model_server()
    fill(journal, 100)
    journal.close()
    segment = writers.segments(journal.folder)[0]
    with open(segment.path, "r+b") as file:
        data = file.read()
        place = data.index(_double(50.0))
        file.seek(place)
        file.write(bytes([data[place] ^ 1]))
    run_dry(Delivery(journal.folder, RUN, lambda: 0), server)
    assert [row[1] for row in server.rows] == [n for n in range(100) if n != 50]
    assert [event.type for _, event in server.payloads] == ["gap"]


def test_a_row_whose_definition_is_damaged_is_a_gap(create, model_server):
    journal, server = create(), model_server()
    fill(journal, 3)
    journal.close()
    with open(writers.segments(journal.folder)[0].path, "r+b") as file:
        file.seek(12)
        file.write(b"\xff")
    run_dry(Delivery(journal.folder, RUN, lambda: 0), server)
    assert server.rows == []
    assert len(server.payloads) == 4


def test_the_end_of_a_living_journal_is_looked_at_twice(create, model_server):
    """A checksum that is not there yet is no damage."""
    journal, server = create(), model_server()
    fill(journal, 2)
    end = journal.end
    fill(journal, 1, start=2)
    with open(writers.segments(journal.folder)[0].path, "r+b") as file:
        file.seek(end + 10)
        whole = file.read(1)
        file.seek(end + 10)
        file.write(b"\xaa")
        file.flush()
        delivery = Delivery(journal.folder, RUN, lambda: 0)
        run_dry(delivery, server)
        run_dry(delivery, server)
        assert delivery.position == end
        file.seek(end + 10)
        file.write(whole)
    run_dry(delivery, server)
    assert [row[1] for row in server.rows] == [0, 1, 2]
    assert not server.payloads


def test_acknowledged_segments_go_and_a_finished_folder_is_done(small_segments, create, model_server):
    journal, server = create(), model_server()
    fill(journal, 1000)
    delivery = Delivery(journal.folder, RUN, lambda: 0)
    run_dry(delivery, server)
    assert len(writers.segments(journal.folder)) == 1
    assert not delivery.done()
    fill(journal, 1, start=1000)
    journal.close()
    run_dry(delivery, server)
    assert delivery.done()
    assert delivery.left() == 0
    assert len(server.rows) == 1001


def test_a_new_server_is_told_what_it_will_never_get(small_segments, create, model_server):
    journal, old, new = create(), model_server(), model_server()
    fill(journal, 1000)
    run_dry(Delivery(journal.folder, RUN, lambda: 0), old)
    fill(journal, 1000, start=1000)
    run_dry(Delivery(journal.folder, RUN, lambda: 0), new)
    steps = [row[1] for row in new.rows]
    assert steps == list(range(steps[0], 2000))
    (gap,) = [event for kind, event in new.payloads if kind == "events"]
    assert gap.data["from"] == 0
    assert gap.data["reason"] == "not kept here"


def test_definitions_are_sent_once_and_again_on_demand(create):
    journal = create()
    fill(journal, 1)
    delivery = Delivery(journal.folder, RUN, lambda: 0)
    server = Replies(accept, accept, problem(409, "need_dictionary"), accept)
    delivery.turn(server)
    for n in (1, 2):
        fill(journal, 1, start=n)
        while delivery.turn(server) is Outcome.SENT and server.answers:
            pass
    defined = [len(payload(frame.parts[0]).defs) for frame, _ in server.asked]
    assert defined == [2, 0, 0, 2]
    assert [frame.seq for frame, _ in server.asked][2:] == [server.asked[2][0].seq] * 2


@pytest.mark.parametrize(
    "lie",
    [
        Response(200, {}, b""),
        Response(200, {}, b"<html>welcome</html>"),
        Response(200, {}, b'{"end": "soon"}'),
        Response(200, {}, b'{"end": 1}'),
        Response(200, {}, b'{"end": 999999999}'),
        Response(200, {}, b'{"end": -4}'),
        Response(302, {"location": "/"}, b""),
        Response(500, {}, b"\x00\xff"),
        Response(503, {}, b""),
        Response(400, {}, b"Bad Request"),
        Response(413, {}, b"<html>nginx</html>"),
        problem(409, "sequence_gap"),
        problem(409, "sequence_gap", expected_seq=13),
        problem(409, "sequence_gap", expected_seq=77),
        problem(409, "sequence_gap", expected_seq=1 << 40),
        problem(409, "sequence_gap", expected_seq=-1),
        problem(409, "anything"),
        problem(422, "writer_of_another_run"),
        problem(426, "frame_version"),
        problem(401, "bad_token"),
        problem(507, "disk_full"),
    ],
    ids=lambda answer: f"{answer.status}-{answer.body[:40]!r}",
)
def test_no_lie_costs_a_point(lie, small_segments, create, model_server):
    journal, server = create(), model_server(lambda: lie)
    fill(journal, 300)
    delivery = Delivery(journal.folder, RUN, lambda: 0)
    for _ in range(20):
        delivery.turn(server)
    server.faults = lambda: None
    run_dry(delivery, server)
    assert [row[1] for row in server.rows] == list(range(300))
    assert delivery.refused == 0


@pytest.mark.parametrize(
    ("answer", "outcome", "retry"),
    [
        (Response(429, {"retry-after": "7"}, b""), Outcome.LATER, 7.0),
        (Response(503, {"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT"}, b""), Outcome.LATER, None),
        (Response(503, {"retry-after": "inf"}, b""), Outcome.LATER, None),
        (Response(503, {"retry-after": "1e12"}, b""), Outcome.LATER, None),
        (Response(503, {"retry-after": "-1"}, b""), Outcome.LATER, None),
        (problem(507, "disk_full"), Outcome.LATER, None),
        (problem(401, "bad_token"), Outcome.DENIED, None),
        (problem(403, "not_allowed"), Outcome.DENIED, None),
        (problem(426, "frame_version"), Outcome.DENIED, None),
        (problem(400, "bad_project_name"), Outcome.STUCK, None),
    ],
)
def test_what_each_answer_means(answer, outcome, retry, create):
    journal = create()
    fill(journal, 1)
    delivery = Delivery(journal.folder, RUN, lambda: 0)
    assert delivery.turn(Replies(answer)) is outcome
    assert delivery.retry_after_s == retry
    assert delivery.problem


def test_a_refused_record_is_found_kept_aside_and_told(create, model_server):
    """The server refuses every frame that holds one record; all others arrive."""
    journal, inner = create(), model_server()
    fill(journal, 200)
    journal.emit("config", Config(name="poison"))
    fill(journal, 200, start=200)

    class Picky:
        def request(self, method, path, *, body, headers, timeout_s):
            if any(part.kind == "config" for part in decode(body).parts):
                return problem(422, "frame_malformed")
            return inner.request(method, path, body=body, headers=headers, timeout_s=timeout_s)

    journal.close()
    delivery = Delivery(journal.folder, RUN, lambda: 0)
    run_dry(delivery, Picky())
    assert [row[1] for row in inner.rows] == list(range(400))
    assert delivery.refused == 1
    (gap,) = [event for kind, event in inner.payloads if kind == "events"]
    assert gap.data["reason"] == "refused: frame_malformed"
    (kept,) = [name for name in os.listdir(journal.folder) if name.endswith(".refused")]
    with open(f"{journal.folder}/{kept}", "rb") as file:
        frame = decode(file.read())
    assert payload(frame.parts[0]).name == "poison"
    writers.remove_writer(journal.folder)
    assert kept in os.listdir(journal.folder)


def test_a_body_that_a_proxy_finds_too_large_is_cut_smaller(create, model_server):
    journal, inner = create(), model_server()
    fill(journal, 4000)
    sizes = []

    class Proxy:
        def request(self, method, path, *, body, headers, timeout_s):
            sizes.append(len(body))
            if len(body) > 5000:
                return Response(413, {}, b"<html>Request Entity Too Large</html>")
            return inner.request(method, path, body=body, headers=headers, timeout_s=timeout_s)

    run_dry(Delivery(journal.folder, RUN, lambda: 0), Proxy())
    assert len(inner.rows) == 4000


def test_frames_stay_within_their_limits(create):
    journal = create()
    keyset = journal.define([(f"m{n}", "", None) for n in range(1000)])
    for n in range(300):
        journal.row(keyset, n, n, [float(n)] * 1000)
    reader, position, points = Reader(journal.folder), 0, []
    while (taken := cut(reader, position, finished=False)) is not None:
        points.append(taken.points)
        assert taken.end - taken.start <= 1 << 20
        position = taken.end
    assert sum(points) == 300_000
    assert max(points) <= 64_000
    assert max(points) > 50_000


@pytest.mark.parametrize("offset", [1, 5, 100])
def test_a_position_inside_a_record_is_refused(offset, create):
    journal = create()
    fill(journal, 50)
    with pytest.raises(Misaligned):
        cut(Reader(journal.folder), offset, finished=False)


def test_a_missing_segment_is_a_gap(small_segments, create):
    journal = create()
    fill(journal, 1000)
    kept = writers.segments(journal.folder)
    os.unlink(kept[1].path)
    reader, position, gaps = Reader(journal.folder), 0, []
    while (taken := cut(reader, position, finished=True)) is not None:
        gaps += taken.gaps
        position = taken.end
    assert gaps == [Gap(kept[1].start, kept[1].end, "segment missing")]


def test_a_segment_cut_short_ends_there(create, model_server):
    journal, server = create(), model_server()
    fill(journal, 100)
    shutil.copytree(journal.folder, copy := journal.folder + "-copy")
    os.truncate(writers.segments(copy)[0].path, 3000)
    run_dry(Delivery(copy, RUN, lambda: 0), server)
    steps = [row[1] for row in server.rows]
    assert steps == list(range(len(steps)))
    assert 0 < len(steps) < 100


def test_an_unknown_record_is_told_as_a_gap(create):
    """A newer stepward wrote it; this one ships the rest."""
    from stepward.spool import records
    from stepward.spool.reader import Item

    journal = create()
    taken = Cut(0, Reader(journal.folder))
    taken.take(Item(0, 20, records.Record(99, memoryview(b"whatever"))))
    assert taken.gaps == [Gap(0, 20, "not understood")]
    assert taken.end == 20


def test_a_frame_says_whether_its_writer_lives(create):
    journal = create()
    fill(journal, 10)
    taken = cut(Reader(journal.folder), 0, finished=False)
    assert taken.frame(writers.read_meta(journal.folder), RUN, set(), 5, []).alive
    journal.close()
    assert not taken.frame(writers.read_meta(journal.folder), RUN, set(), 5, []).alive


def test_points_carry_only_what_the_range_holds(create):
    journal = create()
    fill(journal, 10)
    taken = cut(Reader(journal.folder), 0, finished=False)
    frame = taken.frame(writers.read_meta(journal.folder), RUN, set(), 5, [])
    (points,) = [payload(part) for part in frame.parts]
    assert isinstance(points, Points)
    assert (frame.seq, frame.end, frame.sent_at) == (0, journal.end, 5)
    assert len(points.blocks) == 1


def test_a_zombie_is_no_writer():
    child = subprocess.Popen(["true"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert writers.started(child.pid) == 0
    child.wait()
