"""The lab of the story: a server, and a Slurm cluster of four nodes that it made; both end with the story, come what may."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from tests.e2e.story.claims import Claims

from stepward.client.api import Client
from stepward.clusters.fleet import Fleet
from stepward.clusters.providers.local import processes
from stepward.demo.company import Company
from stepward.errors import StepwardError
from stepward.orchestrators.slurm.commands import Slurm
from stepward.settings import Settings

T = TypeVar("T")
NAME, NODES = "story", 4
SPEC = {
    "display_name": "story",
    "node_pools": [{"id": "n", "min_nodes": NODES, "max_nodes": NODES, "shape": {"cpus": 2, "memory_mb": 2000}}],
    "partitions": [{"id": "main", "node_pools": ["n"], "default": True, "max_time": "1:00:00"}],
    "slurm": {"kill_wait_s": 2},
}
CREATE_S = 30.0
START_S, PATIENCE_S = 60.0, 120.0


class StoryError(Exception):
    """The story cannot go on: what it waited for did not come."""


class Lab:
    """Server and cluster, in a folder of their own.

    Attributes:
        slurm: Slurm's commands on the cluster.
        client: the server, as its administrator sees it.
    """

    slurm: Slurm
    client: Client

    def __init__(self, claims: Claims, artifacts: Path) -> None:
        self._claims, self._artifacts = claims, artifacts
        # Short: sockets of Slurm's daemons lie below it.
        self.folder = tempfile.mkdtemp(prefix="story-")
        self._data = f"{self.folder}/data"
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("STEPWARD_", "SLURM"))}
        self.env = kept | {
            "XDG_STATE_HOME": f"{self.folder}/xdg",
            "XDG_CONFIG_HOME": f"{self.folder}/xdg",
            "STEPWARD_DIR": f"{self.folder}/spool",
            "PATH": f"{os.path.dirname(sys.executable)}:{os.environ.get('PATH', os.defpath)}",
            "OMP_NUM_THREADS": "1",
            "PYTHONUNBUFFERED": "1",
        }
        self._server: Company | None = None

    def __enter__(self) -> "Lab":
        try:
            self._start_server()
            self._create()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if error is not None:
            self._keep_logs()
        self.close()

    def cli(self, *arguments: str, check: bool = True) -> str:
        """What a command of stepward prints."""
        done = self.command(sys.executable, "-m", "stepward", *arguments)
        if check and done.returncode:
            raise StoryError(f"stepward {' '.join(arguments)}: {done.returncode}: {done.stderr[-800:]}")
        return done.stdout

    def command(self, *argv: str) -> "subprocess.CompletedProcess[str]":
        """A command as a user of the cluster gives it, in the story's folder."""
        return subprocess.run(argv, env=self.env, cwd=self.folder, capture_output=True, text=True, timeout=180)

    def until(self, what: str, found: Callable[[], T | None], limit_s: float = PATIENCE_S) -> T:
        """The first true answer.

        Raises:
            StoryError: none came.
        """
        deadline = time.monotonic() + limit_s
        while time.monotonic() < deadline:
            if self._server is not None:
                self._server.must_live()
            with contextlib.suppress(StepwardError):
                if answer := found():
                    return answer
            time.sleep(0.1)
        raise StoryError(f"waited {limit_s:g} s in vain for {what}")

    def kill_node(self, node: str) -> None:
        """Cut a node's power."""
        self._fleet.of(NAME).kill_node(node)

    def power_on(self, node: str) -> None:
        """Give it back."""
        self._fleet.of(NAME).power_on(node)

    @property
    def slurm_name(self) -> str:
        """The cluster's name in keys of runs."""
        return self._fleet.records.get(NAME).slurm_name

    def _keep_logs(self) -> None:
        kept = self._artifacts / "logs"
        shutil.rmtree(kept, ignore_errors=True)
        kept.mkdir(parents=True)
        logs = [*Path(self._data, "clusters", NAME, "log").glob("*"), *Path(self.folder).glob("*.out")]
        for path in (*logs, Path(self.folder, "server.log")):
            shutil.copy(path, kept)
        self._claims.say(f"logs are kept in {kept}")

    def close(self) -> None:
        """End cluster and server; what is left of either is a broken claim."""
        try:
            self._delete()
        finally:
            if self._server is not None:
                self._server.end(grace_s=12)
            shutil.rmtree(self.folder, ignore_errors=True)

    def _start_server(self) -> None:
        output = f"{self.folder}/server.log"
        self._server = Company(["up", "--data", self._data, "--port", "0"], output=output, env=self.env)
        states = f"{self.folder}/xdg/stepward/servers"

        def ready() -> bool:
            with contextlib.suppress(OSError, IndexError):
                self._state = json.loads(Path(states, os.listdir(states)[0]).read_text())
                self.client = Client.of(
                    Settings(server=self._state["url"], token=Path(self._data, "token").read_text().strip())
                )
                return bool(self.client.session())
            return False

        self.until("the server", ready, START_S)
        self._claims.say(f"server at {self._state['url']}")
        self._fleet = Fleet(self._data, lambda: time.time_ns() // 1000)

    def _create(self) -> None:
        spec = Path(self.folder, "lab.json")
        spec.write_text(json.dumps(SPEC))
        began = time.monotonic()
        print(self.cli("cluster", "create", "-f", str(spec)))
        self._claims.within("`stepward cluster create` of 4 nodes", time.monotonic() - began, CREATE_S)
        self.slurm = Slurm(self.client.cluster(NAME).slurm_conf)
        self.env["SLURM_CONF"] = self.client.cluster(NAME).slurm_conf
        self.until("the agents of all nodes", self.all_live)

    def all_live(self) -> bool:
        """Whether every node's agent is heard and Slurm has it idle."""
        nodes = self.client.nodes(cluster=self.slurm_name)
        idle = all(node.base == "IDLE" and not node.flags for node in self.slurm.nodes())
        return idle and len(nodes) == NODES and all(node.state == "live" for node in nodes)

    def _delete(self) -> None:
        if not hasattr(self, "_fleet") or NAME not in self._fleet.records.names():
            return
        name, folder = self.slurm_name, self._fleet.records.folder(NAME)
        began = time.monotonic()
        try:
            self.cli("cluster", "delete", NAME)
        except (StoryError, subprocess.TimeoutExpired) as error:
            # Without its server, too, nothing may stay.
            self._claims.hold("`stepward cluster delete` works", False, error)
            self._fleet.operations.wait(self._fleet.delete(NAME).id, 120)
        self._claims.within("`stepward cluster delete`", time.monotonic() - began, None)
        left = [str(one) for one in processes.of_cluster(name, folder)]
        left += [folder] if os.path.exists(folder) else []
        left += [str(path) for path in Path("/sys/fs/cgroup").glob(f"*/stepward_{name}*")]
        self._claims.hold("nothing is left of the cluster", not left, ", ".join(left))
