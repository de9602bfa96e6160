"""The filter language: what is understood, how it binds, and where an error is."""

import math
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepward.errors import UsageError
from stepward.model.filters import COLUMNS, And, Comparison, Field, Not, Or, field, parse


def shape(node):
    """The tree as nested lists of words: short to write down and to compare."""
    match node:
        case Comparison():
            name = {"column": node.field.name, "tag": "tag"}.get(
                node.field.scope, f"{node.field.scope}.{node.field.name}"
            )
            return f"{name}{node.op}{node.value}"
        case Not():
            return ["NOT", shape(node.term)]
        case Or():
            return ["OR", *map(shape, node.terms)]
        case And():
            return [shape(term) for term in node.terms]


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("", []),
        ("   ", []),
        ('state = "running"', ["state=running"]),
        ("state=running", ["state=running"]),
        (
            'state = "running" AND metric.loss < 2 AND tag:ablation AND NOT name:"old"',
            ["state=running", "metric.loss<2", "tag:ablation", ["NOT", "name:old"]],
        ),
        ('metric."val/loss.mean" >= -1.5e-3', ["metric.val/loss.mean>=-1.5e-3"]),
        ("metric.val.loss < 1", ["metric.val.loss<1"]),
        ("config.optim.betas.0 = .9", ["config.optim.betas.0=.9"]),
        ("config.'a b'.\"c\" = x", ["config.a b.c=x"]),
        ("a AND b OR c", ["name:a", ["OR", "name:b", "name:c"]]),
        ("a b OR c d", ["name:a", ["OR", "name:b", "name:c"], "name:d"]),
        ("(a AND b) OR c", [["OR", ["name:a", "name:b"], "name:c"]]),
        ("NOT a OR b", [["OR", ["NOT", "name:a"], "name:b"]]),
        ("NOT (a b)", [["NOT", ["name:a", "name:b"]]]),
        ("started_at >= 2026-12-01T09:30:00Z", ["started_at>=2026-12-01T09:30:00Z"]),
        ("started_at>2026-12-01 name:v7.1.x", ["started_at>2026-12-01", "name:v7.1.x"]),
        ("resnet-50.v2", ["name:resnet-50.v2"]),
        ('"AND"', ["name:AND"]),
        (r'name = "say \"hi\" \\"', ['name=say "hi" \\']),
        ("tag != old", ["tag!=old"]),
        ("metric.loss:*", ["metric.loss:*"]),
        ("name:🙂 notes:größe", ["name:🙂", "notes:größe"]),
        ("tag:a:b", ["tag:a:b"]),
        ("NOTE", ["name:NOTE"]),
    ],
)
def test_tree(text, tree):
    assert shape(parse(text)) == tree


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("(", 0),
        ("(a", 0),
        ("a)", 1),
        ("()", 0),
        ("state", 5),
        ("state =", 7),
        ("state = ", 8),
        ("state = )", 8),
        ("metric < 2", 0),
        ("metric. < 2", 8),
        ("config.a.", 9),
        ("foo = 1", 0),
        ("state.x = 1", 0),
        ("a AND", 5),
        ("AND a", 0),
        ("a OR", 4),
        ("NOT", 3),
        ("NOT NOT a", 4),
        ("a AND AND b", 6),
        ('name:"never ends', 5),
        ("tag < 3", 4),
        ("metric.loss <", 13),
        ("a ! b", 2),
        ("x = 1 name = = 2", 0),
        ("name = = 2", 7),
    ],
)
def test_errors_name_the_position(text, position):
    with pytest.raises(UsageError) as caught:
        parse(text)
    assert caught.value.code == "bad_filter"
    assert caught.value.context["position"] == position


def test_limits():
    for text in ("a" * 5000, "a " * 101, "(" * 60 + "a" + ")" * 60):
        with pytest.raises(UsageError, match="position"):
            parse(text)
    assert parse("(" * 40 + "a" + ")" * 40)


def test_numbers_are_numbers_unless_quoted():
    (bare, quoted) = parse('config.x = 1e-3 config.x = "1e-3"').terms
    assert bare.number == 1e-3 and quoted.number is None
    assert math.isnan(parse("metric.loss:NaN").terms[0].number)
    assert parse("metric.loss < -inf").terms[0].number == -math.inf
    assert parse("config.x = 1.2.3").terms[0].number is None


def test_a_field_by_itself():
    assert field('metric."a.b"') == Field("metric", "a.b")
    for text in ("", "metric", "name name", "nope", "(name)"):
        with pytest.raises(UsageError):
            field(text)


@given(st.text(alphabet=st.sampled_from("ab.\"'()=<>:! \\ANDORT10*\n") | st.characters(), max_size=60))
def test_any_text_is_a_tree_or_a_position_in_it(text):
    try:
        parse(text)
    except UsageError as error:
        assert error.code == "bad_filter"
        assert 0 <= error.context["position"] <= len(text)


_names = st.text(string.printable, min_size=1, max_size=12)


def quoted(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


@given(_names, st.sampled_from(["=", "!=", "<", "<=", ">", ">=", ":"]), _names)
def test_anything_quoted_comes_back_as_it_was(metric, op, value):
    (term,) = parse(f"metric.{quoted(metric)}{op}{quoted(value)}").terms
    assert (term.field, term.op, term.value, term.number) == (Field("metric", metric), op, value, None)


_leaf = st.sampled_from(COLUMNS).map(lambda name: f"{name} = 1")
_filters = st.recursive(
    _leaf,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda two: f"({two[0]}) AND ({two[1]})"),
        st.tuples(inner, inner).map(lambda two: f"({two[0]}) OR ({two[1]})"),
        inner.map(lambda one: f"NOT ({one})"),
    ),
    max_leaves=12,
)


@given(_filters, st.integers(0, 200))
def test_white_space_means_nothing(text, seed):
    spread = text.replace(" ", " " * (1 + seed % 3)).replace("(", "( ").replace(")", " )")
    assert shape(parse(spread)) == shape(parse(text))
