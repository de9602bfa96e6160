"""A project's retention, over HTTP: who may set it, what it says beforehand, and that the runs go with all they wrote."""

import os
import time

from stepward.model.frames import LogChunk, Logs
from stepward.model.states import Exit, Witness

from .conftest import ServerProcess, now, points

HOUR_US = 3_600_000_000


def ended(server):
    """End the server; what it said."""
    server.process.terminate()
    return server.process.communicate(timeout=120)[1]


def test_ended_runs_go_when_their_time_is_over(tmp_path, monkeypatch, request):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    server = ServerProcess(tmp_path / "data").start()
    request.addfinalizer(lambda: server.process.poll() is None and server.kill())
    old = server.writer("old").begin(name="old")
    old.send(points([1], loss=[0.5]), ("logs", Logs([LogChunk("stdout", 0, b"hello\n", [(0, now())])])))
    old.send(("exit", Exit(by=Witness.SDK, at=now() - 2 * HOUR_US, exit_code=0)))
    server.writer("living").begin(name="living")
    path = "/api/v1/projects/p?dry_run=1"
    for kind, status in (("viewer", 403), ("editor", 403), ("admin", 200)):
        token = server.new_token(kind, ["p"])
        assert server.ask("PATCH", path, {"retention_s": 3600}, token=token).status == status
    foreign = server.ask("PATCH", path, {"retention_s": 3600}, token=server.new_token("admin", ["q"]))
    assert foreign.code == "no_such_project"
    assert server.ask("PATCH", path, {"retention_s": 1}).code == "bad_retention"
    assert server.ask("PATCH", path, {"retention_s": 3600}).json["expired"] == 1
    assert server.get("/api/v1/projects/p").json["retention_s"] is None
    assert server.ask("PATCH", "/api/v1/projects/p", {"retention_s": 3600}).json["expired"] == 1
    # Its own look may just come, or not: what counts is that one of the two tells.
    first = ended(server)
    # A server that starts looks at once; one that runs, each minute.
    server.start()
    until = time.monotonic() + 120
    while server.get("/api/v1/runs/old").status == 200 and time.monotonic() < until:
        time.sleep(0.1)
    assert server.get("/api/v1/runs/old").code == "no_such_run"
    assert [run["name"] for run in server.get("/api/v1/runs").json["items"]] == ["living"]
    assert old.post(old.frame(points([2], loss=[0.4]))).code == "run_deleted"
    said = first + ended(server)
    audit = [line.partition("stepward.audit: ")[2] for line in said.splitlines() if "stepward.audit" in line]
    assert audit == [
        f"project 'p' keeps ended runs for 3600 s, which deletes 1 now: {audit[0].rpartition(': ')[2]}",
        f"run {old.run} of project 'p' is deleted by the retention of its project",
    ]
    kept = [folder for folder, _, _ in os.walk(f"{server.data}/projects") if old.run in folder]
    assert kept == []
