"""Sorting and keyset paging of runs: a cursor names the last row shown, so that a page is stable while runs come and go.

Rows without the value sorted by (missing, NaN) come last in either direction; ties are broken by id.
"""

import base64
import binascii
from typing import Any

import msgspec
import sqlalchemy as sa

from stepward.errors import UsageError
from stepward.model.filters import field
from stepward.store.catalog.schema import config_leaves, latest, runs

DEFAULT_SORT = "-started_at"


class Cursor(msgspec.Struct, array_like=True):
    """The last row of a page: the sort that it belongs to, its value, its id."""

    sort: str
    value: str | int | float | None
    id: str


class Order:
    """An order of runs by one field, descending with a leading ``-``.

    Raises:
        UsageError: ``bad_sort``.
    """

    def __init__(self, sort: str | None) -> None:
        self.sort = sort or DEFAULT_SORT
        self.descending = self.sort.startswith("-")
        try:
            named = field(self.sort.lstrip("+-"))
        except UsageError as error:
            raise _bad_sort(self.sort, error.message) from None
        self._join: tuple[sa.Table, sa.ColumnElement[bool]] | None = None
        if named.scope == "column":
            self.value: sa.ColumnElement[Any] = runs.c[named.name]
        elif named.scope == "metric":
            self._join = (latest, sa.and_(latest.c.run == runs.c.id, latest.c.metric == named.name))
            self.value = latest.c.value
        elif named.scope == "config":
            same = sa.and_(config_leaves.c.run == runs.c.id, config_leaves.c.path == named.name)
            self._join = (config_leaves, same)
            self.value = config_leaves.c.number
        else:
            raise _bad_sort(self.sort, "tags have no order")

    def applied(self, query: sa.Select[Any], cursor: str | None) -> sa.Select[Any]:
        """``query`` over runs in this order, behind ``cursor``."""
        if self._join is not None:
            query = query.select_from(runs.outerjoin(*self._join))
        if cursor is not None:
            query = query.where(self._behind(self._read(cursor)))
        direction = sa.desc if self.descending else sa.asc
        order = [direction(self.value), direction(runs.c.id)]
        # Columns that are never null keep their index; the rest needs the missing ones told apart.
        missing = [] if self._never_missing() else [self.value.is_(None)]
        return query.order_by(*missing, *order)

    def cursor(self, value: Any, run: str) -> str:
        """The cursor behind a row."""
        packed = msgspec.json.encode(Cursor(self.sort, value, run))
        return base64.urlsafe_b64encode(packed).decode().rstrip("=")

    def _never_missing(self) -> bool:
        return isinstance(self.value, sa.Column) and self.value.table is runs and not self.value.nullable

    def _behind(self, last: Cursor) -> sa.ColumnElement[bool]:
        further = runs.c.id < last.id if self.descending else runs.c.id > last.id
        if last.value is None:
            return sa.and_(self.value.is_(None), further)
        beyond = self.value < last.value if self.descending else self.value > last.value
        behind = sa.or_(beyond, sa.and_(self.value == last.value, further))
        return behind if self._never_missing() else sa.or_(behind, self.value.is_(None))

    def _read(self, cursor: str) -> Cursor:
        try:
            packed = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
            last = msgspec.json.decode(packed, type=Cursor)
        except (binascii.Error, ValueError, msgspec.MsgspecError):
            raise _bad_cursor("it is not one of ours") from None
        if last.sort != self.sort:
            raise _bad_cursor(f"it belongs to the order {last.sort!r}")
        return last


def _bad_sort(sort: str, why: str) -> UsageError:
    return UsageError(f"no order by {sort!r}: {why}", code="bad_sort", hint="for example -started_at or metric.loss")


def _bad_cursor(why: str) -> UsageError:
    return UsageError(f"this cursor does not fit: {why}", code="bad_cursor", hint="begin again without a cursor")
