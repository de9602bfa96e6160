"""The daemons of a cluster: how each is started, and which of them run."""

import os
import stat
import sys
from collections.abc import Mapping, Sequence

import msgspec

from stepward.clusters.companions import Companion
from stepward.clusters.providers.local import processes
from stepward.clusters.providers.local.commands import launch
from stepward.clusters.providers.local.configuration import ports_of
from stepward.clusters.providers.local.layout import Layout
from stepward.clusters.providers.local.processes import Process
from stepward.clusters.record import ClusterRecord

NODE_DAEMON = "slurmd"


class Daemon(msgspec.Struct, frozen=True, kw_only=True):
    """A daemon: its role (``slurmd@gpu-0``), what to run, and what to add to a clean environment."""

    role: str
    argv: Sequence[str]
    environ: Mapping[str, str] = {}


def munged(layout: Layout) -> Daemon:
    """The cluster's own munged; the host's, if any, is not touched."""
    # It refuses a socket that others cannot reach; in a data folder that only root may enter, that is meant.
    argv = [
        "munged",
        "--foreground",
        *(["--force"] if closed(layout.folder) else []),
        f"--socket={layout.munge_socket}",
        f"--key-file={layout.path('munge', 'munge.key')}",
        f"--pid-file={layout.path('munge', 'munged.pid')}",
        f"--log-file={layout.path('munge', 'munged.log')}",
        f"--seed-file={layout.path('munge', 'munged.seed')}",
    ]
    return Daemon(role="munged", argv=argv)


def mariadbd(record: ClusterRecord, layout: Layout) -> Daemon:
    """The accounting database: loopback alone, small, and with the accounts that ``database.sql`` makes at each start."""
    argv = [
        "mariadbd",
        "--no-defaults",
        "--user=root",
        f"--datadir={layout.path('database')}",
        f"--tmpdir={layout.path('tmp')}",
        f"--socket={layout.path('database', 'sock')}",
        f"--pid-file={layout.path('run', 'mariadbd.pid')}",
        "--bind-address=127.0.0.1",
        f"--port={ports_of(record).database}",
        f"--init-file={layout.path('etc', 'database.sql')}",
        "--innodb-buffer-pool-size=64M",
        "--innodb-log-file-size=32M",
        "--innodb-flush-log-at-trx-commit=2",
        "--innodb-lock-wait-timeout=900",
        "--skip-log-bin",
    ]
    return Daemon(role="mariadbd", argv=argv)


def slurmdbd() -> Daemon:
    """The accounting daemon."""
    return Daemon(role="slurmdbd", argv=["slurmdbd"])


def slurmctld() -> Daemon:
    """The controller."""
    return Daemon(role="slurmctld", argv=["slurmctld"])


def slurmd(node: str, *, booted: bool = False) -> Daemon:
    """The daemon of a node; ``booted`` tells the controller that the node has rebooted."""
    return Daemon(role=f"{NODE_DAEMON}@{node}", argv=["slurmd", "-N", node, *(["-b"] if booted else [])])


def slurmrestd(record: ClusterRecord, layout: Layout) -> Daemon:
    """The REST API. It refuses to run as root or SlurmUser; the plugins of accounting are fatal to it without slurmdbd."""
    plugins = ["openapi/v0.0.38", *(["openapi/dbv0.0.38"] if record.spec.controller.accounting else [])]
    # In a data folder that only root may enter, another user needs leave to read its configuration.
    reads = ["--inh-caps", "+dac_read_search", "--ambient-caps", "+dac_read_search"] if closed(layout.folder) else []
    argv = [
        *("setpriv", "--reuid", "nobody", "--regid", "nogroup", "--clear-groups", *reads),
        *("slurmrestd", "-a", "rest_auth/jwt", "-s", ",".join(plugins), f"127.0.0.1:{ports_of(record).rest}"),
    ]
    return Daemon(role="slurmrestd", argv=argv, environ={"SLURM_JWT": "daemon"})


def companion(one: Companion) -> Daemon:
    """A process of stepward that lives and dies with the cluster or with one of its nodes."""
    return Daemon(role=f"{one.role}@{one.node}" if one.node else one.role, argv=list(one.argv), environ=one.environ)


def start(record: ClusterRecord, layout: Layout, daemon: Daemon) -> bool:
    """Start a daemon that does not run; whether it had to be started."""
    if running(record, layout, daemon.role):
        return False
    launch(layout, record.slurm_name, daemon.role, daemon.argv, daemon.environ)
    return True


def running(record: ClusterRecord, layout: Layout, role: str) -> list[Process]:
    """The processes of a role; none where it does not run."""
    return [one for one in processes.of_cluster(record.slurm_name, layout.folder) if one.role == role]


def closed(folder: str) -> bool:
    """Whether others than its owner cannot enter a folder, because of itself or of one above it."""
    while folder != "/":
        if not os.stat(folder).st_mode & stat.S_IXOTH:
            return True
        folder = os.path.dirname(folder)
    return False


def python() -> str:
    """The interpreter for the programs that Slurm calls."""
    return sys.executable
