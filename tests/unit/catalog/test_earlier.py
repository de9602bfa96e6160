"""Earlier runs of the same configuration, and the pace that they let expect."""

import math

import pytest

from stepward.model.frames import Config, Status
from stepward.model.states import Exit, Witness
from stepward.observe.expected import expected_of
from stepward.store.catalog.detected import DetectedEvents

from .conftest import S

USER = {"lr": 0.1, "model": {"layers": 12}}
HOST = {"n1": {"devices": [{"device": 0, "name": "H100", "uuid": "x"}]}}


@pytest.fixture
def detected(bench):
    return DetectedEvents(bench.database, bench.changes.extend)


def trained(bench, detected, key, pace=1.0, user=USER, system=HOST, ranks=2, code=0):
    """A run that ended, and is judged; an hour passes after it."""
    writer = bench.writer(key)
    begun = Config(user=user, system=system, ranks=ranks, started_at=bench.now)
    writer.send(("config", begun), ("status", Status(at=bench.now)))
    bench.now += 100 * S
    writer.send(("exit", Exit(at=bench.now, by=Witness.SDK, exit_code=code)))
    detected.keep_pace(bench.run(key), pace)
    bench.now += 3600 * S


def test_only_what_is_alike_is_compared(bench, detected):
    trained(bench, detected, "same", 1.0)
    trained(bench, detected, "another seed", 1.1, {**USER, "seed": 7, "out": {"run_name": "b"}} | {"out": {}})
    trained(bench, detected, "seeded", 1.2, {**USER, "seed": 8})
    trained(bench, detected, "wider", 2.0, {**USER, "model": {"layers": 24}})
    trained(bench, detected, "more ranks", 3.0, ranks=4)
    trained(bench, detected, "other device", 4.0, system={"n1": {"devices": [{"name": "A100"}]}})
    trained(bench, detected, "failed", 5.0, code=1)
    trained(bench, detected, "unknown pace", None)
    trained(bench, detected, "later", 1.3)
    assert detected.earlier_paces(bench.run("later")) == [1.2, 1.0]
    trained(bench, detected, "last", 9.0)
    assert detected.earlier_paces(bench.run("last")) == [1.3, 1.2, 1.0]
    assert detected.earlier_paces(bench.run("same")) == []


def test_a_run_without_a_configuration_is_like_no_other(bench, detected):
    for number in range(4):
        trained(bench, detected, f"r{number}", user={"seed": number})
    assert detected.earlier_paces(bench.run("r3")) == []


def test_what_ended_just_before_is_not_judged_yet(bench, detected):
    trained(bench, detected, "before")
    bench.now -= 3599 * S
    trained(bench, detected, "at once")
    assert detected.earlier_paces(bench.run("at once")) == []


def test_three_runs_are_a_norm(bench, detected):
    for number, pace in enumerate([1.0, 1.02, 0.98, 1.5]):
        trained(bench, detected, f"r{number}", pace)
    assert expected_of(detected, bench.run("r2"))().step_s is None
    expected = expected_of(detected, bench.run("r3"))()
    assert expected.step_s == pytest.approx(1.0)
    assert expected.step_sigma == pytest.approx(1.4826 * math.log(1.02), rel=0.02)


def test_frames_that_come_late_do_not_take_the_pace_away(bench, detected):
    trained(bench, detected, "a")
    bench.writer("a", rank=1).send(("status", Status(at=bench.now)))
    trained(bench, detected, "b")
    assert bench.get("a").state == "running"
    bench.now += 60 * S
    bench.edits.judge_live()
    trained(bench, detected, "c")
    assert detected.earlier_paces(bench.run("c"))[0] == 1.0
