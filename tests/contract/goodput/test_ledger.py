"""The ledger answers every timeline of the suite, in the process and from the command line."""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest

from stepward.goodput.report import replay
from stepward.testing.goodput.cases import cases, differences
from stepward.testing.goodput.suite import GoodputSuite


class TestReplay(GoodputSuite):
    def ledger(self, lines: Sequence[bytes]) -> Mapping[str, Any]:
        return msgspec.to_builtins(replay(lines))


@pytest.mark.parametrize("name", ["B", "elastic", "rejected", "never_started", "in_flight"])
def test_the_command_line_prints_the_same(name: str) -> None:
    (case,) = [case for case in cases() if case.name == name]
    command = [sys.executable, "-m", "stepward", "goodput", "replay", "-", "--format", "json"]
    done = subprocess.run(command, input=b"\n".join(case.lines), capture_output=True, check=True, timeout=120)
    assert differences(case.truth, msgspec.json.decode(done.stdout)) == []


def test_at_least_fifteen_timelines_are_our_own() -> None:
    assert len(cases()) >= 51 + 15
    assert len({case.name for case in cases()}) == len(cases())
