"""Processes that the demo starts are ended whole, even when they do not want to."""

import os
import sys
import time

import pytest

from stepward.collect.process import stat_of
from stepward.demo.company import Company
from stepward.errors import CommandFailed

pytestmark = pytest.mark.integration
STUBBORN = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork():
    open(sys.argv[1], "w").write(str(os.getpid()))
time.sleep(600)
"""


def test_a_process_that_ends_early_is_reported_with_what_it_said(tmp_path):
    company = Company(["no-such-command"], output=str(tmp_path / "out"), env=os.environ)
    deadline = time.monotonic() + 120
    while company.exit_code is None and time.monotonic() < deadline:
        time.sleep(0.05)
    with pytest.raises(CommandFailed, match="no-such-command") as raised:
        company.must_live()
    assert raised.value.code == "demo_process_ended"


def test_a_family_that_ignores_sigterm_is_gone_after_its_grace(tmp_path):
    ready = tmp_path / "ready"
    # ``before`` is given the command line of stepward and does not have to become it.
    before = [sys.executable, "-c", STUBBORN, str(ready)]
    company = Company(["version"], output=str(tmp_path / "out"), env=os.environ, before=before)
    deadline = time.monotonic() + 120
    while not (ready.exists() and ready.read_text()) and time.monotonic() < deadline:
        time.sleep(0.05)
    pid = int(ready.read_text())
    company.end(grace_s=0.3)
    assert company.exit_code == -9
    deadline = time.monotonic() + 120
    # Whoever inherited it has to reap it.
    while (left := stat_of(pid)) is not None and left.state not in "ZX" and time.monotonic() < deadline:
        time.sleep(0.05)
    assert left is None or left.state in "ZX"
