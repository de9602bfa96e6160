"""Starting a watcher: who it watches, where it keeps what it knows, and that there is one a cluster."""

import fcntl
import os
import signal
import threading
from urllib.parse import quote

from stepward import settings as configured
from stepward.agent.watcher.memory import Memory
from stepward.agent.watcher.plan import read_file
from stepward.agent.watcher.watching import Watcher
from stepward.errors import Conflict
from stepward.launch.notes import say
from stepward.orchestrators.slurm.commands import Slurm
from stepward.spool import roots


def watch(cluster: str | None = None) -> int:
    """Watch the jobs of a cluster until SIGTERM or SIGINT; the exit code.

    Args:
        cluster: ``ClusterName``; asked of Slurm where None.

    Raises:
        UsageError: ``bad_watcher_file``.
        Conflict: ``watcher_running``, with the pid of the one that runs.
        StepwardError: Slurm cannot be asked for its name.
    """
    slurm, file, settings = Slurm(), read_file(), configured.load()
    cluster = cluster or slurm.cluster()
    root = roots.resolve(settings.spool) or settings.spool
    folder = f"{root}/watcher"
    os.makedirs(folder, mode=0o700, exist_ok=True)
    name = quote(cluster, safe="")
    lock = _lock(f"{folder}/{name}.lock", cluster)
    over = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: over.set())
    memory = Memory(f"{folder}/{name}.db")
    say(f"the jobs of cluster {cluster} are watched; what is said of them waits in {folder} until a server has it")
    Watcher(cluster, slurm, memory, file).run(over)
    memory.close()
    os.close(lock)
    return 0


def _lock(path: str, cluster: str) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        pid = os.pread(descriptor, 32, 0).decode(errors="replace").strip()
        os.close(descriptor)
        raise Conflict(
            f"a watcher of cluster {cluster} runs already, as process {pid}",
            code="watcher_running",
            hint="one a cluster is enough; stop the other one first",
            pid=pid,
        ) from None
    os.pwrite(descriptor, str(os.getpid()).ljust(16).encode(), 0)
    return descriptor
