"""Sorting and keyset paging of runs: a cursor names the last row shown, so that a page is stable while runs come and go.

Rows without the value sorted by (missing, NaN) come last in either direction; ties are broken by id.
"""

import base64
import binascii
from collections.abc import Mapping
from typing import Any

import msgspec
import sqlalchemy as sa

from stepward.errors import UsageError
from stepward.model.filters import field
from stepward.model.words import Int64
from stepward.store.catalog.schema import config_leaves, latest, runs

DEFAULT_SORT = "-started_at"


class Cursor(msgspec.Struct, array_like=True):
    """The last row of a page: the sort that it belongs to, its value, its id."""

    sort: str
    value: str | Int64 | float | None
    id: str


class Order:
    """An order of runs by one field, descending with a leading ``-``.

    Raises:
        UsageError: ``bad_sort``.
    """

    def __init__(self, sort: str | None) -> None:
        self.sort = sort or DEFAULT_SORT
        self._descending = self.sort.startswith("-")
        try:
            named = field(self.sort.lstrip("+-"))
        except UsageError as error:
            raise _bad_sort(self.sort, error.message) from None
        self._table: sa.Table = runs
        self._same: sa.ColumnElement[bool] = sa.true()
        if named.scope == "column":
            self._value: sa.ColumnElement[Any] = runs.c[named.name]
        elif named.scope == "metric":
            self._table, self._same = latest, sa.and_(latest.c.run == runs.c.id, latest.c.metric == named.name)
            self._value = latest.c.value
        elif named.scope == "config":
            leaf = sa.and_(config_leaves.c.run == runs.c.id, config_leaves.c.path == named.name)
            self._table, self._same = config_leaves, leaf
            self._value = config_leaves.c.number
        else:
            raise _bad_sort(self.sort, "tags have no order")

    def queries(self, where: sa.ColumnElement[bool], cursor: str | None) -> list[sa.Select[Any]]:
        """The runs of ``where`` behind ``cursor``, as queries to be read one after the other until a page is full.

        Two, because an index gives the present values in order, while «missing last» in one query sorts all runs.
        """
        last = None if cursor is None else unpacked(cursor, self.sort)
        present, missing = self._present(where, last), self._missing(where, last)
        if last is not None and last.value is None:
            return [missing]
        never_missing = isinstance(self._value, sa.Column) and self._table is runs and not self._value.nullable
        return [present] if never_missing else [present, missing]

    def cursor(self, row: Mapping[str, Any]) -> str:
        """The cursor behind a row of ``queries``."""
        return packed(Cursor(self.sort, row["_value"], row["id"]))

    def _present(self, where: sa.ColumnElement[bool], last: Cursor | None) -> sa.Select[Any]:
        # The id of the table that holds the value, so that one index serves both the value and the ties.
        id_ = runs.c.id if self._table is runs else self._table.c.run
        query = sa.select(runs, self._value.label("_value")).where(where, self._value.is_not(None))
        if self._table is not runs:
            query = query.select_from(runs.join(self._table, self._same))
        if last is not None and last.value is not None:
            further = id_ < last.id if self._descending else id_ > last.id
            # As a bound and an exception at the bound: an index seeks to the bound, it cannot seek into an OR.
            bound = self._value <= last.value if self._descending else self._value >= last.value
            query = query.where(bound, sa.or_(self._value != last.value, further))
        direction = sa.desc if self._descending else sa.asc
        return query.order_by(direction(self._value), direction(id_))

    def _missing(self, where: sa.ColumnElement[bool], last: Cursor | None) -> sa.Select[Any]:
        absent: sa.ColumnElement[bool]
        if self._table is runs:
            absent = self._value.is_(None)
        else:
            absent = sa.not_(sa.exists().where(self._same, self._value.is_not(None)).correlate(runs))
        query = sa.select(runs, sa.null().label("_value")).where(where, absent)
        if last is not None and last.value is None:
            query = query.where(runs.c.id < last.id if self._descending else runs.c.id > last.id)
        return query.order_by(sa.desc(runs.c.id) if self._descending else sa.asc(runs.c.id))


def packed(cursor: Cursor) -> str:
    """A cursor as clients carry it."""
    return base64.urlsafe_b64encode(msgspec.msgpack.encode(cursor)).decode().rstrip("=")


def unpacked(text: str, sort: str) -> Cursor:
    """The cursor that a client brings back.

    Raises:
        UsageError: ``bad_cursor``: it is none, or of another order than ``sort``.
    """
    try:
        content = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        last = msgspec.msgpack.decode(content, type=Cursor)
    except (binascii.Error, ValueError, msgspec.MsgspecError):
        raise _bad_cursor("it is not one of ours") from None
    if last.sort != sort:
        raise _bad_cursor(f"it belongs to the order {last.sort!r}")
    return last


def _bad_sort(sort: str, why: str) -> UsageError:
    return UsageError(f"no order by {sort!r}: {why}", code="bad_sort", hint="for example -started_at or metric.loss")


def _bad_cursor(why: str) -> UsageError:
    return UsageError(f"this cursor does not fit: {why}", code="bad_cursor", hint="begin again without a cursor")
