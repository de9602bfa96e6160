"""Judging many live runs: a few statements however many they are, outside the write lock where nothing changes."""

import sqlalchemy as sa

from stepward.model.frames import Status
from stepward.store.catalog import standing
from stepward.store.catalog.detected import DetectedEvents, EventRow

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


def looked_at(bench, monkeypatch):
    """A list that the runs of each further look are added to."""
    looks = []
    real = standing.assess
    monkeypatch.setattr(
        standing, "assess", lambda c, runs, *more: (looks.append(sorted(runs)), real(c, runs, *more))[1]
    )
    return looks


def test_runs_in_which_nothing_can_have_changed_are_left_in_peace(bench, monkeypatch):
    live(bench, MANY)
    bench.edits.judge_live()
    looks = looked_at(bench, monkeypatch)
    for _ in range(5):
        bench.now += S
        assert bench.edits.judge_live() == 0
    assert sorted(run for look in looks for run in look) == sorted(bench.run(f"r{n}") for n in range(MANY))
    assert max(map(len, looks)) <= MANY // 5


def test_a_lease_that_ends_before_the_next_look_is_not_waited_for(bench):
    bench.writer("r").send(("status", Status(at=T0)))
    bench.now += 9 * S
    assert bench.edits.judge_live() == 0
    bench.now += 3 * S
    assert bench.edits.judge_live() == 0
    bench.now += 1
    assert bench.edits.judge_live() == 1
    assert bench.get().state == "lost"


def test_a_hang_shows_at_once(bench):
    writer = bench.writer("r")
    writer.send(("status", Status(at=T0)))
    bench.edits.judge_live()
    detected = DetectedEvents(bench.database, bench.changes.extend)
    hang = EventRow("det_1", "hang", "hang/1", "suspected", "critical", "a1", 0, 5, T0, None, "No progress", {})
    detected.keep("p", bench.run("r"), [hang])
    assert bench.edits.judge_live() == 0
    detected.keep("p", bench.run("r"), [hang._replace(certainty="confirmed")])
    assert bench.edits.judge_live() == 1
    assert bench.get().state == "hung"
    detected.keep("p", bench.run("r"), [hang._replace(certainty="confirmed", ended_at=T0 + S)])
    assert bench.edits.judge_live() == 1
    assert bench.get().state == "running"


def test_open_hangs_are_found_by_their_index(bench):
    with bench.database.read() as connection:
        statement = str(standing.hung_runs().compile(connection, compile_kwargs={"literal_binds": True}))
        plan = [row.detail for row in connection.execute(sa.text(f"EXPLAIN QUERY PLAN {statement}"))]
    assert any("events_hung" in line for line in plan), plan
