"""When a group of frames is committed."""

import pytest

from stepward.ingest.coalesce import ACTIVE_S, GROUP_POINTS, GROUP_WAIT_S, GroupQueue


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_lone_writer_waits_for_nobody() -> None:
    clock = Clock()
    queue: GroupQueue[str] = GroupQueue(clock)
    for item in "abc":
        queue.put("w", 1, item)
        assert queue.wait_s() == 0
        assert queue.group() == [item]
        clock.now += 0.5


def test_frames_wait_for_the_writers_that_are_active_but_not_long() -> None:
    clock = Clock()
    queue: GroupQueue[str] = GroupQueue(clock)
    queue.put("v", 1, "v1")
    queue.put("w", 1, "w1")
    assert queue.group() == ["v1", "w1"]
    clock.now += 0.1
    queue.put("v", 1, "v2")
    assert queue.wait_s() == pytest.approx(GROUP_WAIT_S)
    clock.now += GROUP_WAIT_S / 2
    queue.put("w", 1, "w2")
    assert queue.wait_s() == 0
    assert queue.group() == ["v2", "w2"]
    queue.put("v", 1, "v3")
    clock.now += GROUP_WAIT_S
    assert queue.group() == ["v3"]


def test_a_writer_that_went_silent_is_not_waited_for() -> None:
    clock = Clock()
    queue: GroupQueue[str] = GroupQueue(clock)
    queue.put("v", 1, "v1")
    queue.put("w", 1, "w1")
    queue.group()
    clock.now += ACTIVE_S
    queue.put("v", 1, "v2")
    assert queue.wait_s() == 0


def test_a_group_is_cut_at_its_size_and_nothing_is_lost() -> None:
    queue: GroupQueue[int] = GroupQueue(Clock())
    for number in range(5):
        queue.put(f"w{number}", GROUP_POINTS // 2, number)
    assert [queue.group(), queue.group()] == [[0, 1], [2, 3]]
    queue.close()
    assert [queue.group(), queue.group()] == [[4], []]
    assert not queue.put("w", 1, 9)
