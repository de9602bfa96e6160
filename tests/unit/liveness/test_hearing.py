"""Leases count silence only while the server could hear."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepward.ingest.hearing import LEASE_US, LONGEST_BACKOFF_S, Hearing

S = 1_000_000
T0 = 1_000_000 * S


def test_a_source_is_lost_after_three_missed_heartbeats():
    hearing = Hearing(T0)
    assert hearing.holds(T0, T0 + 12 * S)
    assert not hearing.holds(T0, T0 + 12 * S + 1)


def test_an_outage_of_the_server_expires_no_lease():
    hearing = Hearing(T0 + 600 * S, heard_until=T0)
    assert hearing.holds(T0, T0 + 600 * S)
    # The shipper comes back within its back-off, at most a minute later, and then has its lease.
    assert hearing.holds(T0, T0 + (600 + LONGEST_BACKOFF_S + 12) * S)
    assert not hearing.holds(T0, T0 + (600 + LONGEST_BACKOFF_S + 12) * S + 1)


def test_a_short_outage_is_forgiven_shortly():
    hearing = Hearing(T0 + 5 * S, heard_until=T0)
    assert not hearing.holds(T0, T0 + (5 + 5 + 12) * S + 1)


def test_a_source_that_was_silent_before_the_outage_stays_lost():
    hearing = Hearing(T0 + 600 * S, heard_until=T0)
    assert not hearing.holds(T0 - 13 * S, T0 + 600 * S)


def test_a_late_tick_is_an_outage():
    hearing = Hearing(T0)
    hearing.tick(T0 + S)
    hearing.tick(T0 + 101 * S)
    assert hearing.holds(T0 + S, T0 + 101 * S)


def test_regular_ticks_forgive_nothing():
    hearing = Hearing(T0)
    for second in range(1, 20):
        hearing.tick(T0 + second * S)
    assert not hearing.holds(T0, T0 + 19 * S)


def test_a_frame_that_waits_for_its_commit_forgives_the_wait():
    hearing = Hearing(T0)
    for second in range(1, 30):
        hearing.tick(T0 + second * S, waiting_since=T0 + 2 * S)
    assert hearing.holds(T0 + S, T0 + 29 * S)


def test_a_clock_that_is_set_back_keeps_nobody_alive_for_an_hour():
    hearing = Hearing(T0)
    back = T0 - 3600 * S
    hearing.tick(back)
    for second in range(1, 20):
        hearing.tick(back + second * S)
    assert hearing.holds(T0, back + 12 * S)
    assert not hearing.holds(T0, back + 13 * S)


@given(
    st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 1000)), max_size=8),
    st.integers(0, 1000),
    st.integers(0, 1000),
)
def test_silence_is_the_time_that_is_not_deaf(stretches, heard, length):
    hearing = Hearing(0)
    for start, span in stretches:
        hearing.deaf(start, start + span)
    now = heard + length
    deaf = sum(any(start <= t < start + span for start, span in stretches) for t in range(heard, now))
    assert hearing.silence(heard, now) == length - deaf


@pytest.mark.parametrize("gap", [0, 1, LEASE_US])
def test_outages_that_touch_are_one(gap):
    hearing = Hearing(T0)
    hearing.deaf(T0, T0 + 10 * S)
    hearing.deaf(T0 + 10 * S, T0 + 20 * S)
    assert hearing.silence(T0, T0 + 20 * S + gap) == gap
