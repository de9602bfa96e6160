import csv
import io
import json

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from stepward.cli.table import Column, Format, layout, show, write_table
from stepward.cli.text import cells

COLUMNS = [
    Column("id", lambda row: row[0]),
    Column("name", lambda row: row[1], flexible=True),
    Column("step", lambda row: row[2], right=True),
]
ROWS = [("run_1", "a" * 100, 5), ("run_2", "模型🚀", None)]


@given(
    st.lists(st.tuples(st.text(max_size=20), st.text(max_size=200), st.integers() | st.none())), st.integers(12, 120)
)
def test_a_table_is_straight_and_fits(rows, width):
    lines = ["  ".join(cells_) for cells_ in layout(COLUMNS, rows, width)[1]]
    assert len({cells(line) for line in lines}) == 1
    assert cells(lines[0]) <= width


def test_nothing_is_cut_where_there_is_no_terminal():
    assert "a" * 100 in layout(COLUMNS, ROWS, None)[1][1][1]


def test_only_flexible_columns_are_cut_while_that_is_enough():
    _, (head, first, _) = layout(COLUMNS, ROWS, 40)
    assert first[0] == "run_1" and "…" in first[1] and first[2].strip() == "5"
    assert [cell.strip() for cell in head] == ["ID", "NAME", "STEP"]


def test_spare_columns_go_before_others_are_made_useless():
    columns = [*COLUMNS, Column("tags", lambda row: "t" * 30, spare=True), Column("end", lambda row: "now", spare=True)]
    assert [column.name for column in layout(columns, ROWS, 100)[0]] == ["id", "name", "step", "tags", "end"]
    assert [column.name for column in layout(columns, ROWS, 65)[0]] == ["id", "name", "step", "tags"]
    assert [column.name for column in layout(columns, ROWS, 40)[0]] == ["id", "name", "step"]


def test_a_name_cannot_steer_the_terminal_nor_be_markup():
    out = io.StringIO()
    write_table(COLUMNS, [("run_1", "\x1b[2J[red]x[/]:smile:\nline", 1)], console=Console(file=out, width=200))
    assert "\\x1b[2J[red]x[/]:smile:\\nline" in out.getvalue()
    assert "\x1b" not in out.getvalue()


def test_no_colours_in_a_pipe(capsys, monkeypatch):
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    show(Format.TABLE, [Column("state", lambda row: row, style=lambda _: "red")], ["running"])
    assert capsys.readouterr().out == "STATE\nrunning\n"


def test_csv_holds_exact_values_and_survives_any_name(capsys):
    show(Format.CSV, COLUMNS, [("run_1", 'a,"b"\x1b\n', 7), ("run_2", "", None)])
    read = list(csv.reader(io.StringIO(capsys.readouterr().out)))
    assert read == [["id", "name", "step"], ["run_1", 'a,"b"\\x1b\\n', "7"], ["run_2", "", ""]]


def test_json_is_the_document_itself(capsys):
    show(Format.JSON, COLUMNS, [], document={"name": "\x9b\u202e\x1b\n"})
    text = capsys.readouterr().out
    assert json.loads(text) == {"name": "\x9b\u202e\x1b\n"}
    assert "\x9b" not in text and "\u202e" not in text and "\x1b" not in text


def test_an_empty_answer_says_so_to_people_only(capsys):
    show(Format.TABLE, COLUMNS, [], empty="no runs yet")
    assert capsys.readouterr() == ("", "no runs yet\n")
    show(Format.JSON, COLUMNS, [], empty="no runs yet")
    assert capsys.readouterr() == ("[]\n", "")
