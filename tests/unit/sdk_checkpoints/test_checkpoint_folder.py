"""Checkpoints on disk: whole or not at all, and read back only if they are what their manifest says."""

import os

import pytest

from stepward.errors import Unavailable
from stepward.sdk.checkpoint_folder import CheckpointFolder, check_root
from stepward.sdk.resume import newest_whole


def folder(root, attempt="a", keep=2):
    return CheckpointFolder(str(root), run="run_1", attempt=attempt, keep=keep)


def write(path, content):
    with open(path, "wb") as file:
        file.write(content)


def save(place, step, content=b"weights", world=1):
    for rank in range(world):
        write(f"{place.stage(step)}/part-{rank}", content)
        place.part_done(step, rank)
    return place.complete(step, world)


def test_a_complete_checkpoint_is_found_with_its_files(tmp_path):
    place = folder(tmp_path)
    manifest = save(place, 5, world=2)
    assert [(entry.path, entry.bytes) for entry in manifest.files] == [("part-0", 7), ("part-1", 7)]
    assert newest_whole(folder(tmp_path, "b"), 0, 1) == ((5, f"{tmp_path}/step-000000000005"), [])


def test_nothing_is_there_before_it_is_complete(tmp_path):
    place = folder(tmp_path)
    write(f"{place.stage(7)}/part-0", b"half")
    place.part_done(7, 0)
    assert place.parts_missing(7, 2) == [1]
    assert place.steps() == []
    assert newest_whole(place, 0, 1) == (None, [])


def test_only_the_newest_stay(tmp_path):
    place = folder(tmp_path)
    for step in (1, 2, 3):
        save(place, step)
    assert place.steps() == [3, 2]


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (lambda path: write(f"{path}/part-0", b"WEIGHTS"), "its content has changed"),
        (lambda path: write(f"{path}/part-0", b"we"), "2 bytes, not 7"),
        (lambda path: os.unlink(f"{path}/part-0"), "No such file"),
        (lambda path: os.unlink(f"{path}/manifest.json"), "No such file"),
        (lambda path: write(f"{path}/manifest.json", b"{"), "manifest.json"),
        (lambda path: os.truncate(f"{path}/manifest.json", 0), "manifest.json"),
    ],
)
def test_a_damaged_one_is_passed_over_named_and_put_aside(tmp_path, damage, why):
    place = folder(tmp_path)
    save(place, 1)
    save(place, 2)
    damage(place.path(2))
    found, damaged = newest_whole(place, 0, 1)
    assert found.step == 1
    (one,) = damaged
    assert (one.step, why in one.why, os.path.isdir(one.path)) == (2, True, True)
    assert place.steps() == [1]


def test_a_step_that_is_computed_again_replaces_the_old_one(tmp_path):
    save(folder(tmp_path), 4, b"old")
    save(folder(tmp_path, "b"), 4, b"new")
    with open(f"{tmp_path}/step-000000000004/part-0", "rb") as file:
        assert file.read() == b"new"
    assert os.listdir(tmp_path) == ["step-000000000004"]


def test_what_a_dead_attempt_left_is_swept_away_and_nothing_else(tmp_path):
    dead, living = folder(tmp_path), folder(tmp_path, "b")
    save(dead, 1)
    dead.stage(2)
    dead.leave_note("stop", b"2")
    living.stage(3)
    (tmp_path / "mine.txt").write_text("kept")
    living.sweep()
    assert sorted(os.listdir(tmp_path)) == sorted([os.path.basename(living.stage(3)), "mine.txt", "step-000000000001"])


def test_the_first_note_stands(tmp_path):
    place = folder(tmp_path)
    assert place.read_note("stop") is None
    assert place.leave_note("stop", b"12") == b"12"
    assert place.leave_note("stop", b"15") == b"12"
    assert folder(tmp_path, "b").read_note("stop") is None, "another attempt's word is not ours"


def test_the_other_ranks_take_the_word_of_rank_0(tmp_path):
    place = folder(tmp_path)
    save(place, 1)
    save(place, 2)
    found, _ = newest_whole(place, 0, 2)
    save(place, 3)
    assert newest_whole(place, 1, 2) == (found, [])


def test_a_folder_that_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(Unavailable) as refused:
        check_root(f"{tmp_path}/file/checkpoints")
    assert refused.value.code == "checkpoint_folder"
