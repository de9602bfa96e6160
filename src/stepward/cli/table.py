"""Answers as a table for people, as JSON and as CSV for programs: the three ``--format`` of every reading command.

A table shows rounded and relative values and fits the terminal: columns marked ``flexible`` are cut in the middle, then
those marked ``spare`` are left out. JSON is the API's own document. CSV holds the exact values. Colours appear on a
terminal alone, and not with ``NO_COLOR``.
"""

import csv
import sys
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Generic, NamedTuple, TypeVar

import typer

from stepward.cli.text import cells, cut_middle, json_text, pad, safe

if TYPE_CHECKING:
    from rich.console import Console

Row = TypeVar("Row")
_GAP = "  "
_LEAST = 16
"""Cells below which a flexible column is not cut, until nothing else is left to cut."""


class Format(StrEnum):
    """How an answer is printed."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


FormatOption = Annotated[Format, typer.Option("--format", help="Table for people, JSON or CSV for programs.")]


class Column(NamedTuple, Generic[Row]):
    """A column: its CSV name, the exact value, and what people see of it (``title`` where it is not the name)."""

    name: str
    value: Callable[[Row], Any]
    shown: Callable[[Row], str] | None = None
    right: bool = False
    flexible: bool = False
    style: Callable[[Row], str] | None = None
    title: str | None = None
    spare: bool = False

    @property
    def head(self) -> str:
        """The heading in a table."""
        return safe(self.title) if self.title is not None else self.name.replace("_", " ").upper()

    def cell(self, row: Row) -> str:
        """The cell of a table: on one line, harmless to the terminal."""
        if self.shown is not None:
            return safe(self.shown(row))
        value = self.value(row)
        return "-" if value is None or value == "" else safe(str(value))


def show(
    output: Format, columns: Sequence[Column[Row]], rows: Sequence[Row], *, document: object = None, empty: str = ""
) -> None:
    """Print rows in the format asked for; ``document`` is the JSON, the rows where it is None."""
    if output is Format.JSON:
        write_json(rows if document is None else document)
    elif output is Format.CSV:
        write_csv(columns, rows)
    elif rows:
        write_table(columns, rows)
    elif empty:
        print(empty, file=sys.stderr)


def write_json(document: object, *, indent: int = 2) -> None:
    """Print a document as JSON in UTF-8; ``indent`` 0 puts it on one line."""
    import msgspec

    data = msgspec.json.encode(document)
    sys.stdout.flush()
    sys.stdout.buffer.write(json_text(msgspec.json.format(data, indent=indent) if indent else data) + b"\n")
    sys.stdout.buffer.flush()


def write_csv(columns: Sequence[Column[Row]], rows: Sequence[Row], *, head: bool = True) -> None:
    """Print a heading (``head``) and one line a row; text is made harmless to terminals, JSON alone keeps it byte for byte."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    if head:
        writer.writerow([column.name for column in columns])
    writer.writerows([_csv_value(column.value(row)) for column in columns] for row in rows)


def _csv_value(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        value = " ".join(str(part) for part in value)
    return safe(value) if isinstance(value, str) else value


def write_table(columns: Sequence[Column[Row]], rows: Sequence[Row], *, console: "Console | None" = None) -> None:
    """Print a table that fits the terminal; in a file or pipe nothing is cut."""
    from rich.text import Text

    out = console or terminal()
    width = out.width if out.is_terminal else None
    shown, (head, *lines) = layout(columns, rows, width)
    out.print(Text(_GAP.join(head).rstrip(), style="bold"), soft_wrap=True)
    for row, line in zip(rows, lines, strict=True):
        text = Text()
        for place, (column, cell) in enumerate(zip(shown, line, strict=True)):
            text.append(_GAP if place else "")
            text.append(cell, style=column.style(row) if column.style else "")
        text.rstrip()
        out.print(text, soft_wrap=True)


def layout(
    columns: Sequence[Column[Row]], rows: Sequence[Row], width: int | None
) -> tuple[list[Column[Row]], list[list[str]]]:
    """The columns that find room, and the padded cells of head and rows, together at most ``width`` cells wide.

    ``width`` None means as wide as they are.
    """
    shown = list(columns)
    table = [[column.head for column in columns], *([column.cell(row) for column in columns] for row in rows)]
    widths = [max(cells(line[place]) for line in table) for place in range(len(columns))]
    if width is not None:
        shown = _with_room(columns, widths, width)
        table = [[line[columns.index(column)] for column in shown] for line in table]
        widths = [widths[columns.index(column)] for column in shown]
        _shrink(widths, [column.flexible for column in shown], width - len(_GAP) * (len(shown) - 1))
    return shown, [
        [
            pad(cut_middle(cell, wide), wide, right=column.right)
            for cell, wide, column in zip(line, widths, shown, strict=True)
        ]
        for line in table
    ]


def _with_room(columns: Sequence[Column[Row]], widths: Sequence[int], width: int) -> list[Column[Row]]:
    """Leave spare columns out, the last first, until the rest fits with its flexible columns cut."""
    least = {
        column: min(wide, _LEAST) if column.flexible else wide for column, wide in zip(columns, widths, strict=True)
    }
    shown = list(columns)
    for column in reversed(columns):
        if sum(least[one] for one in shown) + len(_GAP) * (len(shown) - 1) <= width:
            break
        if column.spare:
            shown.remove(column)
    return shown


def _shrink(widths: list[int], flexible: Sequence[bool], room: int) -> None:
    """Take cells from the widest flexible column, and from any column once those are at their least."""
    for allowed, least in ((flexible, _LEAST), ([True] * len(widths), 1)):
        while sum(widths) > room:
            open_places = [place for place, may in enumerate(allowed) if may and widths[place] > least]
            if not open_places:
                break
            widths[max(open_places, key=widths.__getitem__)] -= 1


def terminal() -> "Console":
    """The terminal (or file) behind stdout. Nothing that it prints is taken for markup."""
    from rich.console import Console

    return Console(highlight=False, markup=False, emoji=False)
