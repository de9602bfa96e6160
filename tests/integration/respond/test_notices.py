"""Notices of a real server to a real receiver that is slow, fails, is gone, comes back; and to a command."""

import http.server
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from stepward.client.api import Client
from stepward.errors import NotFound, PermissionDenied, Unavailable, UsageError
from stepward.model.notices import NewSilence, NoticeRoute
from stepward.model.resources import NewToken
from stepward.model.words import TokenKind

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

WAIT_S = 120.0
SLOW_S = 4.0


class Receiver:
    """An HTTP server on one port that behaves as told: ``ok``, ``500``, ``slow``; ``end`` makes it dead."""

    def __init__(self):
        self.got, self.how, self.port = [], "ok", 0
        self.start()

    def start(self):
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                how = receiver.how
                receiver.got.append((how, self.headers["Idempotency-Key"], body))
                if how == "slow":
                    time.sleep(SLOW_S)
                self.send_response(500 if how == "500" else 204)
                self.end_headers()

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_):
                pass  # a client that did not wait

        self.server = Server(("127.0.0.1", self.port), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def end(self):
        self.server.shutdown()
        self.server.server_close()

    def of(self, how):
        return [one for one in list(self.got) if one[0] == how]


class Lab:
    """A server that can be killed and started again."""

    def __init__(self, folder):
        self.folder = folder
        with socket.socket() as sock:
            sock.bind(("127.0.0.1", 0))
            self.port = sock.getsockname()[1]
        clean = {name: value for name, value in os.environ.items() if not name.startswith("STEPWARD_")}
        self.env = clean | {
            "XDG_STATE_HOME": f"{folder}/state", "XDG_CONFIG_HOME": f"{folder}/config",
            "STEPWARD_DIR": f"{folder}/spool", "STEPWARD_SERVER": f"http://127.0.0.1:{self.port}",
        }  # fmt: skip
        self.process, self.log = None, folder / "server.log"

    def start(self):
        command = [sys.executable, "-m", "stepward", "up", "--data", f"{self.folder}/data", "--port", str(self.port)]
        with open(self.log, "a", encoding="utf-8") as log:
            self.process = subprocess.Popen(command, env=self.env, stdout=log, stderr=subprocess.STDOUT)
        _wait(lambda: _serves(self.client))

    @property
    def client(self):
        token = self.folder / "data" / "token"
        return Client(f"http://127.0.0.1:{self.port}", token.read_text().strip() if token.exists() else None)

    def end(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        self.process.wait(timeout=120)

    def start_crash(self, name, gate):
        """A run that fails as soon as the file ``gate`` is there."""
        wrapper = [sys.executable, "-m", "stepward", "run", "--name", name, "--"]
        code = f"import os, time\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.05)\nraise ValueError"
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        return subprocess.Popen([*wrapper, sys.executable, "-c", code], env=self.env, **quiet)

    def crash(self, name):
        assert self.start_crash(name, self.folder).wait(120) == 1


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    lab = Lab(tmp_path_factory.mktemp("notices"))
    lab.start()
    yield lab
    lab.end()


@pytest.fixture
def receiver():
    receiver = Receiver()
    yield receiver
    receiver.end()


def test_a_message_arrives_through_failure_death_and_kill_9(lab, receiver):
    url = f"http://127.0.0.1:{receiver.port}/services/s3cret"
    lab.client.put_notice_route(NoticeRoute(name="hook", kind="webhook", url=url, group_s=10, timeout_s=1))
    receiver.how = "500"
    lab.crash("unlucky")
    _wait(lambda: receiver.of("500"))
    receiver.how = "slow"
    _wait(lambda: receiver.of("slow"))
    # It waited no longer than it may, and so does not know that the receiver had the message.
    _wait(lambda: "in time" in (_message(lab).error or ""))
    lab.end(signal.SIGKILL)
    receiver.end()
    lab.start()
    _wait(lambda: "refused" in (_message(lab).error or ""))
    receiver.how = "ok"
    receiver.start()
    _wait(lambda: receiver.of("ok"))
    _wait(lambda: _message(lab).state == "sent")
    assert len({key for _, key, _ in receiver.got}) == 1
    (_, _, body) = receiver.of("ok")[0]
    assert "unlucky" in body["text"] and "ValueError" in body["blocks"][0]["text"]["text"]
    assert "s3cret" not in lab.log.read_text()
    assert "s3cret" not in str(lab.client.notice_routes()) + str(lab.client.notices())
    lab.client.delete_notice_route("hook")


def test_many_runs_are_one_message_and_what_is_silenced_is_none(lab, receiver, tmp_path):
    url = f"http://127.0.0.1:{receiver.port}/"
    lab.client.put_notice_route(NoticeRoute(name="calm", kind="webhook", url=url, group_s=12))
    quiet = lab.client.silence(NewSilence(for_s=600, type="failed"))
    lab.client.silence(NewSilence(for_s=600, type="crash"))
    lab.client.put_notice_route(NoticeRoute(name="none", kind="webhook", url=url, group_s=0))
    # The second is ready to fail, so that it does within the time of the first one's message on any machine.
    second = lab.start_crash("two", tmp_path / "gate")
    lab.crash("one")
    _wait(lambda: [one for one in lab.client.notices() if one.route == "none" and one.state == "silenced"])
    lab.client.delete_notice_route("none")
    for silence in lab.client.silences():
        lab.client.end_silence(silence.id)
    assert quiet.id not in {silence.id for silence in lab.client.silences()}
    (tmp_path / "gate").touch()
    assert second.wait(120) == 1
    _wait(lambda: receiver.got)
    (_, _, body) = receiver.got[0]
    assert "one" in body["text"] and "two" in body["text"] and len(body["blocks"]) == 2
    lab.client.delete_notice_route("calm")


def test_a_command_reads_the_message_and_only_the_file_names_one(lab, tmp_path):
    told = tmp_path / "told.json"
    file = lab.folder / "data" / "notices.toml"
    file.write_text(
        f'[[route]]\nname = "pager"\nkind = "command"\nargv = ["/bin/sh", "-c", "cat > {told}.part; mv {told}.part {told}"]\n'
        '[[route]]\nname = "stuck"\nkind = "command"\nargv = ["/bin/sleep", "600"]\ntimeout_s = 1\n'
        '[[route]]\nname = "broken"\nkind = "command"\nargv = ["/bin/sh", "-c", "echo no pager >&2; exit 3"]\n'
    )
    assert lab.client.test_notice_route("pager").error is None
    assert json.loads(told.read_text())["schema"] == "stepward.notice/1"
    assert "more than 1 s" in lab.client.test_notice_route("stuck").error
    assert "no pager" in lab.client.test_notice_route("broken").error
    with pytest.raises(PermissionDenied):
        lab.client.put_notice_route(NoticeRoute(name="shell", kind="command", argv=["/bin/sh"]))
    file.write_text("[[route]]\n")
    _wait(lambda: any("notices.toml" in problem for problem in lab.client.ready().problems))
    file.unlink()
    _wait(lambda: not lab.client.ready().problems)


def test_who_may_do_what(lab):
    def bearer(kind, projects=None):
        asked = NewToken(name=f"{kind} {projects}", kind=kind, projects=projects)
        return Client(lab.client.server, lab.client.create_token(asked).secret)

    route = NoticeRoute(name="r", kind="webhook", url="http://127.0.0.1:1/")
    for limited in (bearer(TokenKind.EDITOR), bearer(TokenKind.ADMIN, ["llm"])):
        for refused in (limited.notices, limited.notice_routes, lambda of=limited: of.put_notice_route(route)):
            with pytest.raises(PermissionDenied):
                refused()
    editor = bearer(TokenKind.EDITOR, ["llm"])
    made = editor.silence(NewSilence(for_s=60, project="llm"))
    with pytest.raises(NotFound):
        editor.silence(NewSilence(for_s=60, project="vision"))
    with pytest.raises(PermissionDenied):
        editor.silence(NewSilence(for_s=60, type="hang"))
    with pytest.raises(NotFound):
        bearer(TokenKind.EDITOR, ["vision"]).end_silence(made.id)
    with pytest.raises(PermissionDenied):
        bearer(TokenKind.VIEWER).silence(NewSilence(for_s=60))
    with pytest.raises(UsageError) as bad:
        lab.client.put_notice_route(NoticeRoute(name="r", kind="webhook", url="ftp://x/"))
    assert bad.value.code == "bad_notices"
    editor.end_silence(made.id)


def _message(lab):
    """The message of the route ``hook``; there is one."""
    (found,) = [one for one in lab.client.notices() if one.route == "hook"]
    return found


def _serves(client):
    try:
        return client.health() is not None
    except Unavailable:
        return False


def _wait(true):
    until = time.monotonic() + WAIT_S
    while not true():
        assert time.monotonic() < until
        time.sleep(0.1)
