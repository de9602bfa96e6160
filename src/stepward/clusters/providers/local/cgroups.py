"""Control groups of version 1 that belong to one cluster alone, and their removal.

Slurm makes ``<controller>/slurm_<node>/uid_<u>/job_<j>/...`` and leaves it behind. Node names and job ids of two clusters on one
host are alike, so each cluster gets ``<controller>/stepward_<ClusterName>`` as the root of its groups: links in its folder lead
there, and CgroupMountpoint names that folder.
"""

import contextlib
import os

ROOT = "/sys/fs/cgroup"
CONTROLLERS = ("memory", "freezer", "cpuset", "cpuacct", "cpu", "devices", "blkio", "pids")


def memory_limits(root: str = ROOT) -> bool:
    """Whether this process may make memory groups of version 1 here."""
    return all(
        os.path.exists(f"{root}/{name}/tasks") and os.access(f"{root}/{name}", os.W_OK) for name in CONTROLLERS[:2]
    )


def make(slurm_name: str, links: str, root: str = ROOT) -> None:
    """Make the cluster's groups, and the folder of links to them."""
    os.makedirs(links, exist_ok=True)
    for controller in CONTROLLERS:
        if not os.path.exists(f"{root}/{controller}/tasks"):
            continue
        group = _group(slurm_name, controller, root)
        os.makedirs(group, exist_ok=True)
        if controller == "cpuset":
            # A new cpuset takes no process before it has processors and memory.
            for name in ("cpuset.cpus", "cpuset.mems"):
                _copy(f"{root}/{controller}/{name}", f"{group}/{name}")
        with contextlib.suppress(FileExistsError):
            os.symlink(group, f"{links}/{controller}")


def remove(slurm_name: str, root: str = ROOT) -> list[str]:
    """Remove the cluster's groups, innermost first; returns those that still hold processes."""
    left = []
    for controller in CONTROLLERS:
        group = _group(slurm_name, controller, root)
        for folder, _, _ in os.walk(group, topdown=False):
            with contextlib.suppress(FileNotFoundError):
                try:
                    os.rmdir(folder)
                except OSError:
                    left.append(folder)
    return left


def _group(slurm_name: str, controller: str, root: str) -> str:
    return f"{root}/{controller}/stepward_{slurm_name}"


def _copy(source: str, target: str) -> None:
    with contextlib.suppress(OSError), open(source) as given:
        value = given.read().strip()
        with open(target, "w") as taken:
            taken.write(value)
