import queue
from contextlib import contextmanager

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepward.client import live
from stepward.client.live import Away, Event, Live, Opened, events, updates
from stepward.errors import Unauthenticated, Unavailable
from stepward.model.updates import LogsUpdate, PointsUpdate

HELLO = [b"retry: 2000", b": live", b""]
LOGS = LogsUpdate("run_1", {"s": 3})


def message(update):
    tag = type(update).__struct_config__.tag
    return [b"event: " + tag.encode(), b"data: " + msgspec.json.encode(update), b""]


def test_updates_follow_the_greeting():
    points = PointsUpdate(run="run_1", metrics=["loss"], step=3)
    assert list(updates([*HELLO, *message(points), b": alive", b"", *message(LOGS)])) == [Opened(), points, LOGS]


def test_a_dropped_queue_means_fetch_anew():
    assert list(updates([*HELLO, b"event: resync", b"data: {}", b""])) == [Opened(), Opened()]


def test_what_a_newer_server_says_is_passed_over():
    assert list(updates([*HELLO, b"event: moon", b'data: {"type":"moon"}', b"", *message(LOGS)])) == [Opened(), LOGS]


def test_a_silent_stream_was_never_open():
    assert list(updates([])) == []


line = st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), max_size=20)
NAME = st.text(st.characters(exclude_characters="\r\n", categories=["L", "N"]), min_size=1, max_size=9)


@given(st.lists(st.tuples(NAME, st.lists(line, min_size=1, max_size=3))), st.sampled_from([b"", b"\r"]))
def test_any_event_is_read_back(sent, end):
    lines = []
    for name, data in sent:
        lines += [b"id: 1" + end, b"event: " + name.encode() + end]
        lines += [b"data: " + part.encode() + end for part in data]
        lines.append(end)
    assert list(events(lines)) == [Event(name, "\n".join(data).encode()) for name, data in sent]


@given(st.lists(st.binary(max_size=30)))
def test_no_bytes_break_the_reader(lines):
    list(updates(lines))


def test_an_event_that_was_cut_off_is_none():
    assert list(events([b"event: logs", b"data: {}"])) == []


class Script:
    """A server that is, each time it is asked, what the next entry says: lines, or an error."""

    def __init__(self, *answers):
        self.answers = list(answers)

    @contextmanager
    def __call__(self):
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        yield iter(answer)


def taken(stream, count):
    found = [stream.next(5) for _ in range(count)]
    assert None not in found
    return found


def test_a_broken_stream_is_opened_again_and_says_so(monkeypatch):
    monkeypatch.setattr(live, "FIRST_WAIT_S", 0.001)
    away = Unavailable("away", code="server_unreachable", retry_after_s=0)
    stream = Live(Script([*HELLO, *message(LOGS)], away, HELLO, Unauthenticated("revoked", code="bad_token")))
    first, logs, closed, broken, second, _ = taken(stream, 6)
    assert (first, logs, second) == (Opened(), LOGS, Opened())
    assert isinstance(closed, Away) and closed.error.code == "stream_closed"
    assert isinstance(broken, Away) and broken.error is away
    with pytest.raises(Unauthenticated):
        stream.next(5)


def test_waits_grow_while_the_server_is_away(monkeypatch):
    monkeypatch.setattr(live, "FIRST_WAIT_S", 0.001)
    monkeypatch.setattr(live, "LONGEST_WAIT_S", 0.004)
    away = [Unavailable("away", code="x", retry_after_s=0) for _ in range(5)]
    stream = Live(Script(*away, Unauthenticated("end", code="bad_token")))
    waits = [update.retry_in_s for update in taken(stream, 5)]
    assert waits[0] < 0.0013 and 0.003 <= waits[4] <= 0.005


def test_no_update_in_time_is_none():
    stream = Live(Script(Unauthenticated("end", code="bad_token")))
    with pytest.raises(Unauthenticated):
        stream.next(5)
    stream._updates = queue.SimpleQueue()
    assert stream.next(0.001) is None
