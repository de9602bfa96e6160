"""The systemd unit as a file: what it starts exists, and it names what the agent needs. systemd itself is not exercised."""

import configparser
import os
import shlex
import shutil
import subprocess

import pytest

from stepward.cli.app import COMMANDS

UNIT = os.path.join(os.path.dirname(__file__), "../../../deploy/stepward-agent.service")


class Unit(configparser.RawConfigParser):
    optionxform = staticmethod(str)


@pytest.fixture
def unit():
    parsed = Unit(strict=False, comment_prefixes=("#",))
    assert parsed.read(UNIT)
    return parsed


def test_it_starts_the_agent_and_starts_it_again_after_a_fault(unit):
    program, *arguments = shlex.split(unit["Service"]["ExecStart"])
    assert os.path.isabs(program) and os.access(program, os.X_OK)
    assert arguments == ["stepward", "agent"]
    assert "agent" in COMMANDS
    assert unit["Service"]["Restart"] == "on-failure"
    assert unit["Install"]["WantedBy"] == "multi-user.target"


def test_its_spool_is_a_folder_that_it_may_write(unit):
    service = unit["Service"]
    assert service["Environment"] == f"STEPWARD_DIR=/var/lib/{service['StateDirectory']}"
    assert service["ProtectSystem"] == "strict"
    assert service["StateDirectoryMode"] == "0700"


def test_no_secret_is_in_it(unit):
    assert "TOKEN" not in unit["Service"]["Environment"]
    assert unit["Service"]["EnvironmentFile"].lstrip("-").startswith("/etc/stepward/")


def test_systemd_understands_it():
    verify = shutil.which("systemd-analyze")
    if verify is None:
        pytest.skip("systemd-analyze is not installed")
    told = subprocess.run([verify, "verify", UNIT], capture_output=True, text=True, env={"PATH": os.environ["PATH"]})
    wrong = [line for line in told.stderr.splitlines() if "stepward-agent.service" in line]
    if told.returncode and not wrong:
        pytest.skip(f"systemd-analyze does not work here: {told.stderr.strip()[:200]}")
    assert wrong == []
