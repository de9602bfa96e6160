"""The data folder and the door, without a server."""

import os
import stat

import pytest

from stepward.errors import Conflict, IncompatibleVersion, UsageError
from stepward.server import folder
from stepward.server.folder import DataFolder, file_system


def test_a_folder_has_one_owner(tmp_path):
    first = DataFolder(str(tmp_path / "data"))
    with pytest.raises(Conflict) as caught:
        DataFolder(str(tmp_path / "data"))
    assert caught.value.context["pid"] == os.getpid()
    first.close()
    DataFolder(str(tmp_path / "data")).close()


def test_a_folder_that_cannot_be_read_or_written_is_an_error_of_ours(tmp_path):
    (tmp_path / "data" / "format").mkdir(parents=True)
    with pytest.raises(UsageError) as caught:
        DataFolder(str(tmp_path / "data"))
    assert caught.value.code == "data_unwritable"
    (tmp_path / "other" / "format.partial").mkdir(parents=True)
    with pytest.raises(UsageError) as caught:
        DataFolder(str(tmp_path / "other"))
    assert caught.value.code == "data_unwritable"
    (tmp_path / "other" / "format.partial").rmdir()
    DataFolder(str(tmp_path / "other")).close()  # the lock was let go


def test_the_token_stays_and_is_private(tmp_path):
    opened = DataFolder(str(tmp_path / "data"))
    token = opened.token()
    path = tmp_path / "data" / "token"
    os.chmod(path, 0o644)
    assert opened.token() == token and len(token) > 40
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.write_text("short")
    assert opened.token() not in ("short", token)
    opened.close()


def test_a_network_file_system_is_refused_unless_forced(tmp_path, monkeypatch):
    monkeypatch.setattr(folder, "file_system", lambda path: "nfs4")
    with pytest.raises(UsageError) as caught:
        DataFolder(str(tmp_path / "data"))
    assert caught.value.code == "network_data_folder" and not (tmp_path / "data").exists()
    DataFolder(str(tmp_path / "data"), force=True).close()


def test_file_systems_are_told_apart(tmp_path):
    assert file_system("/proc/self/none/at/all") == "proc"
    assert file_system(str(tmp_path)) not in ("", "proc")


@pytest.mark.parametrize("content", ["2", "99\n", "x", ""])
def test_another_format_is_left_alone(tmp_path, content):
    data = tmp_path / "data"
    data.mkdir(mode=0o755)
    (data / "format").write_text(content)
    with pytest.raises(IncompatibleVersion):
        DataFolder(str(data))
    assert os.listdir(data) == ["format"] and stat.S_IMODE(data.stat().st_mode) == 0o755
