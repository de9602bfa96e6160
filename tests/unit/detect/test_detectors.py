"""Detectors at their thresholds: on either side, and on what is known to fool them."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepward.detect.loss import judge_loss
from stepward.detect.speed import behind, data_wait_share, slowdown, waits_least
from stepward.detect.usage import grows_to_limit, share

NAN = math.nan


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ([], "unknown"),
        ([2.0, 1.9], "unknown"),
        ([2.0, 1.9, 1.8, 1.8, 1.7], "ok"),
        ([2.0, 1.9, NAN, NAN, NAN], "non_finite"),
        ([2.0, 1.9, 1.8, math.inf], "non_finite"),
        ([9.0, NAN, 3.0, 2.0, 2.0, 1.9, 1.9, 1.8], "ok"),
        ([2.0] * 20 + [9.0] + [2.0] * 20, "loss_spike"),
        ([3.0, 2.5, 2.0, 2.0, 5.0, 7.0, 8.0, 8.0, 8.0, 8.0], "divergence"),
        ([2.0] * 400 + [2.15] * 200, "ok"),
        ([2.0] * 400 + [2.25] * 200, "divergence"),
    ],
)
def test_loss(values, verdict):
    assert judge_loss(values) == verdict


def test_a_slowdown_stands_out_of_the_noise_of_the_steps():
    noise = random.Random(1)
    steps = [1 + noise.gauss(0, 0.02) for _ in range(90)]
    assert slowdown(steps) is None
    slower = slowdown([*steps[:60], *(1.3 * step for step in steps[60:])])
    assert slower is not None
    assert slower.ratio == pytest.approx(1.3, rel=0.03)


def test_the_first_step_compiles_and_is_no_baseline():
    assert slowdown([60.0, 1.0, 1.0, 1.0, 1.0, 1.0]) is None
    assert slowdown([60.0, 1.0, 1.0, 1.0, 2.0, 2.0]) is not None


def test_too_few_steps_say_nothing():
    assert slowdown([1.0, 1.0, 9.0]) is None


def test_stalls_may_be_periodic():
    assert data_wait_share([0.6, 0.6, 30.0, 0.6], [0.0, 0.0, 29.4, 0.0]) == pytest.approx(0.925, abs=0.001)
    assert data_wait_share([], []) is None


def test_a_straggler_is_behind_all_others():
    own = {rank: 1.0 + 0.001 * rank for rank in range(8)}
    assert behind(own) == []
    assert behind({**own, 5: 1.15}) == [5]
    assert behind({0: 1.0, 1: 2.0}) == []


def test_the_culprit_of_a_synchronous_step_waits_least():
    assert waits_least({0: 2.0, 1: 0.05, 2: 2.1, 3: 1.9}) == [1]
    assert waits_least({0: 2.0, 1: 1.9}) == []
    assert waits_least({0: 0.0, 1: 0.0}) == []


@pytest.mark.parametrize(
    ("values", "unit", "expected"), [([31.0], "%", 0.31), ([0.31], "", 0.31), ([0.9], "%", 0.009), ([97.0], "", 0.97)]
)
def test_shares_in_per_cent_and_as_parts(values, unit, expected):
    assert share(values, unit) == pytest.approx(expected)


def test_memory_that_grows_to_its_limit():
    assert grows_to_limit([100, 150, 200, 250], 256)
    assert not grows_to_limit([250, 250, 250, 250], 256)
    assert not grows_to_limit([100, 110, 120, 130], 256)


@given(st.lists(st.floats(), max_size=40))
def test_no_number_is_a_fault(values):
    judge_loss(values)
    finite = [abs(value) for value in values if math.isfinite(value) and abs(value) < 1e150]
    slowdown(finite)
    data_wait_share(finite, finite)
    behind(dict(enumerate(finite)))
    waits_least(dict(enumerate(finite)))
    grows_to_limit(finite, 10.0)
