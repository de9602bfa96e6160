"""The server as a process: its folder, its end, its death, its neighbours."""

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import stat
import subprocess
import sys
import time

import pytest

from stepward.ingest.hearing import Hearing
from stepward.model.frames import LogChunk, Logs, Status
from stepward.store.catalog import Edits, Runs, nobody, open_database

from .conftest import ServerProcess, now, points

pytestmark = pytest.mark.integration


@pytest.fixture
def data(tmp_path):
    return tmp_path / "data"


def state_file(server):
    return f"{os.environ['XDG_STATE_HOME']}/stepward/servers/{server.port}.json"


def test_it_announces_itself_and_keeps_its_folder_private(data):
    with ServerProcess(data) as server:
        for path, mode in ((data, 0o700), (data / "token", 0o600), (data / "catalog.db", 0o600)):
            assert stat.S_IMODE(os.stat(path).st_mode) == mode, path
        with open(state_file(server)) as file:
            told = json.load(file)
        assert told == {"url": f"http://127.0.0.1:{server.port}", "data": str(data), "pid": server.process.pid}
        assert stat.S_IMODE(os.stat(state_file(server)).st_mode) == 0o600
        server.process.send_signal(signal.SIGTERM)
        said = server.process.communicate(timeout=120)[0]
    assert f"http://127.0.0.1:{server.port}/#login=" in said
    assert not os.path.exists(state_file(server))


def test_sigterm_ends_it_within_ten_seconds_although_somebody_watches(data):
    server = ServerProcess(data).start()
    streams = [server.events("runs=1") for _ in range(3)]
    assert server.stop() < 30  # 10 s where nothing else runs; a stream that held it would hold it for good
    for stream in streams:
        stream.rest()  # ends, rather than hangs
        stream.close()


def test_nothing_acknowledged_is_lost_by_kill_9(data):
    server = ServerProcess(data).start()
    writer = server.writer("killed").begin(name="killed")
    for step in range(20):
        writer.send(points([step], loss=[float(step)]))
    token = server.token
    server.kill()
    with ServerProcess(data, port=server.port) as again:
        assert again.token == token
        writer.server = again
        run = again.get("/api/v1/runs/killed").json
        assert run["latest"]["loss"] == {"step": 19, "value": 19.0}
        writer.send(points([20], loss=[20.0]))
        assert again.get("/api/v1/runs/killed/series").json[0]["count"] == 21


def test_an_outage_loses_no_run_and_the_catalog_is_caught_up(data):
    server = ServerProcess(data).start()
    writer = server.writer("alive").begin(name="alive")
    server.stop()
    # A catalog that fell behind the points, as a crash between commit and application leaves it.
    with sqlite3.connect(data / "catalog.db") as catalog:
        for table in ("runs", "attempts", "sources", "applied"):
            catalog.execute(f"DELETE FROM {table}")
    catalog.close()
    with ServerProcess(data) as again:
        assert again.get("/api/v1/runs/alive").json["state"] == "running"
        writer.server = again
        writer.send(("status", Status(at=now(), step=1)))


def test_a_second_server_on_the_folder_is_refused_and_names_the_first(data):
    with ServerProcess(data) as server:
        error = ServerProcess(data).refused()
        assert (error["code"], error["context"]["pid"]) == ("data_locked", server.process.pid)
        assert server.get("/healthz").status == 200


def test_a_taken_port(data, tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        error = ServerProcess(data, port=taken.getsockname()[1]).refused()
    assert error["code"] == "port_taken"
    assert not os.path.exists(data)


def test_a_newer_folder_is_left_untouched(data):
    os.makedirs(data)
    (data / "format").write_text("2\n")
    (data / "precious").write_text("x")
    assert ServerProcess(data).refused()["code"] == "newer_format"
    assert sorted(os.listdir(data)) == ["format", "precious"]


def test_a_newer_catalog_is_left_untouched(data):
    with ServerProcess(data):
        pass
    with sqlite3.connect(data / "catalog.db") as catalog:
        catalog.execute("UPDATE alembic_version SET version_num = '9999'")
    catalog.close()
    before = (data / "catalog.db").read_bytes()
    assert ServerProcess(data).refused()["code"] == "newer_format"
    assert (data / "catalog.db").read_bytes() == before


def test_a_damaged_catalog_is_left_untouched(data):
    with ServerProcess(data):
        pass
    (data / "catalog.db").write_bytes(b"not a database" * 1000)
    assert ServerProcess(data).refused()["code"] == "catalog_corrupt"
    assert (data / "catalog.db").read_bytes() == b"not a database" * 1000


def test_a_damaged_points_file_is_told_before_anything_is_announced(data):
    store = data / "projects" / "p%2F1" / "points.duckdb"
    store.parent.mkdir(parents=True)
    store.write_bytes(b"not a database" * 1000)
    told = ServerProcess(data).refused()
    assert told["code"] == "store_corrupt"
    for part in (str(store), "project 'p/1'", "stepward restore", f"move {store} and {store}.wal away"):
        assert part in told["message"]
    assert store.read_bytes() == b"not a database" * 1000
    store.unlink()
    with ServerProcess(data) as server:
        assert server.get("/readyz").status == 200


def test_a_damaged_index_of_output_is_told_too(data):
    with ServerProcess(data) as server:
        chunk = LogChunk("stdout", 0, b"hello\n", [(0, now())])
        server.writer("r", "p").begin(name="r").send(("logs", Logs([chunk])))
    index = data / "projects" / "p" / "logs" / "index.db"
    index.write_bytes(b"not a database" * 1000)
    for left in index.parent.glob("index.db-*"):
        left.unlink()
    told = ServerProcess(data).refused()
    assert told["code"] == "store_corrupt"
    for part in (str(index), "project 'p'", "stepward restore", f"move the folder {index.parent} away"):
        assert part in told["message"]
    index.parent.rename(data / "away")
    with ServerProcess(data) as server:
        assert server.get("/api/v1/runs/r").json["name"] == "r"


def test_a_deletion_that_a_crash_cut_short_is_finished(data):
    with ServerProcess(data) as server:
        writer = server.writer("doomed").begin(name="doomed")
        writer.send(points([1], loss=[1.0]), ("logs", Logs([LogChunk("stdout", 0, b"hello\n", [])])))
        kept = server.writer("kept").begin(name="kept")
        kept.send(points([1], loss=[1.0]))
    catalog = open_database(f"{data}/catalog.db")
    hearing = Hearing(0)
    head = Runs(catalog, hearing, now).head(None, writer.run)
    Edits(catalog, hearing, now, nobody).delete(head)
    catalog.close()
    with ServerProcess(data) as server:
        again = server.writer("doomed").begin(name="doomed")
        assert again.run == writer.run
        assert server.get(f"/api/v1/runs/{again.run}/series").json == []
        assert server.get(f"/api/v1/runs/{again.run}/logs").json == []
        assert [series["metric"] for series in server.get("/api/v1/runs/kept/series").json] == ["loss"]


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    assert ServerProcess(tmp_path / "file" / "data").refused()["code"] == "data_unwritable"


def test_a_host_that_is_not_ours(data):
    assert ServerProcess(data, host="203.0.113.1").refused()["code"] == "bad_host"


def test_below_a_root_path_with_and_without_a_proxy_that_strips_it(data):
    with ServerProcess(data, root_path="/team/stepward/") as server:
        for path in ("/team/stepward", ""):
            assert server.get(f"{path}/healthz").status == 200
            assert server.get(f"{path}/api/v1/runs").json["items"] == []
            assert b'<base href="/team/stepward/"' in server.get(f"{path}/runs/any").body
        assert server.get("/team/stepward").status == 200
        assert server.get("/team/other/api/v1/runs").headers["Content-Type"].startswith("text/html")
        link = server.ask("POST", "/api/v1/login-links").json["url"]
        assert link.startswith(f"http://127.0.0.1:{server.port}/team/stepward/#login=")
        answer = server.ask("POST", "/api/v1/login", {"secret": link.partition("=")[2]}, token=None)
        assert "Path=/team/stepward" in answer.headers["Set-Cookie"]


def test_on_all_interfaces_it_warns_and_still_checks_names(data):
    server = ServerProcess(data, host="0.0.0.0").start()
    assert server.get("/healthz", headers={"Host": "192.0.2.7:80"}).status == 200
    assert server.get("/healthz", headers={"Host": "evil.example"}).status == 403
    server.process.send_signal(signal.SIGTERM)
    assert "not encrypted" in server.process.communicate(timeout=120)[1]


def test_behind_a_proxy_the_public_name_is_allowed(data):
    with ServerProcess(data, allowed_hosts=["stepward.example"]) as server:
        assert server.get("/healthz", headers={"Host": "stepward.example"}).status == 200


def test_backup_while_running_and_restore(data, tmp_path):
    with ServerProcess(data) as server:
        writer = server.writer("kept").begin(name="kept", user={"lr": 1})
        writer.send(points(range(50), loss=[float(n) for n in range(50)]))
        made = server.ask("POST", "/api/v1/backups").json
        assert made["path"].startswith(f"{data}/backups/") and made["bytes"] > 0
        writer.send(points([50], loss=[50.0]))
        elsewhere = server.ask("POST", f"/api/v1/backups?path={tmp_path}/copy")
        assert elsewhere.status == 201
        assert server.ask("POST", f"/api/v1/backups?path={tmp_path}/copy").code == "backup_exists"
        assert server.ask("POST", "/api/v1/backups?path=relative").code == "bad_backup_path"
        assert server.ask("POST", "/api/v1/backups?path=/proc/no").code == "bad_backup_path"
        assert not [name for name in os.listdir(f"{data}/backups") if name.endswith(".partial")]

    from stepward.errors import Conflict, NotFound
    from stepward.server.backup import restore

    with pytest.raises(NotFound, match="no backup"):
        restore(str(tmp_path), str(tmp_path / "new"))
    with pytest.raises(Conflict) as caught:
        restore(made["path"], str(data))
    assert caught.value.code == "data_not_empty"
    shutil.move(made["path"], tmp_path / "archive")
    restore(str(tmp_path / "archive"), str(tmp_path / "new"))
    with ServerProcess(tmp_path / "new") as restored:
        run = restored.get("/api/v1/runs/kept").json
        assert run["latest"]["loss"] == {"step": 49, "value": 49.0}
        assert restored.get("/api/v1/runs/kept/config").json["user"] == {"lr": 1}
        assert restored.token != server.token


def test_silence_is_noticed(data):
    """A run nobody speaks for any more is lost after its lease; a heartbeat reopens it."""
    with ServerProcess(data) as server:
        writer = server.writer("silent").begin(name="silent")
        stream = server.events("runs=1")
        while (update := stream.until("run"))["run"]["state"] == "running":
            pass
        assert update["run"]["state"] == "lost"
        writer.send(("status", Status(at=now(), step=1)))
        while stream.until("run")["run"]["state"] != "running":
            pass  # ends with the stream's own time-out, where it never comes back
        stream.close()


HANGS = """
import sys, time
from stepward.server import app, serving
app.Server.close = lambda self: time.sleep(60)
serving.serve(app.ServerSettings(data=sys.argv[1], port=0))
"""


def test_it_ends_in_time_although_something_hangs(data):
    command = [sys.executable, "-c", HANGS, str(data)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    announced = process.stdout.readline()
    port = re.search(r":(\d+) ", announced).group(1)
    state = f"{os.environ['XDG_STATE_HOME']}/stepward/servers/{port}.json"
    assert os.path.exists(state)
    begun = time.monotonic()
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=120)
    assert process.returncode == 0
    assert time.monotonic() - begun < 50  # it would have taken 60
    assert not os.path.exists(state)


ROUTE = {"name": "a", "kind": "webhook", "url": "https://example.com/"}


def test_a_log_that_nobody_reads_holds_nobody_up(data):
    reader, full = os.pipe()
    os.set_blocking(full, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(full, bytes(1 << 12))
    os.set_blocking(full, True)
    server = ServerProcess(data)
    server.stderr = full
    server.start()
    try:
        for _ in range(3):  # each is a line of the audit
            assert server.ask("PUT", "/api/v1/notices/routes/a", ROUTE).status == 200
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(120) == 0
    finally:
        server.process.kill()
        server.process.wait(120)
        server.process.stdout.close()
        os.close(full)
        os.close(reader)


def test_a_server_without_stderr_serves(data):
    server = ServerProcess(data)
    server.below = ["sh", "-c", 'exec "$@" 2>&-', "sh"]
    server.stderr = None
    server.start()
    try:
        assert server.ask("PUT", "/api/v1/notices/routes/a", ROUTE).status == 200  # a line of the audit
        assert server.get("/healthz").status == 200
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(30) == 0
    finally:
        server.process.kill()
        server.process.wait(10)
        server.process.stdout.close()
