"""When a boundary saves, when it ends, and at which step ranks agree to."""

import time

import pytest

from stepward.model.words import REQUEUE_EXIT
from stepward.sdk.autocheckpoint import AutoCheckpoint, Told
from stepward.sdk.checkpoint_folder import CheckpointFolder


class Rank:
    """A rank without its process: the boundaries are called by the test."""

    def __init__(self, root, rank=0, world=1, every=None, grace=30.0, save=None):
        self.saved, self.durable, self.events = [], [], []
        self.folder = CheckpointFolder(str(root), run="run_1", attempt="a", keep=10)
        self.auto = AutoCheckpoint(
            save or self._save,
            self.folder,
            rank=lambda: rank,
            world=lambda: world,
            every=every,
            grace=grace,
            told=Told(
                lambda step, path, start, end: self.saved.append(step),
                self.durable.append,
                lambda type, title, data: self.events.append((type, title)),
            ),
        )
        self.part = f"part-{rank}"

    def _save(self, path):
        with open(f"{path}/{self.part}", "wb") as file:
            file.write(b"x")

    def signal(self, ago=0.0):
        self.auto._signal_at = time.monotonic() - ago

    def passes(self, *steps):
        """The step at which the boundary ended the process; None where it did not."""
        for step in steps:
            try:
                self.auto.boundary(step)
            except SystemExit as end:
                assert end.code == REQUEUE_EXIT
                return step
        return None


def test_saves_fall_on_every_so_many_steps_and_are_durable_when_complete(tmp_path):
    rank = Rank(tmp_path, every=5)
    assert rank.passes(*range(13)) is None
    rank.auto.close()
    assert (rank.saved, rank.durable, rank.folder.steps()) == ([5, 10], [5, 10], [10, 5])


def test_a_signal_saves_at_the_next_boundary_and_ends(tmp_path):
    rank = Rank(tmp_path)
    assert rank.passes(1, 2) is None
    rank.signal()
    assert rank.passes(3, 4) == 3
    assert rank.folder.steps() == [3]


def test_what_save_raises_comes_out(tmp_path):
    def save(path):
        raise OSError("no space")

    rank = Rank(tmp_path, every=1, save=save)
    with pytest.raises(OSError, match="no space"):
        rank.auto.boundary(1)
    assert rank.folder.steps() == []


def test_a_save_that_does_not_fit_into_the_grace_is_not_begun(tmp_path):
    rank = Rank(tmp_path, every=2, grace=10.0)
    rank.passes(2)
    rank.auto._longest_s = 8.0
    rank.signal()
    assert rank.passes(3) == 3
    assert rank.saved == [2]
    assert rank.events[0][0] == "checkpoint_missed"


def test_ranks_end_at_one_step_whoever_heard_first(tmp_path):
    ranks = [Rank(tmp_path, rank=number, world=2) for number in range(2)]
    for rank in ranks:
        rank.passes(10)
        rank.auto._step_s = 0.5
    ranks[1].signal()
    ranks[1].auto._boundary = None  # the pace of a test is no pace
    assert ranks[1].passes(11) is None
    ranks[0].auto._read_target()
    ranks[0].auto._boundary = None
    target = ranks[0].auto._target
    assert target == ranks[1].auto._target
    assert target > 11, "the others need time to hear"
    assert ranks[0].passes(11, 12) is None
    with open(f"{ranks[0].folder.stage(target)}/.rank-1", "wb"):
        pass
    assert ranks[0].passes(target) == target
    assert ranks[0].folder.steps() == [target]


def test_a_rank_that_has_passed_the_step_saves_nothing_and_says_so(tmp_path):
    rank = Rank(tmp_path, rank=1, world=2)
    rank.folder.leave_note("stop", b"5")
    rank.auto._read_target()
    assert rank.passes(6) == 6
    assert rank.saved == []
    assert rank.events == [("checkpoint_missed", "step 5 had passed when this rank heard of the end")]
