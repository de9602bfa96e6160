"""Captured output: what Python prints goes where it went, and is kept."""

import sys

import pytest

from stepward.sdk.output import Output


@pytest.mark.parametrize("missing", [(), ("stdout",), ("stdout", "stderr")])
def test_a_stream_that_is_not_there_stays_so(monkeypatch, missing):
    for name in missing:
        monkeypatch.setattr(sys, name, None)
    kept = []
    output = Output(lambda kind, logs: kept.extend(logs.chunks) or True)
    try:
        print("hello")
        print("trouble", file=sys.stderr)
    finally:
        output.restore()
    expected = {"stdout": b"hello\n", "stderr": b"trouble\n"}
    assert {chunk.stream: chunk.data for chunk in kept} == {k: v for k, v in expected.items() if k not in missing}
    assert [getattr(sys, name) for name in missing] == [None] * len(missing)


def test_a_print_never_fails_because_it_cannot_be_kept(capsys, monkeypatch):
    def full(kind, logs):
        raise OSError(28, "No space left on device")

    for name in ("stdout", "stderr"):
        monkeypatch.setattr(sys, name, getattr(sys, name))  # put back at the end
    Output(full)
    print("x" * 100_000)
    assert "xxx" in capsys.readouterr().out
