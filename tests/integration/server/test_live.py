"""Live updates: who is told what."""

import pytest

from stepward.model.frames import Event, Events, LogChunk, Logs

from .conftest import now, points

pytestmark = pytest.mark.integration


def test_a_list_of_runs_is_told_of_new_and_changed_runs(server):
    stream = server.events("runs=1")
    writer = server.writer("told").begin(name="told")
    assert stream.until("run")["run"]["name"] == "told"
    server.ask("PATCH", f"/api/v1/runs/{writer.run}", {"notes": "mine"})
    assert stream.until("run")["run"]["notes"] == "mine"
    server.ask("DELETE", f"/api/v1/runs/{writer.run}")
    assert stream.until("run_removed")["id"] == writer.run
    stream.close()


def test_details_are_told_to_those_who_watch_the_run(server):
    writer = server.writer("watched").begin(name="watched")
    stream = server.events(f"run={writer.run}")
    writer.send(points([7], loss=[1.0]))
    told = stream.until("points")
    assert (told["run"], told["metrics"], told["step"]) == (writer.run, ["loss"], 7)
    writer.send(("logs", Logs([LogChunk("stdout", 0, b"a\nb\n", [(4, now())], 0)])))
    assert list(stream.until("logs")["streams"].values()) == [2]
    writer.send(("events", Events([Event(id="e", type="hang", started_at=now(), ended_at=now())])))
    assert stream.until("events")["events"][0]["id"] == "e"
    stream.close()


def test_nobody_is_told_of_projects_that_are_not_his(server):
    token = server.new_token("viewer", ["mine"])
    theirs = server.writer("theirs", "theirs")
    stream = server.events(f"runs=1&run={theirs.run}", token=token)
    theirs.begin(name="theirs").send(points([1], loss=[1.0]))
    server.writer("mine", "mine").begin(name="mine")
    assert stream.until("run")["run"]["name"] == "mine"
    stream.close()
