"""Numbers and instants as JSON carries them."""

import math
import re

from hypothesis import given
from hypothesis import strategies as st

from stepward.model.resources import instant, number


@given(st.floats())
def test_a_number_is_finite_or_a_word(value: float) -> None:
    told = number(value)
    assert float(told) == value or (math.isnan(value) and told == "NaN")
    assert isinstance(told, str) or math.isfinite(told)


def test_an_instant_has_microseconds_even_when_they_are_zero() -> None:
    assert instant(0) == "1970-01-01T00:00:00.000000Z"
    assert instant(1_796_117_400_000_001) == "2026-12-01T09:30:00.000001Z"


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_any_int64_is_an_instant(at_us: int) -> None:
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", instant(at_us))
