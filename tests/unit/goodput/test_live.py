"""The live ledger agrees with replay, whatever it has folded, and keeps no more for a longer run."""

import json
import sys
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepward.goodput import events, history, live
from stepward.goodput.events import Event
from stepward.goodput.ledger import Accountant, account
from stepward.goodput.live import MAX_INTERVALS, LiveLedger
from stepward.goodput.reliability import reliability
from stepward.goodput.report import report
from stepward.testing.goodput.cases import cases, differences

sys.path.insert(0, str(Path(__file__).parent))

from histories import histories

CASES = {case.name: case for case in cases()}
UNORDERED = {"shuffled", "shuffled_ties", "torn_and_doubled"}
# Taken for lost when its successor began, then its end comes: what was folded is not opened again.
RETURNS = {"overlap_return"}
NEVER_FOLDS = 1 << 40


def told(case, *, fold_steps, monkeypatch):
    monkeypatch.setattr(live, "BATCH", 4)
    read, _ = events.read(case.lines)
    ledger = LiveLedger(lateness_s=1e9 if case.name in UNORDERED else 30, fold_steps=fold_steps)
    ledger.feed_all(read if case.name in UNORDERED else sorted(read, key=lambda event: event.t))
    return ledger


def answer(ledger):
    return msgspec.to_builtins(report(ledger.ledger()))


def truth(case):
    return {field: value for field, value in case.truth.items() if field != "rejected"}


@pytest.mark.parametrize("name", sorted(CASES))
def test_without_folding_it_is_exact(name, monkeypatch):
    ledger = told(CASES[name], fold_steps=NEVER_FOLDS, monkeypatch=monkeypatch)
    assert differences(truth(CASES[name]), answer(ledger)) == []


@pytest.mark.parametrize("name", sorted(set(CASES) - RETURNS))
def test_folded_away_the_truth_is_still_there(name, monkeypatch):
    ledger = told(CASES[name], fold_steps=8 if len(CASES[name].lines) < 2000 else 256, monkeypatch=monkeypatch)
    assert differences(truth(CASES[name]), answer(ledger)) == []


def test_a_late_return_moves_no_more_than_its_own_time(monkeypatch):
    case = CASES["overlap_return"]
    got = answer(told(case, fold_steps=8, monkeypatch=monkeypatch))
    assert got["wall_s"] == case.truth["wall_s"]
    assert abs(got["buckets_s"]["productive"] - case.truth["buckets_s"]["productive"]) <= 10


@settings(max_examples=200, deadline=None)
@given(histories(), st.sampled_from([2, 5, NEVER_FOLDS]), st.sampled_from([0, 4, 200]))
def test_no_time_is_lost_or_invented(events_told, fold_steps, lateness_s):
    read, _ = events.read([json.dumps(event).encode() for event in events_told])
    ledger = LiveLedger(lateness_s=lateness_s, fold_steps=fold_steps)
    before, live.BATCH = live.BATCH, 3
    try:
        ledger.feed_all(sorted(read, key=lambda event: event.t))
    finally:
        live.BATCH = before
    found, exact = ledger.ledger(), history.build(read, [])
    assert (found is None) == (exact is None)
    if found is None:
        return
    assert found.wall == account(exact).wall
    assert sum(found.buckets.values()) == found.wall
    assert min(found.buckets.values()) >= 0


def steady(steps):
    """A run with a checkpoint every hundred steps, and a restart every thousand that goes back fifty."""
    t, number, step = 0, 0, 0
    for count in range(steps):
        if count % 1000 == 0:
            if number:
                yield Event(t, "attempt_ended", number, reason="crashed")
                t, step = t + 30 * 10**9, max(step - 50, 0)
            number += 1
            yield Event(t, "attempt_started", number, devices=8, resume_step=step)
        yield Event(t, "phase_started", number, phase="data_wait")
        t += 10**8
        yield Event(t, "phase_ended", number, phase="data_wait")
        yield Event(t, "step_started", number, step=step)
        t += 10**9
        yield Event(t, "step_ended", number, step=step)
        if step % 100 == 99:
            yield Event(t, "checkpoint_durable", step=step)
        step += 1


def kept(ledger):
    reader = ledger._reader
    lists = [*(a.steps for a in reader.attempts.values()), *(a.phases for a in reader.attempts.values())]
    return sum(len(rows) for by_rank in lists for rows in by_rank.values()) + len(reader.durable) + len(ledger._waiting)


def test_a_longer_run_keeps_no_more():
    sizes = []
    for steps in (5_000, 50_000):
        ledger = LiveLedger()
        ledger.feed_all(steady(steps))
        sizes.append(kept(ledger))
        assert sum(1 + len(segment.intervals) for segment in ledger._segments) <= MAX_INTERVALS + 600
    assert sizes[1] < 1.5 * sizes[0]


def test_a_long_run_with_restarts_converges_to_its_replay():
    told_events = list(steady(20_000))
    ledger = LiveLedger()
    ledger.feed_all(told_events)
    found, exact = ledger.ledger(), account(history.build(told_events, []))
    assert found.wall == exact.wall and found.lost_steps == exact.lost_steps
    for bucket, ns in exact.buckets.items():
        assert abs(found.buckets[bucket] - ns) <= 1000, bucket


WINDOWS = [600 * 10**9, 4000 * 10**9]


def test_windows_of_what_is_folded_come_near_to_exact_ones():
    told_events = list(steady(20_000))
    ledger = LiveLedger()
    ledger.feed_all(told_events)
    exact = history.build(told_events, [])
    standing = ledger.standing(windows=[*WINDOWS, 10**15])
    ideal = account(exact).ideal
    for window, found in zip(WINDOWS, standing.windows, strict=False):
        cut = account(msgspec.structs.replace(exact, start=exact.end - window), ideal)
        assert found.wall == cut.wall == window == sum(found.buckets.values())
        # A segment of some 500 steps is cut in two by even shares.
        for bucket, ns in cut.buckets.items():
            assert abs(found.buckets[bucket] - ns) <= 60 * 10**9, bucket
    assert standing.windows[2].buckets == standing.whole.buckets and standing.windows[2].wall == exact.end


def test_the_time_of_each_attempt_is_known():
    told_events = list(steady(5_000))
    ledger = LiveLedger()
    ledger.feed_all(told_events)
    exact = Accountant(history.build(told_events, []), None)
    exact.ledger()
    standing = ledger.standing()
    assert sorted(standing.by_attempt) == [1, 2, 3, 4, 5]
    for attempt, own in zip(exact.history.attempts, exact.by_owner, strict=True):
        for bucket, ns in own.items():
            assert abs(standing.by_attempt[attempt.number][bucket] - ns) <= 1000, (attempt.number, bucket)
    told_of, known = reliability(standing.history), reliability(exact.history)
    assert told_of == known and told_of.interruptions == {"crashed": 4}


def test_a_hang_that_goes_on_is_taken_in_piece_by_piece(monkeypatch):
    monkeypatch.setattr(live, "BATCH", 2)
    ledger, before = LiveLedger(lateness_s=30), list(steady(900))
    began = before[-1].t
    for waited in (10, 100, 1000):
        until = began + waited * 10**9
        beat = [
            Event(until, "phase_started", 1, 1, phase="forward"),
            Event(until, "phase_ended", 1, 1, phase="forward"),
        ]
        ledger.catch_up([*before, Event(began, "stall", 1, until=until), *beat])
        assert ledger.ledger(until).buckets["hang"] == waited * 10**9


@settings(max_examples=100, deadline=None)
@given(histories(), st.sampled_from([2, 5]), st.integers(1, 300))
def test_a_window_holds_its_own_length(events_told, fold_steps, seconds):
    read, _ = events.read([json.dumps(event).encode() for event in events_told])
    ledger = LiveLedger(lateness_s=4, fold_steps=fold_steps)
    before, live.BATCH = live.BATCH, 3
    try:
        ledger.feed_all(sorted(read, key=lambda event: event.t))
    finally:
        live.BATCH = before
    standing = ledger.standing(windows=[seconds * 10**9])
    if standing is not None:
        (window,) = standing.windows
        assert window.wall == min(seconds * 10**9, standing.whole.wall) == sum(window.buckets.values())
        assert min(window.buckets.values()) >= 0


def test_what_comes_too_late_is_counted():
    ledger = LiveLedger(lateness_s=60)
    ledger.feed_all(steady(1000))
    ledger.feed(Event(5, "step_started", 1, step=3))
    assert ledger.late == 1
