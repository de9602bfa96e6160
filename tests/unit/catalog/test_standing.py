"""Judging many live runs: a few statements however many they are, outside the write lock where nothing changes."""

import sqlalchemy as sa

from stepward.model.frames import Status
from stepward.store.catalog import standing

from .conftest import T0, S

MANY = 30


def live(bench, count):
    for number in range(count):
        bench.writer(f"r{number}").send(("status", Status(at=T0)))


def counted(bench, work):
    """What ``work`` answers, and the statements that it took."""
    said = []

    def note(*arguments):
        said.append(arguments[2].split()[0])

    sa.event.listen(bench.database.engine, "before_cursor_execute", note)
    answer = work()
    sa.event.remove(bench.database.engine, "before_cursor_execute", note)
    return answer, said


def test_a_turn_in_which_nothing_changes_takes_few_statements_and_writes_nothing(bench):
    live(bench, MANY)
    bench.edits.judge_live()
    bench.changes.clear()
    bench.now += S
    with bench.database.write():  # a turn that wanted to write would wait for ever
        changed, said = counted(bench, bench.edits.judge_live)
    assert changed == 0 and bench.changes == []
    assert len(said) < 10 and set(said) <= {"SELECT", "BEGIN"}


def test_runs_beyond_one_piece_are_judged_all(bench, monkeypatch):
    monkeypatch.setattr(standing, "PIECE", 7)
    live(bench, MANY)
    bench.now += 3600 * S
    bench.changes.clear()
    assert bench.edits.judge_live() == MANY
    assert {change.run for change in bench.changes} == {bench.run(f"r{n}") for n in range(MANY)}
    assert {run.state for run in bench.runs.page(None).items} == {"lost"}
    assert bench.edits.judge_live() == 0


def test_all_that_change_at_once_take_few_statements_too(bench):
    live(bench, MANY)
    bench.now += 3600 * S
    changed, said = counted(bench, bench.edits.judge_live)
    assert changed == MANY and len(said) < 20
