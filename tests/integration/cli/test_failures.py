"""What goes wrong gets one line, a hint and the right exit code, and leaves nothing half-written."""

import os
import signal
import socket
import stat

import pytest

pytestmark = pytest.mark.integration


def failed(done, code, name):
    """Whether a command failed as it should: nothing on stdout, an error with its code on stderr."""
    lines = done.err.splitlines()
    assert (done.code, done.out) == (code, ""), done
    assert lines[0].startswith("error: ") and lines[0].endswith(f"[{name}]")
    assert len(lines) == 1 or lines[1].startswith("hint: ")


def test_no_server_is_known(empty_home):
    failed(empty_home("ls"), 2, "no_server")


def test_a_server_that_is_down_means_try_again_later(empty_home):
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    for command in (("ls",), ("show", "x"), ("watch", "x"), ("export", "x"), ("token", "ls"), ("backup",)):
        failed(empty_home(*command, STEPWARD_SERVER=f"http://127.0.0.1:{port}"), 75, "server_unreachable")
    done = empty_home("doctor", "--exit-code", STEPWARD_SERVER=f"http://127.0.0.1:{port}")
    assert done.code == 1 and done.out.startswith("bad")


def test_a_bad_token(home):
    failed(home("ls", STEPWARD_SERVER=home.url, STEPWARD_TOKEN="wrong"), 1, "bad_token")
    done = home("doctor", "--format", "json", STEPWARD_SERVER=home.url, STEPWARD_TOKEN="wrong")
    assert next(check for check in done.json if check["name"] == "token")["status"] == "bad"


@pytest.mark.parametrize("command", ["show", "logs", "watch", "export"])
def test_an_unknown_run(home, command):
    failed(home(command, "no such run"), 1, "no_such_run")


def test_a_taken_port(empty_home):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = empty_home("up", "--data", empty_home.data, "--port", str(taken.getsockname()[1]))
    failed(done, 2, "port_taken")
    assert not os.path.exists(empty_home.data)


def test_a_data_folder_that_cannot_be_written(empty_home):
    file = f"{empty_home.root}/file"
    with open(file, "w"):
        pass
    failed(empty_home("up", "--data", f"{file}/data", "--port", "0"), 2, "data_unwritable")


def test_a_newer_data_folder_is_left_untouched(empty_home):
    os.mkdir(empty_home.data)
    with open(f"{empty_home.data}/format", "w") as file:
        file.write("999\n")
    failed(empty_home("up", "--data", empty_home.data, "--port", "0"), 1, "newer_format")
    assert os.listdir(empty_home.data) == ["format"]


def test_a_data_folder_in_use(home):
    failed(home("up", "--data", home.data, "--port", "0"), 1, "data_locked")


def test_tokens_do_what_they_may_and_no_more(home):
    secret = home("token", "create", "reader", "--project", "llm", "--expires", "1h").out.strip()
    as_reader = {"STEPWARD_SERVER": home.url, "STEPWARD_TOKEN": secret}
    assert {run["project"] for run in home("ls", "--format", "json", **as_reader).json} == {"llm"}
    failed(home("token", "ls", **as_reader), 1, "not_allowed")
    failed(home("backup", **as_reader), 1, "not_allowed")
    assert secret not in home("token", "ls", "--format", "json").out
    assert home("token", "revoke", "reader").out.startswith("revoked ")
    failed(home("ls", **as_reader), 1, "bad_token")
    failed(home("token", "revoke", "reader"), 1, "unknown_token")


def test_login_keeps_what_is_good_only(home):
    path = f"{home.root}/config/stepward/config.toml"
    secret = home("token", "create", "me").out.strip()
    failed(home("login", home.url, "--token", "wrong"), 1, "bad_token")
    assert not os.path.exists(path)
    assert home("login", home.url, "--token", secret).out.startswith(f"signed in to {home.url} as me (viewer)")
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    os.unlink(path)
    assert home("login", "--link").out.startswith(home.url)


def test_a_backup_is_put_back(home, empty_home):
    done = home("backup", "--format", "json")
    assert done.code == 0 and os.path.isdir(done.json["path"])
    failed(empty_home("restore", f"{empty_home.root}/none", "--data", empty_home.data), 1, "no_such_backup")
    assert empty_home("restore", done.json["path"], "--data", empty_home.data).code == 0
    failed(empty_home("restore", done.json["path"], "--data", empty_home.data), 1, "data_not_empty")
    empty_home.start()
    names = [run["id"] for run in empty_home("ls", "--format", "json").json]
    assert set(names) <= {run["id"] for run in home("ls", "--format", "json").json} and len(names) >= 3


def test_ctrl_c_is_quiet(home):
    watching = home.popen("watch", "--format", "json")
    watching.stdout.readline()
    watching.send_signal(signal.SIGINT)
    _, err = watching.communicate(timeout=120)
    assert (watching.returncode, err) == (130, "")


def test_a_reader_that_has_gone_is_no_error(home):
    listing = home.popen("watch", "--format", "json")
    listing.stdout.readline()
    listing.stdout.close()
    home.write("after", name="after")
    assert home("sync").code == 0
    assert listing.wait(120) == 141
    assert listing.stderr.read() == ""
    listing.stderr.close()


def test_sync_says_what_remains(home):
    home.write("left", [1.0])
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    done = home("sync", STEPWARD_SERVER=f"http://127.0.0.1:{port}")
    assert done.code == 75 and "remain: " in done.out
    assert "1 runs not shipped" in home("doctor").out
    assert home("sync").code == 0
    assert "all is shipped" in home("doctor").out
