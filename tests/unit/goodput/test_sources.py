"""What others write down, as events: each source against a ledger worked out by hand."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepward.goodput.report import of_events
from stepward.goodput.sources import records, reference, steplines, waits
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


def told(attempts, steps=(), happenings=(), ended="finished", **more):
    report = of_events(
        records.events_of(attempts, steps, happenings, ended=ended, now_us=more.get("now_us")),
        now_s=more["now_us"] / S if "now_us" in more else None,
    )
    assert report.rejected == 0, report.rejected_lines
    return report


def test_a_hang_that_goes_on_lasts_until_now_and_no_longer_than_its_attempt():
    hang = [Happening("hang", 1, None, None, 4 * S, None)]
    steps = [step(0, 1, 2.0)]
    live = told([AttemptRecord(1, 0, None, None, 1)], steps, hang, ended=None, now_us=20 * S)
    assert buckets(live) == {"init": 1, "productive": 2, "other": 1, "hang": 16}
    over = told([AttemptRecord(1, 0, 12 * S, "crashed", 1)], steps, hang, ended="crashed", now_us=99 * S)
    assert buckets(over) == {"init": 1, "productive": 2, "other": 1, "hang": 8}


def test_an_attempt_that_never_came_to_a_step_was_starting_all_the_time():
    attempts = [
        AttemptRecord(1, 0, 9 * S, "crashed", 1, unstepped=True),
        AttemptRecord(2, 12 * S, 16 * S, "finished", 1),
    ]
    report = told(attempts, [step(0, 13, 3.0, attempt=2)])
    assert buckets(report) == {"init": 9 + 1, "down": 3, "productive": 3}


def test_a_process_that_makes_no_steps_is_not_said_to_start_for_ever():
    assert buckets(told([AttemptRecord(1, 0, 9 * S, "finished", 1)])) == {"other": 9}


def test_the_step_that_an_attempt_died_in_is_work_that_is_missing():
    attempts = [AttemptRecord(1, 0, 30 * S, "crashed", 2, begun=5), AttemptRecord(2, 32 * S, 52 * S, "finished", 2)]
    steps = [step(n, 2 * n, 2.0, rank=rank) for n in range(5) for rank in (0, 1)]
    steps += [step(5 + n, 32 + 2 * n, 2.0, attempt=2, rank=rank) for n in range(10) for rank in (0, 1)]
    saved = [Happening("checkpoint_durable", 1, 0, 4, 10 * S, None)]
    assert buckets(told(attempts, steps, saved)) == {"productive": 30, "recompute": 20, "down": 2}
    # It stood still for over a minute: a hang, whether or not a detector said so.
    attempts = [attempts[0]._replace(ended_us=130 * S), AttemptRecord(2, 132 * S, 152 * S, "finished", 2)]
    later = [record._replace(start_us=record.start_us + 100 * S) if record.attempt == 2 else record for record in steps]
    assert buckets(told(attempts, later, saved)) == {"productive": 30, "hang": 118, "recompute": 2, "down": 2}


def test_queue_and_provision_of_a_scheduler():
    # Submitted at 0, queued until 30, nodes made ready until 50; a process was heard of early by another clock.
    happenings = [
        Happening("job_submitted", 1, None, None, 0, None),
        Happening("queued", 1, None, None, 0, 30 * S, "Priority"),
        Happening("provision", 1, None, None, 30 * S, 50 * S),
    ]
    report = told([AttemptRecord(1, 2 * S, 70 * S, "finished", 8)], [step(0, 60, 10.0)], happenings)
    assert buckets(report) == {"queue_wait": 30, "provision": 20, "init": 10, "productive": 10}
    assert report.scheduling == pytest.approx(20 / 70) and report.attempts == 1


def test_a_requeued_job_waits_for_nodes_after_a_while_in_which_it_was_down():
    happenings = [
        Happening("queued", 1, None, None, 0, 10 * S, "Resources"),
        Happening("node_failed", 1, None, None, 20 * S, None),
        Happening("requeued", 1, None, None, 24 * S, None, "slurm"),
        Happening("queued", 2, None, None, 24 * S, 44 * S, "Resources"),
        Happening("provision", 2, None, None, 44 * S, 47 * S),
    ]
    attempts = [AttemptRecord(1, 10 * S, 20 * S, "lost", 2), AttemptRecord(2, 24 * S, 57 * S, "finished", 2)]
    steps = [step(n, 10 + 2 * n, 2.0) for n in range(5)] + [step(5 + n, 47 + 2 * n, 2.0, attempt=2) for n in range(5)]
    events = records.events_of(attempts, steps, happenings, ended="finished")
    report = of_events(events)
    assert report.rejected == 0
    assert buckets(report) == {"queue_wait": 10, "productive": 20, "down": 4, "wait_for_nodes": 20, "provision": 3}
    assert [event.reason for event in events if event.kind == "attempt_ended"] == ["node_failed", "finished"]


@pytest.mark.parametrize("reason", sorted(waits.HELD_BACK))
def test_a_job_that_is_held_back_after_a_loss_waits_for_nobody(reason):
    happenings = [
        Happening("requeued", 1, None, None, 12 * S, None, "user"),
        Happening("queued", 2, None, None, 12 * S, 30 * S, reason),
    ]
    attempts = [AttemptRecord(1, 0, 10 * S, "cancelled", 1), AttemptRecord(2, 12 * S, 40 * S, "finished", 1)]
    steps = [step(0, 0, 10.0), step(1, 30, 10.0, attempt=2)]
    assert buckets(told(attempts, steps, happenings)) == {"productive": 20, "down": 20}


def test_a_hold_that_is_released_becomes_a_wait_for_nodes():
    happenings = [
        Happening("queued", 2, None, None, 12 * S, 20 * S, "JobHeldUser"),
        Happening("queued", 2, None, None, 20 * S, 30 * S, "Resources"),
    ]
    attempts = [AttemptRecord(1, 0, 10 * S, "crashed", 1), AttemptRecord(2, 12 * S, 40 * S, "finished", 1)]
    steps = [step(0, 0, 10.0), step(1, 30, 10.0, attempt=2)]
    assert buckets(told(attempts, steps, happenings)) == {"productive": 20, "down": 10, "wait_for_nodes": 10}


def test_a_job_that_waits_now():
    waiting = [
        Happening("job_submitted", 1, None, None, 0, None),
        Happening("queued", 1, None, None, 0, None, "Resources"),
    ]
    report = told([AttemptRecord(1, 3 * S, None, None, None, queued=True)], (), waiting, ended=None, now_us=50 * S)
    assert report.open and buckets(report) == {"queue_wait": 50} and report.attempts == 0
    # Without the watcher's interval, what is known is that it waits.
    report = told([AttemptRecord(1, 3 * S, None, None, None, queued=True)], (), (), ended=None, now_us=50 * S)
    assert buckets(report) == {"queue_wait": 47}
    # Its nodes are being made ready.
    waiting[1] = Happening("queued", 1, None, None, 0, 40 * S, "Resources")
    waiting.append(Happening("provision", 1, None, None, 40 * S, None))
    report = told([AttemptRecord(1, 40 * S, None, None, 4)], (), waiting, ended=None, now_us=50 * S)
    assert buckets(report) == {"queue_wait": 40, "provision": 10}


def test_a_job_that_waits_again():
    waiting = [
        Happening("requeued", 1, None, None, 12 * S, None),
        Happening("queued", 2, None, None, 12 * S, None, "Nodes"),
    ]
    attempts = [AttemptRecord(1, 0, 10 * S, "crashed", 1), AttemptRecord(2, 12 * S, None, None, None, queued=True)]
    report = told(attempts, [step(0, 0, 10.0)], waiting, ended=None, now_us=30 * S)
    assert buckets(report) == {"productive": 10, "down": 2, "wait_for_nodes": 18}


def test_a_job_that_was_cancelled_while_it_waited():
    waiting = [Happening("queued", 1, None, None, 0, 25 * S, "Priority")]
    report = told([AttemptRecord(1, 0, 25 * S, "cancelled", None)], (), waiting, ended="cancelled")
    assert buckets(report) == {"queue_wait": 25} and report.attempts == 0


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
