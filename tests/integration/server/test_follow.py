"""Event files that torch's own writer appends to, followed into a run by an importer that is killed and started again."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from .conftest import ServerProcess

pytestmark = pytest.mark.integration
PYTHON = os.environ.get("STEPWARD_FRAMEWORKS_PYTHON") or str(Path(__file__).parents[3] / ".venv-frameworks/bin/python")
KILLS, WRITTEN = 4, 400

WRITE = """
import sys, time
from torch.utils.tensorboard import SummaryWriter
for session in range(2):
    writer = SummaryWriter(sys.argv[1], flush_secs=1)
    for step in range(session * 100, session * 100 + 200):
        writer.add_scalar("loss", 1.0 / (step + 1), step)
        writer.add_scalar("same", 0.5, 7, walltime=1.7e9)
        writer.flush()
        time.sleep(0.03)
    writer.close()
"""


@pytest.fixture
def server(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with ServerProcess(tmp_path / "data") as started:
        yield started


def follower(server, folder, spool):
    env = os.environ | {
        "STEPWARD_SERVER": f"http://127.0.0.1:{server.port}",
        "STEPWARD_TOKEN": server.token,
        "STEPWARD_DIR": str(spool),
    }
    command = [sys.executable, "-m", "stepward", "import", "tensorboard", str(folder), "--follow"]
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def stored(server):
    """The points of the only run, as (metric, step)."""
    runs = server.get("/api/v1/runs").json["items"]
    assert len(runs) <= 1
    if not runs:
        return Counter(), None
    lines = server.get(f"/api/v1/runs/{runs[0]['id']}/export").body.splitlines()
    return Counter((point["metric"], point["step"]) for point in map(json.loads, lines)), runs[0]


def expected():
    steps = Counter(step for session in range(2) for step in range(session * 100, session * 100 + 200))
    return Counter({("loss", step): count for step, count in steps.items()} | {("same", 7): WRITTEN})


@pytest.mark.timeout(1200)  # its own waits have limits; a busy machine needs several of them
def test_each_point_is_stored_once_whenever_the_follower_is_killed(server, tmp_path):
    asked = [PYTHON, "-c", "import torch.utils.tensorboard"]
    if not os.path.exists(PYTHON) or subprocess.run(asked, capture_output=True, check=False).returncode:
        pytest.skip(f"torch and tensorboard are not installed for {PYTHON}")
    logs, spool = tmp_path / "logs", tmp_path / "spool"
    logs.mkdir()
    writer = subprocess.Popen([PYTHON, "-c", WRITE, str(logs)])
    try:
        while not list(logs.iterdir()):
            time.sleep(0.05)
        for kill in range(KILLS):
            importer, before = follower(server, logs, spool), sum(stored(server)[0].values())
            until = time.monotonic() + 120
            while sum(stored(server)[0].values()) <= before and time.monotonic() < until:
                assert importer.poll() is None, importer.stdout.read()
                time.sleep(0.05)
            time.sleep(0.35 * kill)
            importer.kill()
            importer.communicate()
        assert writer.wait(120) == 0
    finally:
        with contextlib.suppress(ProcessLookupError):
            writer.kill()
        writer.wait()
    importer = follower(server, logs, spool)
    until = time.monotonic() + 120
    while sum(stored(server)[0].values()) < 2 * WRITTEN and time.monotonic() < until:
        time.sleep(0.1)
    importer.send_signal(signal.SIGINT)
    said, _ = importer.communicate(timeout=120)
    assert importer.returncode == 0, said
    # A follower that was killed is taken for alive until its lease is over.
    until = time.monotonic() + 120
    while stored(server)[1]["state"] == "running" and time.monotonic() < until:
        time.sleep(0.2)
    points, run = stored(server)
    assert points == expected()
    assert run["state"] == "finished" and run["name"] == "logs"
    assert f"{run['id']}: " in said
