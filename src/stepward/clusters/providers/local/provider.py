"""The local provider: a whole Slurm cluster of real daemons on this host, each node a slurmd with a port of its own."""

import hashlib
import os
import secrets
import shutil
import socket
import time
from collections.abc import Callable, Collection, Sequence

import msgspec

from stepward.clusters.companions import ServerOf
from stepward.clusters.providers.local import cgroups, daemons, database, needs, nodes, ports, power, processes
from stepward.clusters.providers.local.commands import answers, run, tail
from stepward.clusters.providers.local.configuration import Host, files, ports_of
from stepward.clusters.providers.local.daemons import Daemon
from stepward.clusters.providers.local.layout import Layout, check_folder
from stepward.clusters.providers.local.rest import rest_answers
from stepward.clusters.providers.protocol import Step
from stepward.clusters.record import LOCK, RECORD, ClusterRecord, write_atomically
from stepward.clusters.spec import ClusterSpec, nodes_of, permanent_nodes
from stepward.errors import CommandFailed, Conflict, StepwardError
from stepward.model.clusters import ClusterService

READY_S = 60.0
"""How long a daemon may take to answer."""
ENDED_S = 1.0
"""A daemon that was not seen for so long has ended: between two of its forks it may be missed."""
NODES_S = 90.0
CANCEL_S = 10.0
TELL_S = 20.0
"""The watcher looks once more and tells the server how the jobs have ended."""
GRACE_S = 5.0
GONE_OR_LOST = ("unk", "down*", "idle*", "alloc*", "mix*", "drain*", "drng*", "comp*")


class LocalProvider:
    """See ``stepward.clusters.providers.protocol.Provider``.

    Args:
        folder: the cluster's own folder.
        keep: remembers the record, when ports have been chosen.
        server: where companions report, asked when they are about to be started.
        taken: ports of other clusters.
    """

    def __init__(
        self,
        record: ClusterRecord,
        folder: str,
        keep: Callable[[ClusterRecord], None],
        server: ServerOf = lambda _name, _remembered: None,
        taken: Callable[[], Collection[int]] = tuple,
    ) -> None:
        self.record = record
        self.layout = Layout(folder)
        self._keep = keep
        self._server = server
        self._taken = taken
        self._host = Host(memory_limits=cgroups.memory_limits(), loopback_name=_name_is_loopback())

    def check(self, spec: ClusterSpec) -> None:
        """Refuse what this host cannot carry: ``cluster_needs``, ``bad_cluster_folder``."""
        check_folder(self.layout.folder)
        needs.check(spec)

    # ── making ──

    def make(self) -> Sequence[Step]:
        """Steps from nothing, or from any half-made or older state, to what the record says."""
        spec = self.record.spec
        accounting = [
            Step("database", "accounting database", self._database),
            Step("accounting", "slurmdbd", self._slurmdbd),
        ]
        return [
            Step("prepare", "ports, folders, keys and control groups", self._prepare),
            Step("configuration", "configuration of Slurm", self._configuration),
            Step("munge", "munged", self._munged),
            # Accounting before the controller: a controller that began without it refuses it later.
            *(accounting if spec.controller.accounting else []),
            Step("controller", "slurmctld, anew where its configuration has changed", self._controller),
            Step("nodes", f"{len(permanent_nodes(spec))} nodes", self._nodes),
            Step("rest", "slurmrestd" if spec.controller.rest else "no slurmrestd", self._rest),
            Step("companions", "watcher", self._companions),
        ]

    def _prepare(self) -> None:
        check_folder(self.layout.folder)
        every = nodes_of(self.record.spec)
        self.layout.make(every)
        self.record.ports = ports.chosen(self.record.ports, every, self._taken())
        self._keep(self.record)
        _secret(self.layout.path("munge", "munge.key"), 128)
        _secret(self.layout.jwt_key, 32)
        _devices(self.layout, max((pool.shape.gpus for pool in self.record.spec.compute_pools()), default=0))
        if self._host.memory_limits:
            cgroups.make(self.record.slurm_name, self.layout.path("cgroup"))
        self._tell_server()

    def _configuration(self) -> None:
        password = database.password(self.layout)
        for name, (content, mode) in files(self.record, self.layout, self._host, password).items():
            write_atomically(self.layout.path("etc", name), content.encode(), mode)
        database.write_accounts(self.layout, password)
        power.write_programs(self.layout, daemons.python(), self.record.spec)

    def _munged(self) -> None:
        self._started(daemons.munged(self.layout), lambda: answers(self.layout, [*_MUNGE, self.layout.munge_socket]))

    def _database(self) -> None:
        database.install(self.layout)
        port = ports_of(self.record).database
        self._started(daemons.mariadbd(self.record, self.layout), lambda: _listens(port))

    def _slurmdbd(self) -> None:
        self._started(daemons.slurmdbd(), lambda: answers(self.layout, ["sacctmgr", "-n", "list", "cluster"]))
        known = run(self.layout, ["sacctmgr", "-n", "-P", "list", "cluster", "format=cluster"]).split()
        if self.record.slurm_name not in known:
            run(self.layout, ["sacctmgr", "-i", "add", "cluster", self.record.slurm_name])

    def _controller(self) -> None:
        wanted, seen = self._digest(), self.layout.path("run", "controller.digest")
        changed = _read(seen) != wanted
        if changed:
            # Nodes cannot be added to or taken from a controller that runs: it would end with an error. Jobs go on.
            processes.end(daemons.running(self.record, self.layout, "slurmctld"), grace_s=GRACE_S)
        self._started(daemons.slurmctld(), lambda: "is UP" in self._ask("scontrol", "ping"))
        if changed:
            if self._any_node_runs():
                # Nodes that are up read the new addresses of the others.
                run(self.layout, ["scontrol", "reconfigure"])
            write_atomically(seen, wanted.encode())

    def _nodes(self) -> None:
        spec = self.record.spec
        declared = set(nodes_of(spec))
        for node in os.listdir(self.layout.path("power")):
            if node not in declared and nodes.is_on(self.layout, node):
                nodes.switch_off(self.record, self.layout, node)
        wanted = permanent_nodes(spec)
        for node in wanted:
            nodes.switch_on(self.record, self.layout, node)
        if not processes.until(lambda: not self._absent(wanted), NODES_S):
            late = self._absent(wanted)
            raise CommandFailed(
                f"nodes {', '.join(late)} did not register within {NODES_S:g} s: "
                f"{tail(self.layout.path('log', f'slurmd.{late[0]}.log')) if late else ''}",
                code="node_not_ready",
                hint="`stepward cluster create` goes on from here",
            )

    def _rest(self) -> None:
        if not self.record.spec.controller.rest:
            processes.end(daemons.running(self.record, self.layout, "slurmrestd"), grace_s=GRACE_S)
            return
        port = ports_of(self.record).rest
        token = self._ask("scontrol", "token", "username=root", "lifespan=600").strip().removeprefix("SLURM_JWT=")
        self._started(daemons.slurmrestd(self.record, self.layout), lambda: rest_answers(port, token))

    def _companions(self) -> None:
        for one in nodes.watcher(self.record, self.layout):
            daemons.start(self.record, self.layout, daemons.companion(one))

    # ── unmaking ──

    def unmake(self) -> Sequence[Step]:
        """Steps after which no process, control group or file of the cluster is left."""
        return [
            Step("jobs", "cancel the jobs", self._cancel_jobs),
            Step("nodes", "end the nodes", self._end_nodes),
            Step("controller", "end the controller and what is beside it", self._end_controller),
            Step("leftovers", "end what is left, remove control groups", self._end_leftovers),
            Step("files", "remove the cluster's folder", self._remove_files),
        ]

    def _cancel_jobs(self) -> None:
        if not daemons.running(self.record, self.layout, "slurmctld"):
            return
        for state in ("PENDING", "RUNNING", "SUSPENDED"):
            answers(self.layout, ["scancel", f"--state={state}"], timeout_s=CANCEL_S)
        processes.until(lambda: not self._ask("squeue", "-h", "-t", "R,CG", "-o", "%A").strip(), CANCEL_S)

    def _end_nodes(self) -> None:
        mine = processes.of_cluster(self.record.slurm_name, self.layout.folder)
        processes.end([one for one in mine if one.node and one.role], grace_s=GRACE_S)
        processes.end([one for one in self._all() if one.node], grace_s=0)

    def _end_controller(self) -> None:
        # In this order: the controller tells slurmdbd of its end, slurmdbd the database, all through munged.
        for role in ("watcher", "slurmrestd", "slurmctld", "slurmdbd", "mariadbd", "munged"):
            grace_s = TELL_S if role == "watcher" else GRACE_S
            processes.end(daemons.running(self.record, self.layout, role), grace_s=grace_s)

    def _end_leftovers(self) -> None:
        left = self._all()
        while left:
            stuck = processes.end(left, grace_s=0)
            if stuck:
                raise Conflict(
                    f"processes {', '.join(str(one.pid) for one in stuck)} of the cluster cannot be ended",
                    code="cluster_process_stuck",
                    hint="they wait in the kernel, as on a dead mount; delete again when they have gone",
                )
            left = self._all()
        # A group empties a moment after its last process has gone.
        if not processes.until(lambda: not cgroups.remove(self.record.slurm_name), GRACE_S):
            raise Conflict(
                f"control groups of the cluster cannot be removed: {cgroups.remove(self.record.slurm_name)[0]}",
                code="cluster_process_stuck",
                hint="delete again when their processes have gone",
            )

    def _remove_files(self) -> None:
        # The record comes last: as long as it is there, what is half done is known and gone on with.
        for entry in os.scandir(self.layout.folder):
            if entry.name in (RECORD, LOCK):
                continue
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path)
            else:
                os.unlink(entry.path)
        shutil.rmtree(self.layout.folder)

    # ── while it lives ──

    def busy(self, nodes: Sequence[str]) -> dict[str, list[str]]:
        """Which of these nodes have jobs, and which."""
        found: dict[str, list[str]] = {}
        for node in nodes:
            jobs = self._ask("squeue", "-h", "-w", node, "-o", "%A").split() if nodes else []
            if jobs:
                found[node] = jobs
        return found

    def supervise(self, may: Callable[[str], bool] = lambda _role: True) -> list[str]:
        """Start again what died unasked: daemons in their order, nodes that are switched on, companions."""
        if self._host.memory_limits:
            cgroups.make(self.record.slurm_name, self.layout.path("cgroup"))
        reports = self._tell_server()
        alive = {one.role for one in self._all()}
        started = [daemon for daemon in self._wanted() if daemon.role not in alive and may(daemon.role)]
        for daemon in started:
            daemons.start(self.record, self.layout, daemon)
        again = [daemon.role for daemon in started]
        for node in nodes_of(self.record.spec):
            dead = ({f"slurmd@{node}"} | ({f"agent@{node}"} if reports else set())) - alive
            if dead and nodes.is_on(self.layout, node) and may(node):
                nodes.switch_on(self.record, self.layout, node)
                again += sorted(dead)
        return again

    def services(self) -> list[ClusterService]:
        """The cluster's own daemons and whether they run."""
        alive = {one.role for one in self._all()}
        return [ClusterService(role=daemon.role, running=daemon.role in alive) for daemon in self._wanted()]

    def is_on(self, node: str) -> bool:
        """Whether a node is switched on."""
        return nodes.is_on(self.layout, node)

    def power_on(self, node: str) -> None:
        """Switch a node on."""
        nodes.switch_on(self.record, self.layout, node, booted=True)

    def power_off(self, node: str) -> None:
        """Switch a node off."""
        nodes.switch_off(self.record, self.layout, node)

    def kill_node(self, node: str) -> None:
        """SIGKILL for slurmd, its steps, the jobs' processes and the agent, at once."""
        nodes.pull(self.record, self.layout, node)

    # ── parts of these ──

    def _wanted(self) -> list[Daemon]:
        """The daemons of the cluster as a whole, in the order in which they need each other."""
        controller = self.record.spec.controller
        accounting = [daemons.mariadbd(self.record, self.layout), daemons.slurmdbd()] if controller.accounting else []
        rest = [daemons.slurmrestd(self.record, self.layout)] if controller.rest else []
        watchers = [daemons.companion(one) for one in nodes.watcher(self.record, self.layout)]
        return [daemons.munged(self.layout), *accounting, daemons.slurmctld(), *rest, *watchers]

    def _started(self, daemon: Daemon, ready: Callable[[], bool]) -> None:
        """Start a daemon where it does not run, and wait until it answers."""
        daemons.start(self.record, self.layout, daemon)
        last_seen = time.monotonic()

        def settled() -> bool:
            nonlocal last_seen
            if ready():
                return True
            # Looked for after the question, which takes seconds on a busy host.
            if daemons.running(self.record, self.layout, daemon.role):
                last_seen = time.monotonic()
            return time.monotonic() - last_seen > ENDED_S

        processes.until(settled, READY_S)
        if not ready():
            raise CommandFailed(
                f"{daemon.role} does not answer: {self._last_words(daemon.role)}",
                code="daemon_not_ready",
                hint=f"its log is below {self.layout.path('log')}; `stepward cluster create` goes on from here",
                role=daemon.role,
            )

    def _last_words(self, role: str) -> str:
        """The end of what a daemon said, before it went its own way or in its log."""
        own = self.layout.path("munge", "munged.log") if role == "munged" else self.layout.path("log", f"{role}.log")
        return tail(self.layout.log(role)) or tail(own) or "it said nothing"

    def _tell_server(self) -> bool:
        """Remember where companions report, and end those that report elsewhere; whether there is a server."""
        known = nodes.remembered_server(self.layout)
        server = self._server(self.record.slurm_name, known)
        if server is not None:
            server = msgspec.structs.replace(server, project=self.record.spec.project)
        if server != known:
            nodes.remember_server(self.layout, server)
            outdated = [one for one in self._all() if one.role.partition("@")[0] in ("watcher", "agent")]
            processes.end(outdated, grace_s=GRACE_S)
        return server is not None

    def _absent(self, wanted: Sequence[str]) -> list[str]:
        """Of ``wanted``, the nodes that the controller does not hear."""
        said = dict(line.split(maxsplit=1) for line in self._ask("sinfo", "-h", "-N", "-o", "%N %t").splitlines())
        return [node for node in wanted if said.get(node, "unk").strip() in GONE_OR_LOST or "~" in said.get(node, "~")]

    def _any_node_runs(self) -> bool:
        return any(one.role.startswith(f"{daemons.NODE_DAEMON}@") for one in self._all())

    def _all(self) -> list[processes.Process]:
        return processes.of_cluster(self.record.slurm_name, self.layout.folder)

    def _ask(self, *argv: str) -> str:
        """What a command prints; nothing where it fails."""
        try:
            return run(self.layout, argv, timeout_s=5.0)
        except StepwardError:
            return ""

    def _digest(self) -> str:
        content = "".join(_read(self.layout.path("etc", name)) for name in ("slurm.conf", "gres.conf", "cgroup.conf"))
        return hashlib.sha256(content.encode()).hexdigest()


_MUNGE = ["munge", "-n", "-S"]


def _secret(path: str, size: int) -> None:
    if not os.path.exists(path):
        write_atomically(path, secrets.token_bytes(size), 0o600)


def _devices(layout: Layout, gpus: int) -> None:
    """Device files of the GPUs: the host's where it has them, stand-ins where not. slurmd wants character devices."""
    for number in range(gpus):
        real, path = f"/dev/nvidia{number}", layout.path("dev", f"nvidia{number}")
        if not os.path.lexists(path):
            os.symlink(real if os.path.exists(real) else "/dev/null", path)


def _name_is_loopback() -> bool:
    try:
        return socket.gethostbyname(socket.gethostname()) == "127.0.0.1"
    except OSError:
        return False


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1.0).close()
    except OSError:
        return False
    return True


def _read(path: str) -> str:
    try:
        with open(path) as file:
            return file.read()
    except FileNotFoundError:
        return ""
