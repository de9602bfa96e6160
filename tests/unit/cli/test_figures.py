import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepward.cli.figures import ago, between, figure, lasting, seconds_of, size, sparkline
from stepward.model.resources import instant

NOW = 1_800_000_000.0


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.123456789, "0.12346"),
        (3, "3"),
        (3.0, "3"),
        (-0.0, "-0"),
        (1e308, "1e+308"),
        ("NaN", "NaN"),
        ("-Infinity", "-Infinity"),
        (None, "-"),
        (1e-12, "1e-12"),
        (123456.0, "123456"),
    ],
)
def test_values(value, shown):
    assert figure(value) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.0123, "12 ms"),
        (12.4, "12 s"),
        (59.7, "59 s"),
        (60, "1 min 00 s"),
        (3725, "1 h 02 min"),
        (100_000, "1 d 03 h"),
        (-5, "0 ms"),
    ],
)
def test_durations(seconds, shown):
    assert lasting(seconds) == shown


def test_moments_are_told_from_now():
    assert ago(instant(int((NOW - 3725) * 1e6)), NOW) == "1 h ago"
    assert ago(instant(int((NOW + 60) * 1e6)), NOW) == "in 1 min"
    assert ago(instant(int(NOW * 1e6)), NOW) == "now"
    assert ago(None, NOW) == "-"


def test_what_has_not_ended_lasts_until_now():
    start = instant(int((NOW - 90) * 1e6))
    assert between(start, None, NOW) == "1 min 30 s"
    assert between(start, instant(int((NOW - 80) * 1e6)), NOW) == "10 s"
    assert between(None, None, NOW) == "-"


@given(st.integers(0, 4_000_000_000_000_000))
def test_an_instant_is_read_back(at_us):
    assert abs(seconds_of(instant(at_us)) * 1e6 - at_us) < 10


def test_sizes():
    assert (size(0), size(1536), size(5 << 40)) == ("0 B", "1.5 KiB", "5.0 TiB")


def test_a_sparkline_goes_from_lowest_to_highest():
    assert sparkline([0, 1, 2, 3, 4, 5, 6, 7]) == "▁▂▃▄▅▆▇█"
    assert sparkline([1, None, 1]) == "▁ ▁"
    assert sparkline([]) == sparkline([None, math.nan]) == ""


@given(st.lists(st.none() | st.floats()))
def test_every_bucket_has_its_cell(values):
    drawn = sparkline(values)
    assert len(drawn) in (0, len(values))
