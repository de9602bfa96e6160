"""Text of exporters: what the formats allow, and what no exporter should send."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepward.collect.exposition import Sample, label_text, read, sample

NAMES = st.from_regex(r"[A-Za-z_:][A-Za-z0-9_:]{0,20}", fullmatch=True)
LABELS = st.lists(
    st.tuples(st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,10}", fullmatch=True), st.text(max_size=20)),
    max_size=6,
    unique_by=lambda label: label[0],
)


@pytest.mark.parametrize(
    ("line", "name", "labels", "value"),
    [
        ("up 1", "up", (), 1.0),
        ("up 1 1712345678901", "up", (), 1.0),
        ('h{le="0.1",} 3', "h", (("le", "0.1"),), 3.0),
        ('h_bucket{le="+Inf"} 7 # {trace_id="a b"} 0.5 1712345678.1', "h_bucket", (("le", "+Inf"),), 7.0),
        (r'p{path="C:\\x\"y\n"} -2.5e-3', "p", (("path", 'C:\\x"y\n'),), -0.0025),
        ('{"my.metric", "a label"="v"} .5', "my.metric", (("a label", "v"),), 0.5),
        ("empty{} +Inf", "empty", (), math.inf),
        ('spaced  {  a = "b" , c="}"  }   4', "spaced", (("a", "b"), ("c", "}")), 4.0),
    ],
)
def test_a_sample_is_read(line, name, labels, value):
    assert sample(line) == Sample(name, labels, value)


def test_nan_is_a_value():
    assert math.isnan(sample("x NaN").value)


@pytest.mark.parametrize(
    "line",
    [
        "x",
        "x one",
        "x 0x10",
        "x 1_000",
        "x{ 1",
        'x{a="b" 1',
        'x{a="b",,} 1',
        'x{a="1",a="2"} 1',
        'x{"y"} 1 2 3',
        '{a="b"} 1',
        'x{a="b","c"} 1',
        "1x 1",
    ],
)
def test_what_is_no_sample_is_none(line):
    assert sample(line) is None


def test_a_text_is_bounded_and_its_bad_lines_cost_only_themselves():
    text = "# TYPE a gauge\na 1\nbroken{\nb 2\r\na 3\n\nc 4\nd 5\n# EOF\n"
    found = read(text, most=2)
    assert [(one.name, one.value) for one in found.samples] == [("a", 3.0), ("b", 2.0)]
    assert (found.malformed, found.left_out) == (1, 2)


@given(NAMES, LABELS, st.floats())
def test_what_is_written_is_read_again(name, labels, value):
    line = f"{name}{label_text(tuple(labels))} {value!r}"
    found = sample(line)
    assert found.name == name
    assert dict(found.labels) == dict(labels)
    assert found.value == value or (math.isnan(value) and math.isnan(found.value))


@given(st.text(alphabet='ab{}="\\,#\n 1.eE+-NaInf', max_size=80))
def test_no_text_is_too_much(text):
    found = read(text, most=3)
    lines = [line for line in text.split("\n") if line.strip() and not line.strip().startswith("#")]
    assert len(found.samples) <= 3
    assert len(found.samples) + found.malformed + found.left_out <= len(lines)
