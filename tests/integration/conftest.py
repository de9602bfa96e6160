"""Real Slurm clusters for every integration test that wants one: daemons of Slurm on this host, ended with the tests.

``slurm_cluster`` is shared by the tests of a process and is clean and whole at each test's beginning; ``new_slurm_cluster`` makes
one of a test's own.
"""

import contextlib
import glob
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stepward.clusters.fleet import Fleet
from stepward.clusters.providers.local import daemons, processes
from stepward.clusters.providers.local.needs import is_usable
from stepward.clusters.reading import spec_of
from stepward.clusters.spec import ClusterSpec
from stepward.errors import StepwardError

OWNER = "owner"
"""File beside a cluster with the process whose tests use it."""


class Lab:
    """A cluster of the local provider, and Slurm's own commands on it."""

    def __init__(self, fleet: Fleet, name: str) -> None:
        self.fleet = fleet
        self.name = name
        record = fleet.records.get(name)
        self.slurm_name = record.slurm_name
        self.spec: ClusterSpec = record.spec
        self.provider = fleet.of(name)
        self.folder = fleet.records.folder(name)
        self.conf = f"{self.folder}/etc/slurm.conf"
        self.nodes = [f"{pool.id}-{n}" for pool in record.spec.node_pools for n in range(pool.min_nodes)]

    @property
    def env(self) -> dict[str, str]:
        """A clean environment in which Slurm's commands reach this cluster."""
        return {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", "TZ": "UTC", "SLURM_CONF": self.conf}

    def run(self, *argv: str, check: bool = True, timeout: float = 60) -> str:
        """Run one of Slurm's commands; what it prints."""
        done = subprocess.run(argv, env=self.env, capture_output=True, text=True, timeout=timeout)
        assert not check or done.returncode == 0, f"{argv}: {done.stderr}"
        return done.stdout

    def submit(self, script: str, *options: str) -> str:
        """Submit a shell command by ``sbatch --wrap``; the job's id."""
        return self.run("sbatch", "--parsable", "-o", "/dev/null", *options, "--wrap", script).strip()

    def job_state(self, job: str) -> str:
        """Slurm's word for the state of a job."""
        shown = self.run("scontrol", "-o", "show", "job", job, check=False)
        return next((part[9:] for part in shown.split() if part.startswith("JobState=")), "")

    def node_state(self, node: str) -> str:
        """Slurm's short word for the state of a node."""
        return self.run("sinfo", "-h", "-N", "-n", node, "-o", "%t").split()[0]

    def wait(self, true: Callable[[], bool], seconds: float = 60) -> None:
        """Wait until something is so; fails with the queue and the nodes where it does not become so."""
        until = time.monotonic() + seconds
        while not true():
            if time.monotonic() > until:
                raise AssertionError(self.run("squeue", check=False) + self.run("sinfo", "-N", "-l", check=False))
            time.sleep(0.1)

    def node_states(self) -> dict[str, str]:
        """Slurm's short word for the state of each node."""
        return dict(line.split() for line in self.run("sinfo", "-h", "-N", "-o", "%N %t").splitlines())

    def tidy(self) -> None:
        """Cancel every job, switch every node on, and undo drains and downs."""
        for state in ("PENDING", "RUNNING", "SUSPENDED"):
            self.run("scancel", f"--state={state}", check=False)
        for node in self.nodes:
            self.provider.power_on(node)
        self.wait(lambda: not self.run("squeue", "-h").strip())
        self.wait(self._resumed)

    def _resumed(self) -> bool:
        """Whether all nodes are idle; else resumes them. Again and again: Slurm sets a node down that registers with a
        later boot after it was resumed."""
        out = [node for node, state in self.node_states().items() if node in self.nodes and state != "idle"]
        for node in out:
            self.run("scontrol", "update", f"nodename={node}", "state=resume", check=False)
        return not out

    @contextlib.contextmanager
    def configured(self, *lines: str) -> Iterator[None]:
        """Around what wants other settings: lines more in slurm.conf, and a controller that has read them."""
        before = Path(self.conf).read_text()
        try:
            self._restarted_with("\n".join([before, *lines, ""]))
            yield
        finally:
            self._restarted_with(before)

    def _restarted_with(self, conf: str) -> None:
        Path(self.conf).write_text(conf)
        processes.end(daemons.running(self.provider.record, self.provider.layout, "slurmctld"), grace_s=20)
        self.provider.supervise()
        self.wait(lambda: "is UP" in self.run("scontrol", "ping", check=False))

    def impatient(self) -> str:
        """A slurm.conf for commands that ask a controller which is dead on purpose: they give up after 2 s, not 10."""
        path = f"{self.folder}/run/impatient.conf"
        with open(self.conf) as given, open(path, "w") as taken:
            taken.write(re.sub(r"^MessageTimeout=.*$", "MessageTimeout=2", given.read(), flags=re.MULTILINE))
        return path


Labs = Callable[..., Lab]


@pytest.fixture(scope="session")
def new_slurm_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Labs]:
    """Makes a cluster: ``new_slurm_cluster(name="lab", nodes=4, spares=0, **spec)``; it ends with the tests."""
    why = is_usable()
    if why is not None:
        pytest.skip(f"no real Slurm: {why}")
    _end_orphans(tmp_path_factory.getbasetemp())
    made: list[tuple[Fleet, str]] = []

    def make(name: str = "lab", *, nodes: int = 4, spares: int = 0, **spec: object) -> Lab:
        folder = tmp_path_factory.mktemp("slurm")
        (folder / OWNER).write_text(str(os.getpid()))
        fleet = Fleet(str(folder), lambda: time.time_ns() // 1000)
        wanted = {"display_name": name, **lab_spec(nodes, spares), **spec}
        operation = fleet.create(spec_of(wanted), name=name)
        made.append((fleet, name))
        operation = fleet.operations.wait(operation.id, 120)
        assert operation.state == "done", operation.error
        return Lab(fleet, name)

    yield make
    for fleet, name in made:
        if name in fleet.records.names():
            operation = fleet.operations.wait(fleet.delete(name).id, 120)
            assert operation.state == "done", operation.error


@pytest.fixture(scope="session")
def _shared_slurm_cluster(new_slurm_cluster: Labs) -> Lab:
    return new_slurm_cluster()


@pytest.fixture
def slurm_cluster(_shared_slurm_cluster: Lab) -> Iterator[Lab]:
    """Four nodes of 4 CPUs and 2 GPUs with accounting, partition ``main``; idle at the test's beginning."""
    yield _shared_slurm_cluster
    _shared_slurm_cluster.tidy()


def _end_orphans(base: Path) -> None:
    """End the clusters of test processes that were killed and could not end them."""
    root = next((folder for folder in base.parents if folder.name.startswith("pytest-of-")), base)
    # Not by pathlib: pytest removes old folders of other processes while this looks through them.
    for owner in [*glob.glob(f"{root}/*/slurm*/{OWNER}"), *glob.glob(f"{root}/*/popen-*/slurm*/{OWNER}")]:
        # Another process of the tests may be at it.
        with contextlib.suppress(StepwardError, FileNotFoundError):
            if Path("/proc", Path(owner).read_text()).exists():
                continue
            fleet = Fleet(os.path.dirname(owner), lambda: time.time_ns() // 1000)
            for name in fleet.records.names():
                fleet.operations.wait(fleet.delete(name).id, 60)


def lab_spec(nodes: int, spares: int) -> dict[str, object]:
    """Pools, partitions and short time-outs of a cluster for tests."""
    shape = {"cpus": 4, "memory_mb": 8000, "gpus": 2, "gpu_type": "h100"}
    pool = {"id": "n", "min_nodes": nodes, "max_nodes": nodes + spares, "shape": shape}
    return {
        "node_pools": [pool],
        "partitions": [{"id": "main", "node_pools": ["n"], "default": True}],
        "controller": {"accounting": True, "rest": False},
        "slurm": {"cred_expire_s": 5, "slurmd_timeout_s": 30, "kill_wait_s": 2, "suspend_after_s": 20},
    }
