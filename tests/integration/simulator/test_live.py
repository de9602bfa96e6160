"""Simulated runs against the real thing: a server in a process of its own, interpreters of their own."""

import json
import os
import signal
import socket
import subprocess
import sys

import pytest

pytestmark = pytest.mark.integration

_DIGEST = """
import hashlib
from stepward.testing.simulator import simulate
found = hashlib.sha256()
for item in simulate(4, kind="host_oom", ranks=8, steps=320).items():
    found.update(repr(item).encode())
print(found.hexdigest())
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("simulated")
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    env = {name: value for name, value in os.environ.items() if not name.startswith("STEPWARD_")}
    env |= {
        "XDG_STATE_HOME": f"{folder}/state", "XDG_CONFIG_HOME": f"{folder}/config", "STEPWARD_DIR": f"{folder}/spool",
        "STEPWARD_SERVER": f"http://127.0.0.1:{port}",
    }  # fmt: skip
    command = [sys.executable, "-m", "stepward", "up", "--data", f"{folder}/data", "--port", str(port)]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        # It says where it serves once its token can be found.
        said = process.stdout.readline()
        assert "serves" in said, said
        yield env
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=120)


def ask(env, *arguments, module="stepward"):
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments], env=env, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def drive(env, *arguments):
    return ask(
        env, *arguments, "--server", env["STEPWARD_SERVER"], "--speed", "60", module="stepward.testing.simulator"
    )


def test_the_server_sees_what_befell_the_run(server):
    driven = drive(server, "--seed", "4", "--fault", "gpu_oom", "--ranks", "4", "--steps", "200", "--step-s", "0.5")
    (fault,) = driven["faults"]
    run = ask(server, "show", driven["run"], "--format", "json")
    (attempt,) = run["attempts"]
    assert (attempt["state"], attempt["ranks"]) == ("failed", 4)
    assert set(fault["nodes"]) <= set(attempt["nodes"])
    assert attempt["last_step"] >= fault["step"] - 1
    (cause,) = ask(server, "diagnose", "--run", driven["run"], "--format", "json")["causes"]
    assert (cause["label"], cause["suspects"]["ranks"]) == (fault["label"], fault["ranks"])


def test_the_same_seed_is_the_same_run_in_every_interpreter():
    digests = set()
    for salt in ("1", "2"):
        env = {**os.environ, "PYTHONHASHSEED": salt}
        done = subprocess.run([sys.executable, "-c", _DIGEST], env=env, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        digests.add(done.stdout)
    assert len(digests) == 1
