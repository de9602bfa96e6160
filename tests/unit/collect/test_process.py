"""Recorded process trees."""

import pytest

from stepward.collect.process import PAGE_BYTES, TICKS_PER_S, Processes, ranks_below, tree
from stepward.collect.readings import Sample


@pytest.fixture
def recorded(tmp_path):
    def process(pid, *, children=(), ticks=0, state="S", started=None, rank=None, written=None):
        folder = tmp_path / "proc" / str(pid)
        for name in (f"task/{pid}", "fd"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / f"task/{pid}/children").write_text(" ".join(map(str, children)))
        (folder / "fd/0").touch()
        started = pid if started is None else started
        (folder / "stat").write_text(
            f"{pid} (x) {state} 1 {pid} 0 0 0 0 0 0 0 0 {ticks} 0 0 0 0 0 2 0 {started} 0 10 0 0"
        )
        (folder / "environ").write_bytes(b"" if rank is None else f"RANK={rank}\0".encode())
        if written is not None:
            (folder / "io").write_text(f"rchar: 1\nread_bytes: 0\nwrite_bytes: {written}\n")

    process.root = str(tmp_path)
    return process


def _look(processes, now):
    sample = Sample()
    processes.sample(sample, now)
    return {reading.metric.removeprefix("system/process/"): reading.value for reading in sample.readings}


def test_tree_is_followed_down(recorded):
    recorded(1, children=[2, 3])
    recorded(2, children=[4])
    recorded(3)
    recorded(4)
    assert tree(1, recorded.root) == [1, 2, 3, 4]
    assert tree(9, recorded.root) == [9]


def test_usage_is_that_of_the_whole_tree(recorded):
    recorded(1, children=[2], ticks=100, written=1000)
    recorded(2, ticks=50)
    processes = Processes({0: 1}, recorded.root)
    first = _look(processes, 0.0)
    assert first == {"processes": 2, "threads": 4, "rss": 20 * PAGE_BYTES, "fds": 2}
    recorded(1, children=[2], ticks=100 + TICKS_PER_S, written=6000)
    found = _look(processes, 2.0)
    assert (found["cpu"], found["written"]) == (50.0, 2500.0)


def test_a_process_that_ends_takes_nothing_away(recorded):
    recorded(1, children=[2], ticks=10)
    recorded(2, ticks=10**6)
    processes = Processes({0: 1}, recorded.root)
    _look(processes, 0.0)
    recorded(1, children=[], ticks=10 + TICKS_PER_S)
    assert _look(processes, 1.0)["cpu"] == 100.0


def test_a_reused_pid_is_another_process(recorded):
    recorded(1, ticks=500, started=7)
    processes = Processes({0: 1}, recorded.root)
    _look(processes, 0.0)
    recorded(1, ticks=TICKS_PER_S, started=8)
    assert _look(processes, 1.0)["cpu"] == 100.0


def test_ranks_are_told_apart(recorded):
    recorded(1)
    recorded(2)
    sample = Sample()
    Processes({0: 1, 1: 2}, recorded.root).sample(sample, 0.0)
    found = {one.rank: one.value for one in sample.readings if one.metric == "system/process/processes"}
    assert found == {0: 1, 1: 1, None: 2}


def test_no_process_gives_no_reading(recorded):
    assert _look(Processes({0: 77}, recorded.root), 0.0) == {}


def test_ranks_of_a_launcher_are_the_topmost_processes_with_their_number(recorded):
    recorded(1, children=[2, 3])
    recorded(2, rank=0, children=[4])
    recorded(3, rank=1)
    recorded(4, rank=0)
    assert ranks_below(1, recorded.root) == {0: 2, 1: 3}
    assert ranks_below(2, recorded.root) == {}, "a child of rank 0 is still rank 0"
