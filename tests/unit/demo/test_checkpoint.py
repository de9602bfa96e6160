"""A checkpoint is there whole or not at all."""

import os

import numpy as np
import pytest

from stepward.demo import checkpoint
from stepward.demo.checkpoint import State


def state(step):
    return State(step, *(np.full(5, step + k, dtype=np.float32) for k in range(3)))


def test_what_was_saved_comes_back(tmp_path):
    checkpoint.save(str(tmp_path), state(40))
    found = checkpoint.newest(str(tmp_path))
    assert found.step == 40
    assert all(np.array_equal(a, b) for a, b in zip(found[1:], state(40)[1:], strict=True))


def test_the_newest_two_are_kept(tmp_path):
    for step in (10, 20, 30):
        checkpoint.save(str(tmp_path), state(step))
    assert sorted(os.listdir(tmp_path)) == ["step-000020.npz", "step-000030.npz"]


@pytest.mark.parametrize("damage", [lambda data: data[: len(data) // 2], lambda data: b"", lambda data: b"x" * 100])
def test_a_damaged_checkpoint_is_passed_over(tmp_path, damage):
    checkpoint.save(str(tmp_path), state(10))
    checkpoint.save(str(tmp_path), state(20))
    newest = tmp_path / "step-000020.npz"
    newest.write_bytes(damage(newest.read_bytes()))
    assert checkpoint.newest(str(tmp_path)).step == 10


def test_nothing_to_resume_from(tmp_path):
    assert checkpoint.newest(str(tmp_path)) is None


def test_leftovers_are_swept(tmp_path):
    (tmp_path / "step-000020.npz.tmp").write_bytes(b"half")
    checkpoint.save(str(tmp_path), state(10))
    checkpoint.sweep(str(tmp_path))
    assert os.listdir(tmp_path) == ["step-000010.npz"]
