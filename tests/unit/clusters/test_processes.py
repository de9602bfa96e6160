"""Processes are ended by whoever holds however many files; what cannot be started is said by name."""

import contextlib
import os
import resource
import subprocess

import pytest

from stepward.clusters.providers.local.commands import launch
from stepward.clusters.providers.local.layout import Layout
from stepward.clusters.providers.local.processes import MARK, end, of_cluster
from stepward.errors import CommandFailed

MANY = 1100
"""More descriptors than select() takes."""


def test_a_process_is_ended_by_a_server_with_many_open_files():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 2 * MANY:
        pytest.skip(f"no more than {hard} files may be open here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2 * MANY), hard))
    child = subprocess.Popen(["sleep", "60"], env={MARK: "many_abc123:munged", "PATH": os.environ["PATH"]})
    try:
        with contextlib.ExitStack() as files:
            for _ in range(MANY):
                files.enter_context(open(os.devnull))
            found = [one for one in of_cluster("many_abc123", "/nowhere") if one.pid == child.pid]
            assert [one.role for one in found] == ["munged"]
            assert end(found, grace_s=5.0) == []
    finally:
        child.kill()
        child.wait()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_daemon_whose_folder_is_gone_is_said_to_be_not_startable(tmp_path):
    with pytest.raises(CommandFailed) as caught:
        launch(Layout(str(tmp_path / "gone")), "lab_abc123", "munged", ["munged"])
    assert caught.value.code == "cluster_command_failed"
    assert "munged" in caught.value.message
