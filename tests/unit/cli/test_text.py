import json
import re
import unicodedata

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from stepward.cli.text import cells, cut_middle, json_text, pad, plain, safe

anything = st.text(st.characters(codec=None, exclude_categories=[]), max_size=60)
STEERS = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


@given(anything)
def test_nothing_that_steers_a_terminal_survives(text):
    assert not STEERS.search(safe(text))
    assert not STEERS.search(plain(text))


@given(st.text(st.characters(categories=["L", "N", "P", "S", "Zs"]), max_size=40))
def test_harmless_text_stays(text):
    assert safe(text) == text


def test_escapes_can_be_read():
    assert safe("a\x1b]0;title\x07\nb\u202ec") == "a\\x1b]0;title\\x07\\nb\\u202ec"


def test_a_line_of_output_is_as_the_terminal_left_it():
    assert plain("\x1b[31mred\x1b[0m and \x1b]8;;http://x\x07link\x1b]8;;\x07\r\n") == "red and link"
    assert plain(" 10%|#   |\r 50%|##  |\r100%|####|\n") == "100%|####|"
    assert plain("a\tb") == "a       b"
    assert plain("clear\x1b[2J\x9b31m") == "clear\\x9b31m"


@given(st.dictionaries(anything.filter(lambda t: t.isprintable()), st.text(st.characters(exclude_categories=["Cs"]))))
def test_json_keeps_its_meaning_and_loses_its_teeth(document):
    text = json_text(json.dumps(document, ensure_ascii=False, indent=1).encode())
    assert json.loads(text) == document
    assert not STEERS.search(text.decode().replace("\n", ""))


@given(anything.map(safe), st.integers(1, 40))
def test_a_cut_text_fits_and_keeps_both_ends(text, width):
    cut = cut_middle(text, width)
    assert cells(cut) <= width
    if cell_len(text) <= width:
        assert cut == text
    else:
        head, tail = cut.split("…", 1) if text.count("…") == 0 else ("", "")
        assert text.startswith(head) and text.endswith(tail)


def test_both_ends_of_a_long_name_are_seen():
    assert cut_middle("pretrain-llama-7b-seed-12", 13) == "pretra…eed-12"


def test_emoji_and_wide_characters_are_counted_as_drawn():
    family = "👨‍👩‍👧"
    assert cells("模型") == 4
    assert cells(family) == 2
    assert pad("模型", 6) == "模型  "
    assert pad("é", 3, right=True) == "  é"
    # A grapheme is taken whole or not at all.
    assert family in cut_middle(f"{family}{'x' * 20}", 9)
    assert cells(cut_middle("模" * 20, 8)) <= 8
    assert unicodedata.name(cut_middle("模" * 20, 8)[0]).startswith("CJK")
