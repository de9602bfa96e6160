"""The filter language as SQL over ``runs`` (``stepward.model.filters`` is its parser).

Every comparison is two-valued: a missing value or NaN makes it false, never unknown, so that ``NOT`` means what it says.
"""

import operator
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, NoReturn

import sqlalchemy as sa

from stepward.errors import UsageError
from stepward.model.filters import And, Comparison, Node, Not, Or
from stepward.model.states import State
from stepward.model.words import RunKind
from stepward.store.catalog.schema import config_leaves, latest, runs, tags

_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_TIMES = frozenset({"created_at", "started_at", "ended_at"})
_WORDS: dict[str, frozenset[str]] = {"state": frozenset(State), "kind": frozenset(RunKind)}
ANY = "*"
"""``metric.loss:*``: there is a value, whatever it is."""


def condition(node: Node) -> sa.ColumnElement[bool]:
    """The SQL of a filter.

    Raises:
        UsageError: ``bad_filter`` where a value does not fit its column.
    """
    if isinstance(node, Comparison):
        return _comparison(node)
    if isinstance(node, Not):
        return sa.not_(condition(node.term))
    if isinstance(node, Or):
        return sa.or_(*(condition(term) for term in node.terms))
    assert isinstance(node, And)
    return sa.and_(sa.true(), *(condition(term) for term in node.terms))


def _comparison(term: Comparison) -> sa.ColumnElement[bool]:
    scope = term.field.scope
    if scope == "tag":
        found = _exists(tags, tags.c.tag == term.value)
        return sa.not_(found) if term.op == "!=" else found
    if scope == "metric":
        return _exists(latest, latest.c.metric == term.field.name, _metric(term))
    if scope == "config":
        return _exists(config_leaves, config_leaves.c.path == term.field.name, _config(term))
    column = runs.c[term.field.name]
    if term.op == ":" and term.value == ANY:
        return column.is_not(None)
    return sa.func.coalesce(_column(term, column), sa.false())


def _exists(table: sa.Table, *where: sa.ColumnElement[bool]) -> sa.ColumnElement[bool]:
    # Correlated by hand: the page may join the same table to sort by.
    return sa.exists().where(table.c.run == runs.c.id, *where).correlate(runs)


def _metric(term: Comparison) -> sa.ColumnElement[bool]:
    value = latest.c.value
    if term.op == ":" and term.value == ANY:
        return sa.true()
    if term.number is None:
        _fail(term, f"{term.value!r} is no number")
    if term.op == ":":
        return value.is_(None) if term.number != term.number else value == term.number
    if term.number != term.number:
        return sa.false()
    return sa.and_(value.is_not(None), _COMPARE[term.op](value, term.number))


def _config(term: Comparison) -> sa.ColumnElement[bool]:
    if term.op == ":":
        return sa.true() if term.value == ANY else _contains(config_leaves.c.text, term.value)
    if term.number is None:
        return sa.and_(sa.true(), _COMPARE[term.op](config_leaves.c.text, term.value))
    value = config_leaves.c.number
    if term.number != term.number:
        return sa.false()
    if term.op == "!=":
        return sa.or_(value.is_(None), value != term.number)
    return sa.and_(value.is_not(None), _COMPARE[term.op](value, term.number))


def _column(term: Comparison, column: sa.Column[Any]) -> sa.ColumnElement[bool]:
    name = term.field.name
    if name in _TIMES:
        return sa.and_(_COMPARE["=" if term.op == ":" else term.op](column, _instant(term)))
    if name == "step":
        if term.number is None or term.number != term.number:
            _fail(term, f"{term.value!r} is no step")
        return sa.and_(_COMPARE["=" if term.op == ":" else term.op](column, term.number))
    if name in _WORDS and term.op in ("=", "!=") and term.value not in _WORDS[name]:
        _fail(term, f"{term.value!r} is no {name}: {', '.join(sorted(_WORDS[name]))}")
    if term.op == ":":
        return _contains(column, term.value)
    return sa.and_(_COMPARE[term.op](column, term.value))


def _contains(column: sa.ColumnElement[Any], value: str) -> sa.ColumnElement[bool]:
    return column.icontains(value, autoescape=True)


def _instant(term: Comparison) -> int:
    """µs of an RFC 3339 instant or a date; without a zone it is UTC."""
    try:
        moment = datetime.fromisoformat(term.value)
    except ValueError:
        _fail(term, f"{term.value!r} is no instant: 2026-12-01 or 2026-12-01T09:30:00Z")
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return int((moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1e6)


def _fail(term: Comparison, what: str) -> NoReturn:
    raise UsageError(
        f"filter, position {term.position}: {what}",
        code="bad_filter",
        hint='for example: state = "running" AND metric.loss < 2 AND tag:ablation',
        position=term.position,
    )
