"""What people see on a real terminal: it fits, it is coloured unless they say no, and nothing of others steers it."""

import re

import pytest
from rich.cells import cell_len

from stepward.model.identity import derived_run_id

pytestmark = pytest.mark.integration

ONE, BAD = derived_run_id("llm", "one"), derived_run_id("llm", "bad")
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_a_table_fits(home, columns):
    code, written = home.terminal("ls", columns=columns)
    lines = COLOUR.sub("", written).replace("\r\n", "\n").splitlines()
    assert code == 0 and len(lines) > 3
    assert [line for line in lines if cell_len(line) > columns] == []


def test_colours_are_states_and_go_with_no_color(home):
    assert COLOUR.search(home.terminal("ls")[1])
    assert "\x1b[34m" not in home.terminal("ls", NO_COLOR="1")[1]
    assert "\x1b" not in home.terminal("ls", TERM="dumb")[1]


def test_a_watched_run_is_drawn_until_it_has_ended(home):
    code, written = home.terminal("watch", ONE, columns=100)
    assert code == 0
    assert "twin" in written and "finished" in written and "█" in written and "▁" in written


@pytest.mark.parametrize("command", [("ls",), ("show", BAD), ("watch", BAD), ("show", "\x1b[2J\u202enope")])
def test_no_name_steers_the_terminal(home, command):
    _, written = home.terminal(*command, columns=200)
    assert "evil\\x1b[2J\\u202e" in written or "nope" in written
    # Only what moves and clears lines of the live picture, and colours, is ours.
    ours = re.sub(r"\x1b\[(\?25[lh]|\d*A|2K|[0-9;]*m)", "", written)
    assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e]", ours)
