"""Notices without a receiver: routes and their file, filters, silences, messages, and what the outbox makes of items."""

import json
import os

import pytest

from stepward.detect.signals import Certainty, Detected
from stepward.errors import UsageError
from stepward.model.frames import Event
from stepward.model.notices import NewSilence, NoticeFilter, NoticeItem, NoticeRoute, Silence
from stepward.model.resources import instant
from stepward.respond.notices.message import MOST_RUNS, command_input, run_lines, webhook_body
from stepward.respond.notices.notifier import HOUR_US, LAST_RETRY_S, Notifier, backoff_s, silenced
from stepward.respond.notices.routes import FILE, Routes, masked, parse_routes, tells
from stepward.store.catalog import open_database
from stepward.store.catalog.notices import SENT, Outbox

S = 1_000_000
T0 = 1_800_000_000 * S
HOOK = '[[route]]\nname = "hook"\nkind = "webhook"\nurl = "https://hooks.example.com/services/T0/secret"\n'
SECRET = "https://hooks.example.com/services/T0/secret"


def item(**other):
    fields = {
        "run": "run_a", "project": "llm", "event": "det_a", "phase": "began", "type": "hang", "severity": "critical",
        "title": "No progress", "at": instant(T0),
    }  # fmt: skip
    return NoticeItem(**{**fields, **other})


def detected(certainty=Certainty.CONFIRMED, **other):
    fields = {
        "id": "hang/a/1", "type": "hang", "detector": "hang/1", "started_at": T0, "detected_at": T0, "attempt": "a",
        "severity": "critical", "title": "No progress",
    }  # fmt: skip
    return Detected(**{**fields, "certainty": certainty, **other})


@pytest.fixture
def outbox(tmp_path):
    database = open_database(str(tmp_path / "catalog.db"))
    yield Outbox(database)
    database.close()


class Desk:
    """A notifier that tells nobody yet, on a clock that tests set."""

    def __init__(self, data, outbox, text):
        (data / FILE).write_text(text)
        os.utime(data / FILE, (1_700_000_000, 1_700_000_000))
        self.now, self.outbox = T0, outbox
        self.routes = Routes(str(data), outbox, lambda why: None)
        self.notifier = Notifier(
            outbox, self.routes, lambda run, event: (run, []), lambda: "http://s", lambda: self.now
        )

    def hear(self, *events, run="run_a", project="llm"):
        self.notifier.follow_events(project, run, events)

    def waiting(self):
        return [[(one.run, one.phase) for one in notice.items] for notice in self.outbox.newest(50)]


@pytest.fixture
def desk(tmp_path, outbox):
    return Desk(tmp_path, outbox, HOOK)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[[route]\n", "line 1"),
        ('[[route]]\nname = "a"\n', "kind"),
        (HOOK + HOOK, "two routes"),
        (HOOK + "colour = 1\n", "colour"),
        (HOOK.replace("https://", "file://"), "http or https"),
        (HOOK.replace("https://hooks.example.com", "https://"), "http or https"),
        (HOOK.replace("secret", "a b"), "http or https"),
        (HOOK.replace("https://", "https://user:word@"), "without a user"),
        (HOOK + 'argv = ["/bin/true"]\n', "no argv"),
        ('[[route]]\nname = "a"\nkind = "command"\nargv = ["true"]\n', "absolute path"),
        (HOOK + "per_hour = 0\n", "per_hour"),
        ('[[routes]]\nname = "a"\n', "[[route]]"),
        ("\xff", "notices"),
    ],
)
def test_a_wrong_file_is_refused_whole(text, why):
    with pytest.raises(UsageError) as refused:
        parse_routes(text.encode("latin-1"))
    assert refused.value.code == "bad_notices" and why in str(refused.value)
    assert SECRET not in str(refused.value)


def test_a_file_is_read_when_it_changes_and_a_wrong_one_leaves_what_was(tmp_path, outbox):
    said = []
    routes = Routes(str(tmp_path), outbox, said.append)
    assert routes.all() == []
    (tmp_path / FILE).write_text(HOOK)
    assert [live.route.name for live in routes.all()] == ["hook"]
    (tmp_path / FILE).write_text(HOOK + "nonsense\n")
    assert [live.route.name for live in routes.all()] == ["hook"]
    assert len(said) == 1 and routes.problem == said[0] and FILE in said[0]
    (tmp_path / FILE).unlink()
    assert (routes.all(), routes.problem) == ([], None)


def test_addresses_and_arguments_are_secrets():
    (hook,) = parse_routes(HOOK.encode())
    assert masked(hook).url == "https://hooks.example.com/…"
    command = NoticeRoute(name="c", kind="command", argv=["/bin/page", "--key", "secret"])
    assert masked(command).argv == ["/bin/page", "…"]


@pytest.mark.parametrize(
    ("filter_", "told"),
    [
        ({}, True),
        ({"projects": ["vision"]}, False),
        ({"types": ["straggler"]}, False),
        ({"types": ["hang"], "severity": "critical"}, True),
    ],
)
def test_filters_of_events(filter_, told):
    assert tells(NoticeFilter(**filter_), item()) is told


def test_filters_of_severity_and_of_ends():
    assert not tells(NoticeFilter(), item(severity="info"))
    end = item(phase="end", type="crashed")
    assert tells(NoticeFilter(types=["hang"]), end) and not tells(NoticeFilter(states=("lost",)), end)


def test_a_silence_covers_what_all_that_it_names_fits():
    def silence(**names):
        return Silence(id="s", until=instant(T0), made_by="me", **names)

    assert silenced(item(), [silence(project="llm", type="hang")])
    assert not silenced(item(), [silence(project="llm", type="crash"), silence(run="run_b")])


def test_the_same_event_is_told_once_however_often_it_is_said(desk):
    desk.hear(detected(), detected())
    desk.hear(detected(title="No progress: rank 3"))
    assert desk.waiting() == [[("run_a", "began")]]


def test_what_happens_within_the_window_is_one_message_and_later_things_another(desk):
    desk.hear(detected())
    desk.now += 5 * S
    desk.hear(detected(), run="run_b")
    desk.now += 60 * S
    desk.hear(detected(), run="run_c")
    assert sorted(map(len, desk.waiting())) == [1, 2]


def test_what_is_over_is_told_where_its_beginning_was(desk):
    desk.hear(detected())
    desk.now += 60 * S
    desk.hear(detected(ended_at=T0 + 50 * S))
    desk.hear(detected(type="straggler", id="x", severity="info", ended_at=T0 + 50 * S))
    assert desk.waiting() == [[("run_a", "ended")], [("run_a", "began")]]


def test_the_end_of_an_attempt_is_no_recovery(desk):
    desk.hear(detected())
    desk.hear(detected(ended_at=T0, data={"ended_by": "the attempt ended: lost"}))
    assert desk.waiting() == [[("run_a", "began")]]


def test_suspicions_are_not_told_and_what_is_withdrawn_in_time_is_taken_back(desk):
    desk.hear(detected(Certainty.SUSPECTED))
    assert desk.waiting() == []
    desk.hear(detected())
    desk.hear(detected(Certainty.WITHDRAWN))
    assert desk.waiting() == []


def test_what_the_server_itself_stopped_is_told_once(desk):
    held = Event(
        id="restart-stopped-2", type="restart_stopped", started_at=T0, ended_at=T0, title="held: it died twice"
    )
    for _ in range(2):
        desk.notifier.follow_own("default", "run_a", held)
    assert desk.waiting() == [[("run_a", "began")]]


def test_old_news_wakes_nobody(desk):
    desk.now += 2 * HOUR_US
    desk.hear(detected())
    assert desk.waiting() == []


def test_a_route_tells_nothing_from_before_it_was_made(desk):
    os.utime(desk.routes._path, (T0 / S + 10, T0 / S + 10))
    desk.hear(detected())
    assert desk.waiting() == []


def test_an_outbox_knows_what_is_due_and_what_was_sent(outbox):
    assert outbox.add("hook", item(), now=T0, due_at=T0 + 20 * S)
    assert outbox.due(T0 + 19 * S) == []
    (message,) = outbox.due(T0 + 20 * S)
    outbox.missed(message.id, "no answer in time", T0 + 30 * S)
    assert outbox.due(T0 + 29 * S) == []
    assert outbox.due(T0 + 30 * S)[0].tries == 1
    outbox.done(message.id, SENT, T0 + 31 * S)
    assert (outbox.due(T0 + 60 * S), outbox.sent_since("hook", T0)) == ([], [T0 + 31 * S])
    assert outbox.newest(1)[0].error is None


def test_silences_end_by_themselves_and_for_those_who_see_their_project(outbox):
    made = outbox.silence(NewSilence(for_s=60, project="llm"), by="me", now=T0)
    assert [one.id for one in outbox.silences(T0 + 59 * S)] == [made.id]
    assert outbox.silences(T0 + 59 * S, ["vision"]) == [] == outbox.silences(T0 + 61 * S)


def test_attempts_to_tell_become_rarer():
    assert [backoff_s(tries) for tries in (0, 1, 2)] == [2, 4, 8]
    assert backoff_s(1000) == LAST_RETRY_S


def test_a_message_has_one_part_a_run_and_says_the_worst_first():
    items = [
        item(type="straggler", severity="warning", title="slow"),
        item(event="b"),
        item(run="run_b", phase="ended"),
    ]
    lines = run_lines(items, lambda run, event: (run, ["cause: gpu_oom 90%"]))
    assert [heading for heading, _ in lines] == ["run_a (llm): hang: No progress", "run_b (llm): over: No progress"]
    assert lines[0][1] == ["cause: gpu_oom 90%", "straggler: slow"]
    many = run_lines([item(run=f"run_{n}") for n in range(50)], lambda run, event: (run, []))
    assert len(many) == MOST_RUNS + 1 and many[-1][0] == "and 30 more runs"


def test_names_of_runs_are_text_in_messages():
    lines = run_lines([item(title="<!channel> & \x1b[31m\u202e")], lambda run, event: ("<http://evil|click>", []))
    body = webhook_body("id", lines, ["http://s/runs/run_a"])
    text = body["blocks"][0]["text"]["text"]
    assert "<!channel>" not in json.dumps(body) and "\x1b" not in text and "\u202e" not in text
    assert text.startswith("*<http://s/runs/run_a|&lt;http://evil|click&gt;")
    assert command_input("id", "pager", [item()], lines)["schema"] == "stepward.notice/1"
