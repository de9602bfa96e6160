"""What was told and what waits to be sent: together or not at all, each record once and in order."""

import sqlite3

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepward.agent.watcher.known import Launch, Output, new_job
from stepward.agent.watcher.memory import FORGET_US, About, Memory, Told
from stepward.model.frames import Part, Status, part

HERE = About("default", "run_x", "slurm.0")


def parts(number):
    return [part("status", Status(at=number))]


def told(number, writer="w", about=HERE):
    return Told(writer, about, parts(number))


def job(name="1", *, end="", done=True):
    made = new_job("lab", name, 1, "default")
    made.launches = [Launch(number=0, writer="w", end=end)]
    made.outputs = {"0": [Output(path="/x", stream="/x", done=done)]}
    return made


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "watcher" / "lab.db")


def reopened(memory, path):
    memory.close()
    return Memory(path)


def test_what_is_kept_is_there_after_the_end(path):
    memory = Memory(path)
    assert memory.keep([job("1"), job("2", end="FAILED"), job("3", end="FAILED", done=False)], [told(1)], {"polled": 7})
    memory = reopened(memory, path)
    assert {one.name for one in memory.living()} == {"1", "3"}
    assert memory.job("2").last.end == "FAILED"
    assert memory.job("4") is None
    assert (memory.note("polled"), memory.note("other")) == (7, None)
    assert memory.batch("w").parts == parts(1)


def test_positions_go_on_after_all_was_sent(path):
    memory = Memory(path)
    memory.keep([], [told(1), told(2)], {})
    memory.acknowledge({"w": 2})
    assert memory.writers(9) == []
    memory = reopened(memory, path)
    memory.keep([], [told(3)], {})
    batch = memory.batch("w")
    assert (batch.start, batch.end) == (2, 3)


def test_a_frame_has_records_of_one_place(path):
    memory = Memory(path)
    elsewhere = About("llm", "run_y", "slurm.0")
    memory.keep([], [told(1), told(2), told(3, about=elsewhere)], {})
    batch = memory.batch("w")
    assert (batch.start, batch.end, batch.about, batch.parts) == (0, 2, HERE, parts(1) + parts(2))
    memory.acknowledge({"w": 2})
    assert memory.batch("w").about == elsewhere


def test_a_frame_has_a_bounded_size_and_at_least_one_record(path):
    memory = Memory(path)
    large = [Part("logs", part("status", Status(at=1, phase="x" * (700 << 10))).payload)]
    memory.keep([], [Told("w", HERE, large)] * 3, {})
    assert (memory.batch("w").start, memory.batch("w").end) == (0, 1)
    assert memory.waiting_bytes() > 3 * (700 << 10)


def test_who_has_waited_longest_is_first(path):
    memory = Memory(path)
    memory.keep([], [told(1, "b"), told(1, "a"), told(2, "b")], {})
    assert memory.writers(1) == ["b"]
    memory.acknowledge({"b": 1})
    assert memory.writers(2) == ["a", "b"]


def test_a_disk_that_takes_nothing_costs_no_word(path, capsys):
    memory = Memory(path)
    writer = memory._connection
    writer.execute("PRAGMA query_only = ON")
    assert not memory.keep([job()], [told(1)], {"polled": 1})
    assert not memory.keep([job()], [told(2)], {"polled": 2})
    assert memory.behind == 2
    assert capsys.readouterr().err.count("cannot write down") == 1
    writer.execute("PRAGMA query_only = OFF")
    assert memory.keep([], [told(3)], {})
    assert memory.behind == 0
    assert memory.batch("w").parts == parts(1) + parts(2) + parts(3)
    assert memory.note("polled") == 2


def test_ended_jobs_are_forgotten_at_last_and_living_ones_never(path):
    memory = Memory(path)
    memory.keep([job("1", end="FAILED"), job("2")], [], {})
    memory.forget(FORGET_US)
    assert memory.job("1") is not None
    memory.forget(FORGET_US + 1)
    assert memory.job("1") is None
    assert memory.job("2") is not None


@settings(max_examples=20)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4), st.booleans()), max_size=12))
def test_any_way_of_sending_gives_each_record_once_in_order(tmp_path_factory, turns):
    """(records said, most in a frame, the answer is lost): the server knows by position what it has."""
    memory = Memory(str(tmp_path_factory.mktemp("memory") / "lab.db"))
    said, arrived, committed = [], [], 0
    for count, most, is_lost in [*turns, (0, 100, False)]:
        new = [len(said) + index for index in range(count)]
        said += new
        memory.keep([], [told(number) for number in new], {})
        batch = memory.batch("w", most)
        if batch is None:
            continue
        if batch.start == committed:
            arrived += batch.parts
            committed = batch.end
        # Else the server answers with its position, and nothing is taken.
        if not is_lost:
            memory.acknowledge({"w": min(committed, batch.end)})
    while (batch := memory.batch("w")) is not None:
        arrived += batch.parts if batch.start == committed else []
        committed = max(committed, batch.end)
        memory.acknowledge({"w": committed})
    assert arrived == [one for number in said for one in parts(number)]
    memory.close()


def test_only_the_user_may_read_what_is_kept(path):
    import os

    Memory(path).close()
    assert os.stat(path).st_mode & 0o077 == 0
    with sqlite3.connect(path) as other:
        assert other.execute("SELECT count(*) FROM jobs").fetchone() == (0,)
    other.close()
