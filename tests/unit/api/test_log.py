"""The server's log: nobody who logs waits for its reader."""

import logging
import os
import select
import sys

import pytest

from stepward.server.log import Log, OneLine

FULL = 1 << 16
"""Bytes that a pipe holds."""


@pytest.fixture
def pipe():
    reader, writer = os.pipe()
    yield reader, writer
    os.close(reader)
    os.close(writer)


def record(message):
    return logging.LogRecord("stepward.test", logging.WARNING, __file__, 1, message, None, None)


def test_lines_are_written_in_order_by_the_end(pipe):
    log = Log(pipe[1])
    for number in range(100):
        log.emit(record(f"line {number} \ud800"))
    log.close()
    assert os.read(pipe[0], 1 << 16).decode().splitlines() == [f"line {number} ?" for number in range(100)]


def test_a_pipe_that_nobody_reads_holds_nobody_up_and_what_is_lost_is_counted(pipe):
    log = Log(pipe[1], waiting=2)
    log.emit(record("x" * FULL))
    assert select.select([pipe[0]], [], [], 60)[0]  # the writer hangs in it now, with a byte to go
    for _ in range(19):
        log.emit(record("y"))
    log.close()
    said = b""
    while said.count(b"\n") < 3:
        said += os.read(pipe[0], FULL)
    log.emit(record("heard again"))
    while b"again" not in said:
        said += os.read(pipe[0], FULL)
    assert said.decode().splitlines() == [
        "x" * FULL, "y", "y", "(17 lines before this one were lost: nobody read them)", "heard again"
    ]  # fmt: skip


def test_what_others_wrote_stays_within_its_line():
    try:
        raise ValueError("told\x1b[2J by \u202e others")
    except ValueError:
        failed = logging.LogRecord(
            "a", logging.ERROR, __file__, 1, "run %s", ("x\n1970 INFO forged\x07",), sys.exc_info()
        )
    said = OneLine("%(levelname)s %(message)s").format(failed)
    first, *traceback = said.split("\n")
    assert first == r"ERROR run x\n1970 INFO forged\x07"
    assert traceback[0] == "Traceback (most recent call last):"
    assert traceback[-1] == r"ValueError: told\x1b[2J by \u202e others"
