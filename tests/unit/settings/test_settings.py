"""Where a process finds its server and token, and what a wrong setting says."""

import json
import os
from pathlib import Path

import pytest

from stepward import settings
from stepward.errors import UsageError


@pytest.fixture(autouse=True)
def own_folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("STEPWARD_SERVER", "STEPWARD_TOKEN", "STEPWARD_PROJECT", "STEPWARD_RUN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def keep(text: str, mode: int = 0o600) -> None:
    path = settings.config_path()
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path, mode)


def serve(tmp_path: Path, url: str, pid: int | None = None) -> None:
    """A local server as it announces itself."""
    (tmp_path / "token").write_text("sw_local\n")
    os.makedirs(settings.server_files(), exist_ok=True)
    with open(f"{settings.server_files()}/1.json", "w", encoding="utf-8") as file:
        json.dump({"url": url, "data": str(tmp_path), "pid": pid or os.getpid()}, file)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LocalHost", "[::1]"])
@pytest.mark.parametrize("path", ["", "/", "/x", "/x/"])
def test_a_loopback_server_is_found_by_any_of_its_names(tmp_path: Path, host: str, path: str) -> None:
    serve(tmp_path, f"http://127.0.0.1:7070{path.rstrip('/')}")
    found = settings.load(server=f"http://{host}:7070{path}")
    assert (found.server, found.token) == (f"http://{host}:7070{path.rstrip('/')}", "sw_local")
    assert settings.load().token == "sw_local"


@pytest.mark.parametrize("url", ["http://localhost:7071", "http://localhost.evil:7070", "https://localhost:7070"])
def test_its_token_goes_to_nobody_else(tmp_path: Path, url: str) -> None:
    serve(tmp_path, "http://127.0.0.1:7070")
    assert settings.load(server=url).token is None


def test_a_server_that_is_gone_is_not_found(tmp_path: Path) -> None:
    serve(tmp_path, "http://127.0.0.1:7070", pid=2**22 + 1)
    assert settings.load().server is None


def test_the_kept_token_is_for_the_kept_server_alone() -> None:
    keep('server = "http://a:1/"\ntoken = "t"\nother = 5\n')
    assert settings.load().token == "t"
    assert settings.load(server="http://a:1").token == "t"
    assert settings.load(server="http://b:1").token is None


@pytest.mark.parametrize(
    "text", ["server = 5", "project = true", "token = ['a']", "[server]\na = 1", "server =", "\x00"]
)
def test_a_file_that_is_not_understood_says_so(text: str) -> None:
    keep(text)
    with pytest.raises(UsageError) as refused:
        settings.load()
    assert refused.value.code == "bad_config_file"


def test_a_file_that_others_may_read_is_not_used() -> None:
    keep('token = "t"', mode=0o644)
    with pytest.raises(UsageError, match="others may read"):
        settings.load()


@pytest.mark.parametrize(
    "url", ["h:7070", "ftp://h", "http://", "http://:7070", "http://h:99999", "http://h:x", "http://[::1"]
)
def test_a_server_that_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(UsageError) as refused:
        settings.load(server=url)
    assert refused.value.code == "bad_server_url"


@pytest.mark.parametrize("source", ["argument", "environment", "file"])
def test_a_project_that_no_server_takes_is_refused_at_once(monkeypatch: pytest.MonkeyPatch, source: str) -> None:
    name = "x" * 201
    if source == "environment":
        monkeypatch.setenv("STEPWARD_PROJECT", name)
    elif source == "file":
        keep(f'project = "{name}"')
    with pytest.raises(UsageError) as refused:
        settings.load(project=name if source == "argument" else None)
    assert refused.value.code == "bad_project_name"
