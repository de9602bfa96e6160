"""The spool is a local folder of this user; everything else is passed over with one warning."""

import os

import pytest

from stepward.spool import roots


@pytest.fixture(autouse=True)
def forget(monkeypatch, tmp_path):
    monkeypatch.setattr(roots, "_resolved", {})
    monkeypatch.setattr(roots, "default_root", lambda: str(tmp_path / "default"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))


def mounts(tmp_path, *lines):
    path = tmp_path / "mounts"
    path.write_text("".join(f"{line}\n" for line in lines))
    return str(path)


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/nfs/home/x/spool", "nfs4"),
        ("/nfs", "nfs4"),
        ("/nfsx", "ext4"),
        ("/a b/c", "fuse.sshfs"),
        ("/over/x", "lustre"),
    ],
)
def test_the_longest_mount_point_decides(tmp_path, path, kind):
    table = mounts(
        tmp_path,
        "/dev/vda / ext4 rw 0 0",
        "srv:/h /nfs nfs4 rw 0 0",
        "x /a\\040b fuse.sshfs rw 0 0",
        "a /over ext4 rw 0 0",
        "b /over lustre rw 0 0",
        "broken",
    )
    assert roots.file_system(path, table) == kind


def test_without_a_mount_table_nothing_is_said(tmp_path):
    assert roots.file_system("/x", str(tmp_path / "none")) == ""


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "lustre", "cifs", "fuse.gcsfuse", "beegfs", "gpfs"])
def test_network_file_systems_are_passed_over_with_one_warning(monkeypatch, tmp_path, capsys, kind):
    given, default = str(tmp_path / "given"), str(tmp_path / "default")
    monkeypatch.setattr(roots, "file_system", lambda path: kind if path.startswith(given) else "ext4")
    assert roots.resolve(given) == roots.resolve(given) == default
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert kind in said
    assert default in said
    assert not os.path.exists(given)


def test_a_good_folder_is_used_in_silence(tmp_path, capsys):
    given = str(tmp_path / "given")
    assert roots.resolve(given) == given
    assert os.stat(given).st_mode & 0o777 == 0o700
    assert capsys.readouterr().err == ""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder to another user")
def test_a_folder_of_another_user_is_refused(tmp_path, capsys):
    given = tmp_path / "given"
    given.mkdir()
    os.chown(given, 12345, -1)
    assert roots.resolve(str(given)) == str(tmp_path / "default")
    assert "12345" in capsys.readouterr().err


def test_a_link_where_the_default_folder_should_be_is_refused(tmp_path):
    (tmp_path / "default").symlink_to(tmp_path / "elsewhere")
    assert roots.resolve(str(tmp_path / "default")) == f"{tmp_path}/stepward-{os.getuid()}"


def test_where_no_folder_will_do_everything_is_counted_as_dropped(monkeypatch, capsys, create):
    monkeypatch.setattr(roots, "_unfit", lambda folder: "is on fire")
    journal = create("/nowhere")
    keyset = journal.define([("a", "", None), ("b", "", None)])
    assert not journal.row(keyset, 1, 1, [1.0, 2.0])
    assert journal.dropped == 2
    assert "dropped" in capsys.readouterr().err
