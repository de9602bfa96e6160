"""The last lines."""

from hypothesis import given
from hypothesis import strategies as st

from stepward.launch.tail import LINE_BYTES, LINES, Tail


def test_streams_do_not_mix_within_a_line():
    tail = Tail()
    for stream, data in (("stdout", b"one"), ("stderr", b"Trace"), ("stdout", b" two\n"), ("stderr", b"back\nlast")):
        tail.feed(stream, data)
    assert tail.lines() == ["one two", "Traceback", "last"]


def test_a_progress_bar_is_shown_as_it_stood_last():
    tail = Tail()
    tail.feed("stderr", b"\r10%\r50%\r100%\r\ndone\r\n")
    assert tail.lines() == ["100%", "done"]


def test_bytes_that_are_no_text_and_long_lines_are_bounded():
    tail = Tail()
    tail.feed("stdout", b"\xff\xfe\n" + b"x" * 10_000_000)
    tail.feed("stdout", b"y" * 10_000_000 + b"\n")
    first, second = tail.lines()
    assert first == "��"
    assert second == "y" * LINE_BYTES


@given(st.lists(st.text(alphabet="ab\n", max_size=200), max_size=10))
def test_the_last_lines_do_not_depend_on_how_they_came(pieces):
    tail = Tail()
    for piece in pieces:
        tail.feed("stdout", piece.encode())
    *complete, rest = "".join(pieces).split("\n")
    assert tail.lines() == (complete[-LINES:] + [rest] * bool(rest))[-LINES:]
