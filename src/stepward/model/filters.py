"""The filter language of runs: text to a small tree, one parser for CLI, API and UI.

A subset of AIP-160 (``docs/api.md``, Filter language): ``OR`` binds tighter than ``AND``, and ``AND`` may be left out.
What a comparison *means* against the database is the catalog's matter (``stepward.store.catalog.filtering``); this
module knows only words. Every error is a ``UsageError`` with code ``bad_filter`` and the 0-based ``position``.
"""

import re
from enum import StrEnum
from typing import Literal, NoReturn

import msgspec

from stepward.errors import UsageError

Scope = Literal["column", "metric", "config", "tag"]
Operator = Literal["=", "!=", "<", "<=", ">", ">=", ":"]

COLUMNS = (
    "id",
    "name",
    "project",
    "kind",
    "state",
    "notes",
    "created_at",
    "started_at",
    "ended_at",
    "step",
)
"""Bare words that a comparison may name."""

MAX_LENGTH = 4096
"""Characters of a filter: what a URL carries anywhere."""
MAX_TERMS = 100
"""Comparisons of a filter; SQLite refuses expressions that are 1,000 deep."""
MAX_DEPTH = 50
"""Nested parentheses."""


class Field(msgspec.Struct, frozen=True, tag="field"):
    """What a comparison is about: a column, the latest value of a metric, a leaf of the configuration, a tag."""

    scope: Scope
    name: str


class Comparison(msgspec.Struct, frozen=True, tag="comparison"):
    """``field op value``. ``number`` is the value as a number where it is one and was not quoted."""

    field: Field
    op: Operator
    value: str
    number: float | None
    position: int


class Not(msgspec.Struct, frozen=True, tag="not"):
    """True where ``term`` is false."""

    term: "Node"


class And(msgspec.Struct, frozen=True, tag="and"):
    """True where all of ``terms`` are; without terms it is true."""

    terms: "tuple[Node, ...]"


class Or(msgspec.Struct, frozen=True, tag="or"):
    """True where one of ``terms`` is."""

    terms: "tuple[Node, ...]"


Node = Comparison | Not | And | Or


class _Kind(StrEnum):
    SPACE = "space"
    QUOTED = "quoted"
    OPERATOR = "operator"
    OPEN = "open"
    CLOSE = "close"
    DOT = "dot"
    WORD = "word"
    END = "end"


class _Token(msgspec.Struct, frozen=True):
    kind: _Kind
    text: str
    position: int
    end: int


# A number is one word although it holds a dot; any other dot separates the parts of a name.
_TOKENS = re.compile(
    r"""(?P<space>\s+)
      | (?P<quoted>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
      | (?P<operator>!=|<=|>=|[=<>:])
      | (?P<open>\()
      | (?P<close>\))
      | (?P<word>[+-]?(?:\d+\.\d*|(?<![\w"'])\.\d+)(?:[eE][+-]?\d+)?(?![\w.-])|[^\s"'=<>:()!.]+)
      | (?P<dot>\.)""",
    re.VERBOSE | re.DOTALL,
)
_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?|[+-]?(?:nan|inf|infinity)", re.IGNORECASE)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


def parse(text: str) -> And:
    """The tree of a filter; an empty text matches everything.

    Raises:
        UsageError: ``bad_filter`` with ``position``.
    """
    if len(text) > MAX_LENGTH:
        _fail(f"a filter of {len(text)} characters is longer than {MAX_LENGTH}", MAX_LENGTH)
    reader = _Reader(_tokens(text))
    tree = reader.expression(depth=0)
    if reader.token.kind is not _Kind.END:
        _fail("a closing parenthesis that nothing opened", reader.token.position)
    return tree


def field(text: str) -> Field:
    """A field by itself, as a sort key names it.

    Raises:
        UsageError: ``bad_filter`` with ``position``.
    """
    reader = _Reader(_tokens(text[:MAX_LENGTH]))
    position, parts = reader.token.position, reader.name()
    if reader.token.kind is not _Kind.END:
        _fail("a field is one name", reader.token.position)
    return _field(parts, position)


def number(text: str) -> float | None:
    """The number that an unquoted word is, NaN and infinities included; None for any other word."""
    return float(text) if _NUMBER.fullmatch(text) else None


def _tokens(text: str) -> list[_Token]:
    found, position = [], 0
    while position < len(text):
        match = _TOKENS.match(text, position)
        if match is None:
            quote = text[position] in "\"'"
            _fail("a quotation that never ends" if quote else f"{text[position]!r} has no meaning here", position)
        if match.lastgroup != "space":
            found.append(_Token(_Kind(str(match.lastgroup)), match.group(), position, match.end()))
        position = match.end()
    return [*found, _Token(_Kind.END, "", len(text), len(text))]


class _Reader:
    """Recursive descent over tokens: expression > factor (OR) > term (NOT) > restriction or parentheses."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._index = 0
        self._terms = 0

    @property
    def token(self) -> _Token:
        return self._tokens[self._index]

    def _take(self) -> _Token:
        taken = self.token
        if taken.kind is not _Kind.END:
            self._index += 1
        return taken

    def _word(self, *words: str) -> bool:
        return self.token.kind is _Kind.WORD and self.token.text in words

    def expression(self, depth: int) -> And:
        if depth > MAX_DEPTH:
            _fail(f"parentheses nested deeper than {MAX_DEPTH}", self.token.position)
        terms: list[Node] = []
        while self.token.kind not in (_Kind.END, _Kind.CLOSE):
            if terms and self._word("AND"):
                self._take()
            terms.append(self._factor(depth))
        return And(tuple(terms))

    def _factor(self, depth: int) -> Node:
        terms = [self._term(depth)]
        while self._word("OR"):
            self._take()
            terms.append(self._term(depth))
        return terms[0] if len(terms) == 1 else Or(tuple(terms))

    def _term(self, depth: int) -> Node:
        if self._word("NOT"):
            self._take()
            # NOT does not repeat in the grammar, so it needs no depth of its own.
            return Not(self._simple(depth))
        return self._simple(depth)

    def _simple(self, depth: int) -> Node:
        if self.token.kind is not _Kind.OPEN:
            return self._restriction()
        opened = self._take()
        inner = self.expression(depth + 1)
        if self._take().kind is not _Kind.CLOSE:
            _fail("a parenthesis that nothing closes", opened.position)
        if not inner.terms:
            _fail("empty parentheses", opened.position)
        return inner

    def _restriction(self) -> Comparison:
        self._terms += 1
        first = self.token
        if self._terms > MAX_TERMS:
            _fail(f"more than {MAX_TERMS} comparisons", first.position)
        if self._word("AND", "OR", "NOT"):
            _fail(f"a comparison is missing before or after {first.text}", first.position)
        parts = self.name()
        if self.token.kind is not _Kind.OPERATOR:
            return _bare(first, parts, self.token)
        operator, about = self._take(), _field(parts, first.position)
        return _comparison(about, operator, self._value())

    def name(self) -> list[str]:
        """Parts of a dotted name."""
        parts = [self._part()]
        while self.token.kind is _Kind.DOT:
            self._take()
            parts.append(self._part())
        return parts

    def _part(self) -> str:
        taken = self._take()
        if taken.kind is _Kind.QUOTED:
            return _unquoted(taken)
        if taken.kind is not _Kind.WORD:
            _fail("a name is missing" if taken.kind is _Kind.END else f"a name, not {taken.text!r}", taken.position)
        return taken.text

    def _value(self) -> _Token:
        """One quoted text, or what stands together without a space (``7.1.x``, ``2026-12-01T09:30:00Z``)."""
        first = self._take()
        if first.kind is _Kind.QUOTED:
            return first
        if first.kind not in (_Kind.WORD, _Kind.DOT):
            _fail("a value is missing", first.position)
        text, end = first.text, first.end
        while self.token.position == end and (self.token.kind in (_Kind.WORD, _Kind.DOT) or self.token.text == ":"):
            text, end = text + self.token.text, self.token.end
            self._take()
        return _Token(_Kind.WORD, text, first.position, end)


def _bare(first: _Token, parts: list[str], after: _Token) -> Comparison:
    """A word that stands alone searches the names, as a global restriction of AIP-160."""
    if first.kind is _Kind.WORD and (parts[0] in ("metric", "config", "tag") or first.text in COLUMNS):
        _fail(f"{first.text} is compared with nothing", after.position)
    return Comparison(Field("column", "name"), ":", ".".join(parts), None, first.position)


def _field(parts: list[str], position: int) -> Field:
    head, rest = parts[0], ".".join(parts[1:])
    if head in ("metric", "config"):
        if not rest:
            _fail(f"{head} of what? write {head}.<name>", position)
        return Field("metric" if head == "metric" else "config", rest)
    if head == "tag" and not rest:
        return Field("tag", "")
    if len(parts) == 1 and head in COLUMNS:
        return Field("column", head)
    _fail(f"{'.'.join(parts)!r} is no field: use {', '.join(COLUMNS)}, metric.<name>, config.<path> or tag", position)


def _comparison(about: Field, operator: _Token, value: _Token) -> Comparison:
    op: Operator = operator.text  # type: ignore[assignment]  # the token's pattern holds the operators
    if about.scope == "tag" and op not in (":", "=", "!="):
        _fail(f"a tag has no order: {op} does not fit", operator.position)
    quoted = value.kind is _Kind.QUOTED
    text = _unquoted(value) if quoted else value.text
    return Comparison(about, op, text, None if quoted else number(text), value.position)


def _unquoted(token: _Token) -> str:
    return _ESCAPE.sub(r"\1", token.text[1:-1])


def _fail(what: str, position: int) -> NoReturn:
    raise UsageError(
        f"filter, position {position}: {what}",
        code="bad_filter",
        hint='for example: state = "running" AND metric.loss < 2 AND tag:ablation',
        position=position,
    )
