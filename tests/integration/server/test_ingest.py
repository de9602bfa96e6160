"""Frames in, runs out: through a real server."""

import math
import time

import pytest

from stepward.model.frames import MAX_FRAME_BYTES, Event, Events, LogChunk, Logs, Status
from stepward.model.states import Exit, Witness

from .conftest import now, points

pytestmark = pytest.mark.integration


def test_a_run_from_its_first_frame_to_its_end(server):
    writer = server.writer("whole").begin(name="whole", user={"lr": 0.1}, tags=["a"])
    writer.send(points(range(10), loss=[1 / (n + 1) for n in range(10)], acc=[math.nan] * 10))
    writer.send(
        ("logs", Logs([LogChunk("stdout", 0, b"hello\nworld\n", [(12, now())], 0)])),
        ("events", Events([Event(id="e", type="checkpoint", started_at=now(), step=9)])),
    )
    run = server.get(f"/api/v1/runs/{writer.run}").json
    assert (run["state"], run["name"], run["tags"]) == ("running", "whole", ["a"])
    assert run["latest"] == {"acc": {"step": 9, "value": "NaN"}, "loss": {"step": 9, "value": 0.1}}
    chart = server.get("/api/v1/runs/whole/points?metric=loss&buckets=5").json
    assert chart["lines"][0]["max"][0] == 1.0 and sum(chart["lines"][0]["count"]) == 10
    assert [series["metric"] for series in server.get("/api/v1/runs/whole/series").json] == ["acc", "loss"]
    assert server.get("/api/v1/runs/whole/config").json["user"] == {"lr": 0.1}
    assert [event["type"] for event in server.get("/api/v1/runs/whole/events?type=checkpoint").json] == ["checkpoint"]
    (stream,) = server.get("/api/v1/runs/whole/logs").json
    page = server.get(f"/api/v1/runs/whole/logs/{stream['id']}").json
    assert [line["text"] for line in page["lines"]] == ["hello", "world"]
    raw = server.get(f"/api/v1/runs/whole/logs/{stream['id']}/raw")
    assert (raw.body, raw.headers["Content-Type"]) == (b"hello\nworld\n", "application/octet-stream")
    assert server.get("/api/v1/runs/whole/export").body.count(b"\n") == 20
    writer.send(("exit", Exit(at=now(), by=Witness.SDK, exit_code=3)))
    run = server.get("/api/v1/runs/whole").json
    assert (run["state"], run["attempts"][0]["exit_code"]) == ("failed", 3)


def test_a_frame_is_committed_once(server):
    writer = server.writer("once").begin()
    frame = writer.frame(points([1], loss=[0.5]))
    assert writer.post(frame).json["end"] == 200
    assert writer.post(frame).json["end"] == 200
    (series,) = server.get(f"/api/v1/runs/{writer.run}/series").json
    assert series["count"] == 1


def test_a_gap_is_answered_with_what_is_expected(server):
    writer = server.writer("gap").begin()
    writer.seq = 500
    answer = writer.post(writer.frame(("status", Status(at=now()))))
    assert (answer.status, answer.code, answer.json["expected_seq"]) == (409, "sequence_gap", 100)
    assert writer.post(writer.frame(("status", Status(at=now()))), **{"Stepward-Accept-Gap": "1"}).status == 200


@pytest.mark.parametrize(
    ("damage", "status", "code"),
    [
        (lambda frame: frame[:10], 422, "frame_damaged"),
        (lambda frame: b"", 422, "frame_damaged"),
        (lambda frame: frame[:-1], 422, "frame_damaged"),
        (lambda frame: frame[:-1] + bytes([frame[-1] ^ 1]), 422, "frame_damaged"),
        (lambda frame: b"\0" * (MAX_FRAME_BYTES + 100), 413, "body_too_large"),
    ],
)
def test_a_bad_body_stores_nothing(server, damage, status, code):
    writer = server.writer("bad")
    answer = writer.post(damage(writer.frame(("status", Status(at=now())))))
    assert (answer.status, answer.code) == (status, code)
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert server.get(f"/api/v1/runs/{writer.run}").status == 404


def test_a_run_stays_in_its_project(server):
    mine = server.writer("mine", "p").begin()
    other = server.writer("mine", "q")
    other.run = mine.run
    answer = other.post(other.frame(("status", Status(at=now()))))
    assert (answer.status, answer.code) == (400, "run_of_another_project")


def test_a_deleted_run_is_gone_and_takes_no_more(server):
    writer = server.writer("doomed").begin(name="doomed")
    writer.send(points([1], loss=[1.0]))
    assert server.ask("DELETE", "/api/v1/runs/doomed").status == 204
    assert server.get("/api/v1/runs/doomed").code == "no_such_run"
    answer = writer.post(writer.frame(("status", Status(at=now()))))
    assert (answer.status, answer.code) == (400, "run_deleted")
    again = server.writer("doomed").begin(name="doomed")
    assert server.get("/api/v1/runs/doomed").json["id"] == again.run
    assert server.get("/api/v1/runs/doomed/series").json == []


def test_an_attempt_that_resumes_lower_takes_over_and_survivors_come_back(server):
    first = server.writer("resumed").begin(name="resumed")
    first.send(points(range(100), loss=[float(n) for n in range(100)], only=[n / 2 for n in range(100)]))
    second = server.writer("resumed", attempt="a2").begin()
    second.send(points(range(50, 53), loss=[0.1, 0.2, 0.3]))
    until = now() + 120_000_000
    while "only" not in (run := server.get("/api/v1/runs/resumed").json)["latest"] and now() < until:
        time.sleep(0.1)
    assert run["latest"]["loss"] == {"step": 52, "value": 0.3}
    assert run["latest"]["only"] == {"step": 49, "value": 24.5}
    assert [attempt["first_step"] for attempt in run["attempts"]] == [0, 50]
    lines = server.get("/api/v1/runs/resumed/points?metric=loss").json["lines"]
    assert [line["abandoned"] for line in lines] == [False, True]


def test_pages_follow_a_cursor(server):
    for number in range(5):
        server.writer(f"page{number}", "pages").begin(name=f"page {number}")
    seen, cursor = [], ""
    while cursor is not None:
        page = server.get(
            f"/api/v1/runs?project=pages&limit=2&sort=name&cursor={cursor}"
            if cursor
            else "/api/v1/runs?project=pages&limit=2&sort=name"
        ).json
        assert page["total"] == 5
        seen += [run["name"] for run in page["items"]]
        cursor = page["next"]
    assert seen == [f"page {number}" for number in range(5)]


def test_people_change_names_tags_and_notes(server):
    writer = server.writer("changed").begin(name="before")
    changed = server.ask("PATCH", f"/api/v1/runs/{writer.run}", {"name": "after", "tags": ["x", "y"], "notes": "n"})
    assert (changed.json["name"], changed.json["tags"], changed.json["notes"]) == ("after", ["x", "y"], "n")
    assert server.ask("PATCH", f"/api/v1/runs/{writer.run}", {"name": "  "}).code == "bad_change"
    assert server.ask("PATCH", f"/api/v1/runs/{writer.run}", {"tags": "x"}).code == "bad_request"


def test_a_name_that_two_runs_have_is_ambiguous(server):
    ids = {server.writer(key, "twice").begin(name="same name").run for key in "ab"}
    answer = server.get("/api/v1/runs/same%20name")
    assert (answer.status, answer.code, set(answer.json["ids"])) == (409, "ambiguous_name", ids)


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/api/v1/runs?filter=metric.loss%20%3C", 400, "bad_filter"),
        ("/api/v1/runs?filter=state%3Drunnning", 400, "bad_filter"),
        ("/api/v1/runs?sort=tag", 400, "bad_sort"),
        ("/api/v1/runs?sort=nothing", 400, "bad_sort"),
        ("/api/v1/runs?cursor=xyz", 400, "bad_cursor"),
        ("/api/v1/runs?limit=501", 400, "bad_limit"),
        ("/api/v1/runs?limit=x", 400, "bad_request"),
        ("/api/v1/runs/nope", 404, "no_such_run"),
        ("/api/v1/runs?project=nope", 404, "no_such_project"),
        ("/api/v1/nope", 404, "no_such_route"),
        ("/api/v1/runs/nope/points", 400, "bad_request"),
        ("/api/v1/runs/nope/steps?rank=2147483648", 400, "bad_request"),
    ],
)
def test_bad_questions_get_a_problem_document(server, path, status, code):
    answer = server.get(path)
    assert (answer.status, answer.code) == (status, code)
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert answer.json["status"] == status


def test_a_bad_filter_names_its_position(server):
    assert server.get("/api/v1/runs?filter=name%3Aa%20AND").json["position"] == 10


def test_large_answers_are_compressed(server):
    writer = server.writer("large").begin(name="large")
    writer.send(points([1], **{f"metric/{number}": [1.0] for number in range(300)}))
    answer = server.get("/api/v1/runs/large", headers={"Accept-Encoding": "gzip"})
    assert answer.headers["Content-Encoding"] == "gzip"
    assert len(answer.body) < len(server.get("/api/v1/runs/large").body) / 3


def test_a_stream_that_is_not_there(server):
    writer = server.writer("mute").begin()
    for path in ("s", "s/raw"):
        answer = server.get(f"/api/v1/runs/{writer.run}/logs/{path}")
        assert (answer.status, answer.code) == (404, "no_such_stream")
    assert server.get(f"/api/v1/runs/{writer.run}/logs").json == []
    assert server.get(f"/api/v1/runs/{writer.run}/export").body == b""


def test_names_that_nobody_expects(server):
    for number, name in enumerate(
        ["x" * 1000, "🙂 ünï", "a/b?c=d&e#f", "'; DROP TABLE runs; --", "<b>&amp;", "\x1b[31m"]
    ):
        writer = server.writer(f"name {number}", "names").begin(name=name, tags=[name])
        writer.send(points([1], **{name: [1.0]}))
        run = server.get(f"/api/v1/runs/{writer.run}").json
        assert (run["name"], run["tags"], list(run["latest"])) == (name, [name], [name])
    assert server.get("/api/v1/runs?project=names").json["total"] == 6


def test_steps_and_values_at_their_limits(server):
    writer = server.writer("limits").begin(name="limits")
    values = [1e308, -0.0, 5e-324, math.inf]
    writer.send(points([-(1 << 63), 0, 1, (1 << 63) - 1], loss=values))
    run = server.get("/api/v1/runs/limits").json
    assert run["latest"]["loss"] == {"step": (1 << 63) - 1, "value": "Infinity"}
    assert run["attempts"][0]["first_step"] == -(1 << 63)
    assert server.get("/api/v1/runs/limits/points?metric=loss").status == 200


def test_five_thousand_metrics(server):
    writer = server.writer("wide").begin(name="wide")
    writer.send(points([1], **{f"layer/{number}/norm": [float(number)] for number in range(5000)}))
    assert len(server.get("/api/v1/runs/wide").json["latest"]) == 5000
    found = server.get('/api/v1/runs?filter=metric."layer/4999/norm"%3D4999').json
    assert [run["name"] for run in found["items"]] == ["wide"]
