"""What others write down, as events: each source against a ledger worked out by hand."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepward.goodput.report import of_events
from stepward.goodput.sources import records, reference, steplines
from stepward.goodput.sources.records import AttemptRecord, Happening, StepRecord
from stepward.goodput.sources.steplines import Line

S = 1_000_000  # µs


def step(number, start_s, seconds, attempt=1, rank=0, **phases):
    return StepRecord(attempt, rank, number, round(start_s * S), seconds, phases)


def buckets(report):
    return {bucket: seconds for bucket, seconds in report.buckets_s.items() if seconds}


@pytest.mark.parametrize("seconds", [math.nan, math.inf, -math.inf, 1e308, -1e308, 1e10])
def test_a_step_whose_length_is_none_is_passed_over(seconds):
    sound = [step(n, 2 * n, 2.0, data_wait=math.inf if n == 1 else math.nan) for n in range(3)]
    attempts = [AttemptRecord(1, 0, 6 * S, "finished", 1)]
    report = of_events(records.events_of(attempts, [*sound, step(3, 6, seconds)], ended="finished"))
    assert report == of_events(records.events_of(attempts, sound, ended="finished"))
    assert report.wall_s == 6


def test_a_kill_and_a_resume_from_the_records():
    # Attempt 1: 5 s until the first step, 10 steps of 2 s, one of them 1 s of waiting; saved at 4; killed in step 10 at 27 s.
    # Attempt 2 from 40 s: 4 s until its first step, again from step 5, to 12; ends with the last step.
    steps = [step(n, 5 + 2 * n, 2.0, data_wait=1.0 if n == 3 else math.nan) for n in range(10)]
    steps += [step(n, 44 + 2 * (n - 5), 2.0, attempt=2) for n in range(5, 13)]
    attempts = [AttemptRecord(1, 0, 27 * S, "crashed", 4), AttemptRecord(2, 40 * S, 60 * S, "finished", 4)]
    saved = [Happening("checkpoint_durable", 1, 0, 4, 15 * S, None)]
    report = of_events(records.events_of(attempts, steps, saved, ended="finished"))
    assert report.wall_s == 60 and report.attempts == 2 and report.lost_steps == 5
    # Kept: steps 0-4 (3 with a second of waiting), then 5-12; lost: 5-9; from 25 to 27 nobody knows of a step.
    assert buckets(report) == {
        "productive": 5 * 2 - 1 + 8 * 2,
        "data_wait": 1,
        "recompute": 10,
        "init": 5 + 4,
        "other": 2,
        "down": 13,
    }


def test_an_open_run_has_no_end():
    report = of_events(
        records.events_of([AttemptRecord(1, 0, None, None, 1)], [step(0, 1, 2.0)], ended=None), now_s=10.0
    )
    assert report.open and report.wall_s == 10 and buckets(report) == {"init": 1, "productive": 2, "other": 7}


def test_phases_and_hangs_outside_of_steps():
    happenings = [
        Happening("phase", 1, 0, None, 2 * S, 5 * S, "restore"),
        Happening("phase", 1, 0, None, 12 * S, 14 * S, "evaluation"),
        Happening("hang", 1, None, None, 14 * S, 18 * S),
    ]
    attempts = [AttemptRecord(1, 0, 20 * S, "finished", 1)]
    told = records.events_of(attempts, [step(0, 6, 6.0)], happenings, ended="finished")
    assert buckets(of_events(told)) == {
        "init": 3,
        "restore": 3,
        "productive": 6,
        "evaluation": 2,
        "hang": 4,
        "other": 2,
    }


def test_a_step_that_ends_after_its_attempt_by_another_clock_still_counts():
    attempts = [AttemptRecord(1, 500_000, 3 * S, "finished", 1)]
    report = of_events(records.events_of(attempts, [step(0, 0, 2.0), step(1, 2, 2.0)], ended="finished"))
    assert report.rejected == 0 and buckets(report) == {"productive": 4}


rows = st.lists(
    st.builds(
        step,
        st.integers(0, 9),
        st.floats(0, 50),
        st.floats(0, 9),
        attempt=st.integers(1, 2),
        rank=st.integers(0, 1),
        data_wait=st.floats(-1, 20) | st.just(math.nan),
    ),
    max_size=20,
)


@given(rows)
def test_any_records_give_a_sum(steps):
    attempts = [AttemptRecord(1, 0, 20 * S, "crashed", 2), AttemptRecord(2, 25 * S, None, None, 2)]
    report = of_events(records.events_of(attempts, steps, ended=None))
    assert sum(report.buckets_s.values()) == pytest.approx(report.wall_s, abs=1e-6)


def test_the_reference_librarys_own_log():
    # The oracle of docs/goodput.md: death in step 5 at a time nobody knows, restart at 100, again from step 3.
    log = [{"job_start_time": 0}, {"tpu_init_start_time": 0}, {"tpu_init_end_time": 10}]
    log += [{"training_prep_start_time": 10.0}, {"training_prep_end_time": 20.0}]
    log += [{"step_count": n, "step_start_time": 20.0 + 10 * n} for n in range(6)]
    log += [{"job_start_time": 100}, {"tpu_init_start_time": 100}, {"tpu_init_end_time": 110}]
    log += [{"step_count": 3 + n, "step_start_time": 110.0 + 10 * n} for n in range(7)] + [{"job_end_time": 180}]
    for entries in (log, log[::-1]):
        report = of_events(reference.events_of([{"job_name": "job", **entry} for entry in entries]))
        assert report.overall == pytest.approx(100 / 180)
        assert buckets(report) == {"productive": 100, "recompute": 20, "down": 30, "init": 30}


def test_entries_that_say_nothing_are_passed_over():
    assert reference.events_of([{}, {"job_start_time": "soon"}, {"step_count": 3}, {"step_start_time": 3.0}]) == []


def test_nanogpt_lines():
    lines = [Line(0.0, "tokens per iteration will be: 491,520")]
    lines += [Line(5.0 + n, f"iter {n}: loss {4.1 - n / 10:.4f}, time 1000.00ms, mfu 38.2%") for n in range(30)]
    report = of_events(steplines.events_of(lines, ended="finished"))
    assert report.ideal_step_s == 1.0 and buckets(report) == {"productive": 30}


def test_trainer_lines_every_ten_steps_and_a_restart():
    def line(t, loss):
        return Line(t, json.dumps({"loss": loss, "learning_rate": 1e-4, "epoch": 0.1}).replace('"', "'"))

    lines = [line(10.0 * n, 1.0) for n in range(1, 6)]
    report = of_events(steplines.events_of(lines, logging_steps=10, ended="finished"))
    # The first line says where counting begins, not when: four blocks of ten steps follow.
    assert report.wall_s == 40 and report.ideal_step_s == 1.0 and buckets(report) == {"productive": 40}


def test_a_number_that_falls_is_a_new_attempt():
    lines = [Line(10.0 + n, f"iter {n}: loss 1.0, time 1000ms") for n in range(10)]
    lines += [Line(60.0 + n, f"iter {4 + n}: loss 1.0, time 1000ms") for n in range(10)]
    report = of_events(steplines.events_of(lines, ended="finished"))
    assert report.attempts == 2 and report.lost_steps == 6
    assert buckets(report) == {"productive": 14, "recompute": 6, "down": 40}


@given(st.lists(st.tuples(st.floats(0, 1e6), st.text(max_size=40) | st.just("iter 3: loss 1, time 3ms")), max_size=10))
def test_any_log_is_read(lines):
    told = steplines.events_of([Line(t, text) for t, text in lines], ended="finished")
    assert told == [] or of_events(told) is not None
