"""Clusters through a real server and the command line: made, changed with a job running, ended; the server killed in between."""

import contextlib
import glob
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from stepward.client.api import Client
from stepward.clusters.providers.local.needs import is_usable
from stepward.errors import Conflict

pytestmark = pytest.mark.integration

SPEC = {
    "display_name": "lab",
    "node_pools": [{"id": "n", "min_nodes": 4, "max_nodes": 5, "shape": {"cpus": 4, "memory_mb": 4000}}],
    "partitions": [{"id": "main", "node_pools": ["n"]}],
    "slurm": {"kill_wait_s": 2},
}


class Home:
    """A data folder, a server on it, and the command line of the same user."""

    def __init__(self, root):
        self.root, self.data = str(root), f"{root}/data"
        kept = {name: value for name, value in os.environ.items() if not name.startswith("STEPWARD_")}
        self.env = kept | {"XDG_STATE_HOME": f"{root}/state", "XDG_CONFIG_HOME": f"{root}/config"}
        self.server = None

    def start(self):
        command = [sys.executable, "-m", "stepward", "up", "--data", self.data, "--port", "0"]
        with open(f"{self.root}/up.log", "ab") as log:
            self.server = subprocess.Popen(command, env=self.env, stdout=log, stderr=log)
        self.wait(lambda: glob.glob(f"{self.root}/state/stepward/servers/*.json"))

    def kill(self):
        self.server.kill()
        self.server.wait()
        for path in glob.glob(f"{self.root}/state/stepward/servers/*.json"):
            os.unlink(path)

    def stop(self):
        self.server.terminate()
        assert self.server.wait(120) == 0

    def cli(self, *argv, code=0, token=None):
        command = [sys.executable, "-m", "stepward", *argv]
        env = self.env | ({"STEPWARD_TOKEN": token} if token else {})
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=180)
        assert done.returncode == code, (argv, done.stdout, done.stderr)
        return done.stdout if code == 0 else done.stderr

    def client(self):
        (path,) = glob.glob(f"{self.root}/state/stepward/servers/*.json")
        return Client(json.loads(Path(path).read_text())["url"], Path(self.data, "token").read_text().strip())

    def ask(self, *argv, token=None):
        return json.loads(self.cli(*argv, "--format", "json", token=token))

    def write(self, **changes):
        path = f"{self.root}/spec.json"
        with open(path, "w") as file:
            json.dump({**SPEC, **changes}, file)
        return path

    def cluster(self):
        """What is remembered of the cluster, from its own file."""
        with open(f"{self.data}/clusters/lab/cluster.json") as file:
            return json.load(file)

    def operation(self):
        """The newest operation, from its own file."""
        paths = sorted(glob.glob(f"{self.data}/operations/*.json"))
        with contextlib.suppress(json.JSONDecodeError), open(paths[-1]) as file:
            return json.load(file)
        return None

    def slurm(self, *argv):
        env = {"PATH": "/usr/bin:/bin", "SLURM_CONF": f"{self.data}/clusters/lab/etc/slurm.conf"}
        done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=180)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def wait(self, true, seconds=60):
        until = time.monotonic() + seconds
        while not true():
            assert time.monotonic() < until, Path(self.root, "up.log").read_text()
            time.sleep(0.05)


@pytest.fixture
def home():
    why = is_usable()
    if why is not None:
        pytest.skip(f"no real Slurm: {why}")
    # Not below the folder of the test: sockets in a cluster's folder bound the length of its path.
    with tempfile.TemporaryDirectory(prefix="sw-") as root:
        home = Home(root)
        home.start()
        yield home
        if home.server.poll() is not None:
            home.start()
        if os.path.exists(f"{home.data}/clusters/lab"):
            home.wait(lambda: home.operation()["state"] != "running")
            home.cli("cluster", "delete", "lab")
        home.stop()


def traces(slurm_name, folder):
    """Processes, control groups and files that name a cluster."""
    found = [path for path in glob.glob("/sys/fs/cgroup/*/*") if slurm_name in path or path.endswith("/slurm_n-0")]
    for entry in os.listdir("/proc"):
        with contextlib.suppress(OSError):
            content = Path("/proc", entry, "environ").read_bytes() + Path("/proc", entry, "cmdline").read_bytes()
            if entry.isdigit() and int(entry) != os.getpid() and slurm_name.encode() in content:
                found.append(f"{entry} {content[-200:]!r}")
    return found + [path for path in (folder, f"{folder}.partial") if os.path.exists(path)]


def test_a_cluster_is_made_changed_under_a_running_job_and_ended_without_a_trace(home, capsys):
    file = home.write()
    assert "would create lab" in home.cli("cluster", "create", "-f", file, "--dry-run")
    assert not os.path.exists(f"{home.data}/clusters/lab"), "a plan touches nothing"
    begun = time.monotonic()
    said = home.cli("cluster", "create", "-f", file)
    with capsys.disabled():
        print(f"\ncluster create, 4 nodes: {time.monotonic() - begun:.1f} s")
    assert "lab is ready" in said and "slurmctld" in said
    found = home.ask("cluster", "get", "lab")
    assert found["state"] == "ready", found["problems"]
    assert [node["state"] for node in found["nodes"]] == ["idle"] * 4 + ["powered_down"]
    assert {service["role"]: service["running"] for service in found["services"]}["slurmrestd"]

    assert home.slurm("srun", "-N2", "-n2", "hostname")
    job = home.slurm("sbatch", "--parsable", "-N2", "-o", "/dev/null", "--wrap", "srun sleep 600")
    home.wait(lambda: home.slurm("squeue", "-h", "-j", job, "-o", "%T") == "RUNNING")
    pool = {**SPEC["node_pools"][0], "min_nodes": 5, "max_nodes": 6}
    short = {"id": "short", "node_pools": ["n"], "max_time": "01:00:00", "up": False}
    file = home.write(
        node_pools=[pool], partitions=[*SPEC["partitions"], short], slurm={"kill_wait_s": 2, "slurmd_timeout_s": 20}
    )
    plan = home.cli("cluster", "update", "-f", file, "--dry-run")
    for line in ("min_nodes 4 → 5", "add partition short over n", "slurmd_timeout_s 30 → 20", "switch on n-4"):
        assert line in plan
    home.cli("cluster", "update", "-f", file)
    found = home.ask("cluster", "get", "lab")
    assert found["state"] == "ready", found["problems"]
    assert {part["id"]: part["state"] for part in found["partitions"]} == {"main": "up", "short": "down"}
    assert [node["state"] for node in found["nodes"]][2:] == ["idle", "idle", "idle", "powered_down"]
    shown = home.slurm("scontrol", "-o", "show", "job", job)
    assert "JobState=RUNNING" in shown and "Restarts=0" in shown
    assert "SlurmdTimeout           = 20" in home.slurm("scontrol", "show", "config")

    viewer = home.cli("token", "create", "somebody", "--kind", "viewer").strip()
    assert home.ask("cluster", "list", token=viewer)[0]["name"] == "lab"
    assert "not_allowed" in home.cli("cluster", "delete", "lab", code=1, token=viewer)
    ingest = home.cli("token", "create", "an-agent", "--kind", "ingest").strip()
    assert "not_allowed" in home.cli("cluster", "get", "lab", code=1, token=ingest)

    small = home.write(node_pools=[{**pool, "min_nodes": 1, "max_nodes": 1}])
    assert "nodes_busy" in home.cli("cluster", "update", "-f", small, code=1)
    slurm_name, folder = found["slurm_name"], f"{home.data}/clusters/lab"
    assert traces(slurm_name, folder)
    assert "lab is gone" in home.cli("cluster", "delete", "lab")
    assert traces(slurm_name, folder) == []
    assert home.ask("cluster", "list") == []
    ended = [run for run in home.ask("ls") if run["key"] == f"slurm:{slurm_name}:{job}"]
    assert [run["state"] for run in ended] == ["cancelled"], "its watcher saw the job end before it ended itself"
    assert [token["name"] for token in home.ask("token", "ls") if slurm_name in token["name"]] == []
    audit = [(one.kind, one.outcome) for one in home.client().actions(cluster=slurm_name).items]
    assert [one for one in audit if one[0].startswith("cluster_")] == [
        ("cluster_delete", "done"), ("cluster_update", "refused"), ("cluster_update", "done"), ("cluster_create", "done"),
    ]  # fmt: skip


SMALL = {
    "node_pools": [{"id": "n", "min_nodes": 1, "max_nodes": 1, "shape": {"cpus": 4, "memory_mb": 4000}}],
    "controller": {"accounting": False, "rest": False},
}
EVERY = ("prepare", "munge", "database", "accounting", "controller", "nodes")
STEPS = EVERY if os.environ.get("STEPWARD_TEST_SCALE") == "full" else ("controller",)


@pytest.mark.scaled
@pytest.mark.parametrize("step", STEPS)
def test_a_creation_whose_server_is_killed_in_it_goes_on_by_itself(home, step):
    home.cli("cluster", "create", "-f", home.write(node_pools=SMALL["node_pools"]), "--no-wait")

    def reached():
        operation = home.operation()
        shown = {one["key"]: one["state"] for one in operation["steps"]} if operation else {}
        return shown.get(step) in ("running", "done")

    home.wait(reached)
    home.kill()
    assert home.operation()["state"] == "running"
    home.start()
    home.wait(lambda: (home.operation() or {"state": "running"})["state"] != "running", 120)
    assert home.operation()["state"] == "done", home.operation()
    assert home.ask("cluster", "get", "lab")["state"] == "ready"
    assert len(glob.glob(f"{home.data}/operations/*.json")) == 1, "it is the same operation that went on"
    home.cli("cluster", "delete", "lab", "--no-wait")
    home.kill()
    slurm_name = home.cluster()["slurm_name"] if os.path.exists(f"{home.data}/clusters/lab/cluster.json") else "lab_"
    home.start()
    home.wait(lambda: (home.operation() or {"state": "running"})["state"] != "running", 60)
    assert home.operation()["state"] == "done", home.operation()
    assert traces(slurm_name, f"{home.data}/clusters/lab") == []


def test_one_operation_at_a_time_and_a_half_made_cluster_can_be_gone_on_with_or_ended(home):
    folder = f"{home.data}/clusters/lab"
    os.makedirs(f"{folder}/munge")
    Path(f"{folder}/munge/munge.key").write_bytes(b"too short")
    file, client = home.write(**SMALL), home.client()
    said = home.cli("cluster", "create", "-f", file, code=1)
    assert "daemon_not_ready" in said and "munged" in said and "key" in said
    assert home.ask("cluster", "get", "lab")["state"] == "failed"
    os.unlink(f"{folder}/munge/munge.key")
    # Not by the command line: until that has started again the cluster may be ready.
    client.create_cluster("lab", json.loads(Path(file).read_text()))
    with pytest.raises(Conflict) as second:
        client.delete_cluster("lab")
    assert second.value.code == "cluster_busy"
    home.wait(lambda: (home.operation() or {"state": "running"})["state"] != "running")
    assert home.ask("cluster", "get", "lab")["state"] == "ready"
    assert "cluster_exists" in home.cli("cluster", "create", "-f", file, code=1)
    slurm_name = home.cluster()["slurm_name"]
    home.cli("cluster", "delete", "lab")
    assert traces(slurm_name, folder) == []
