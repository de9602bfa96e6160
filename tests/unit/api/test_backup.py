"""Backups at their edges, with stores that do as the test wants: two at once, a full disk, what a killed one left."""

import errno
import os

import pytest

from stepward.errors import Conflict, StepwardError, StorageFull, UsageError
from stepward.server.backup import backup, remove_unfinished, restore
from stepward.server.folder import DataFolder


class Stores:
    """Catalog, points and logs in one: writes a file, or does what ``then`` says."""

    def __init__(self, then=lambda path: None):
        self.then = then

    def backup(self, path):
        if path.endswith("catalog.db"):
            with open(path, "w") as file:
                file.write("catalog")
            self.then(path)


def take(target, stores):
    return backup(str(target.parent), str(target), catalog=stores, points=stores, logs=stores, now=lambda: 0)


def failing(number):
    def fail(path):
        raise OSError(number, os.strerror(number))

    return fail


def test_a_second_backup_to_the_same_place_leaves_the_first_alone(tmp_path):
    refused = []

    def meanwhile(path):
        with pytest.raises(Conflict) as caught:
            take(tmp_path / "copy", Stores())
        refused.append(caught.value.code)

    take(tmp_path / "copy", Stores(meanwhile))
    assert refused == ["backup_exists"]
    assert sorted(os.listdir(tmp_path / "copy")) == ["catalog.db", "format"]


def test_a_folder_of_others_is_never_removed(tmp_path):
    (tmp_path / "copy.partial").mkdir()
    (tmp_path / "copy.partial" / "precious").write_text("x")
    with pytest.raises(Conflict):
        take(tmp_path / "copy", Stores())
    assert (tmp_path / "copy.partial" / "precious").read_text() == "x"


@pytest.mark.parametrize(
    ("number", "kind", "code"),
    [
        (errno.ENOSPC, StorageFull, "disk_full"),
        (errno.EDQUOT, StorageFull, "disk_full"),
        (errno.EACCES, UsageError, "bad_backup_path"),
        (errno.EIO, UsageError, "bad_backup_path"),
    ],
)
def test_a_backup_that_fails_says_why_and_leaves_nothing(tmp_path, number, kind, code):
    with pytest.raises(StepwardError) as caught:
        take(tmp_path / "copy", Stores(failing(number)))
    assert type(caught.value) is kind and caught.value.code == code
    assert os.listdir(tmp_path) == []


def test_a_restore_goes_on_where_one_was_killed(tmp_path):
    take(tmp_path / "copy", Stores())
    DataFolder(str(tmp_path / "data")).close()
    (tmp_path / "data" / "restoring.partial").mkdir()
    (tmp_path / "data" / "restoring.partial" / "catalog.db").write_text("half")
    restore(str(tmp_path / "copy"), str(tmp_path / "data"))
    assert (tmp_path / "data" / "catalog.db").read_text() == "catalog"
    assert not (tmp_path / "data" / "restoring.partial").exists()


def test_what_a_killed_server_left_of_a_backup_goes_and_nothing_else(tmp_path):
    for name in ("20261201T000000.000000Z.partial", "20261130T000000.000000Z"):
        (tmp_path / "backups" / name).mkdir(parents=True)
        (tmp_path / "backups" / name / "catalog.db").write_text("x")
    (tmp_path / "backups" / "mine.partial").symlink_to(tmp_path / "backups" / "20261130T000000.000000Z")
    remove_unfinished(str(tmp_path))
    assert sorted(os.listdir(tmp_path / "backups")) == ["20261130T000000.000000Z", "mine.partial"]
    assert (tmp_path / "backups" / "20261130T000000.000000Z" / "catalog.db").exists()
    remove_unfinished(str(tmp_path / "nowhere"))
