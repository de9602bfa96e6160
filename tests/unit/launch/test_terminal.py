"""What a terminal gets of several ranks."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepward.launch.terminal import Terminal, prefixed


@pytest.fixture
def shown(monkeypatch):
    written = bytearray()
    monkeypatch.setattr(os, "write", lambda _fd, data: written.extend(data) or len(data))
    return written


def test_one_rank_passes_unchanged(shown):
    terminal = Terminal(prefixed=False)
    for piece in (b"half", b"\x00\xff line\r", b"\n"):
        terminal.write("stdout", 0, piece)
    terminal.drain()
    assert shown == b"half\x00\xff line\r\n"


def test_ranks_do_not_mix_within_a_line(shown):
    terminal = Terminal(prefixed=True)
    terminal.write("stdout", 0, b"from ze")
    terminal.write("stdout", 1, b"from one\nrest")
    terminal.write("stdout", 0, b"ro\n")
    terminal.drain()
    assert shown == b"[rank 1] from one\n[rank 0] from zero\n[rank 1] rest\n"


def test_progress_bars_are_shown_as_they_move(shown):
    terminal = Terminal(prefixed=True)
    terminal.write("stderr", 0, b"10%\r20%\r")
    assert shown == b"[rank 0] 10%\r[rank 0] 20%\r"


def test_a_line_without_end_is_not_held_for_ever(shown):
    terminal = Terminal(prefixed=True)
    terminal.write("stdout", 2, b"x" * 100_000)
    assert shown == b"[rank 2] " + b"x" * 100_000


def test_a_reader_that_has_gone_is_not_written_to_again(monkeypatch):
    calls = []

    def gone(descriptor, _data):
        calls.append(descriptor)
        raise BrokenPipeError

    monkeypatch.setattr(os, "write", gone)
    terminal = Terminal(prefixed=False)
    for stream in ("stdout", "stdout", "stderr"):
        terminal.write(stream, 0, b"x")
    assert calls == [1, 2]


@given(st.binary(max_size=300), st.integers(0, 4096))
def test_prefixes_can_be_taken_off_again(data, rank):
    mark = f"[rank {rank}] ".encode()
    lines = prefixed(data, rank).splitlines(keepends=True)
    assert all(line.startswith(mark) for line in lines)
    assert b"".join(line[len(mark) :] for line in lines) == data
