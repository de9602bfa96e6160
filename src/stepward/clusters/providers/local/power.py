"""What Slurm calls to power nodes up and down and to reboot them: ``python -m ... ACTION FOLDER NODES``.

slurmctld ends what is left of the program's process group when it returns, so daemons are let go (``commands.launch``). A
reboot is called by the very slurmd that it ends: it goes on in a process of its own.
"""

import subprocess
import sys

import msgspec

from stepward.clusters.providers.local import nodes
from stepward.clusters.providers.local.commands import clean_environment, run
from stepward.clusters.providers.local.layout import Layout
from stepward.clusters.record import ClusterRecord, write_atomically

ACTIONS = ("resume", "suspend", "reboot")


def write_programs(layout: Layout, python: str) -> None:
    """Write ``bin/resume``, ``bin/suspend``, ``bin/reboot`` and ``bin/task_prolog``."""
    module = "stepward.clusters.providers.local.power"
    for action in ACTIONS:
        # Slurm 22.05 tells RebootProgram no node's name; our own mark in slurmd's environment does.
        nodes_ = '"${STEPWARD_DAEMON##*@}"' if action == "reboot" else '"$1"'
        script = f"#!/bin/sh\nexec {python} -m {module} {action} {layout.folder} {nodes_}\n"
        write_atomically(layout.path("bin", action), script.encode(), 0o755)
    # Slurm sets in a task's environment what its prolog prints.
    url = layout.path("etc", "server.url")
    told = f'read -r url < {url} 2>/dev/null; [ -n "$STEPWARD_SERVER$url" ] || exit 0\n'
    script = f'#!/bin/sh\n{told}echo "export STEPWARD_SERVER=${{STEPWARD_SERVER:-$url}}"\n'
    write_atomically(layout.path("bin", "task_prolog"), script.encode(), 0o755)


def act(action: str, folder: str, hosts: str) -> None:
    """Do one action for the nodes of a host list."""
    layout = Layout(folder)
    with open(f"{folder}/cluster.json", "rb") as file:
        record = msgspec.json.decode(file.read(), type=ClusterRecord)
    for node in run(layout, ["scontrol", "show", "hostnames", hosts]).split():
        if action == "resume":
            nodes.switch_on(record, layout, node, booted=True)
        elif action == "suspend":
            nodes.switch_off(record, layout, node)
        elif action == "reboot":
            _apart("restart", layout, node)
        else:
            nodes.switch_off(record, layout, node)
            nodes.switch_on(record, layout, node, booted=True)


def _apart(action: str, layout: Layout, node: str) -> None:
    argv = ["/usr/bin/setsid", "--fork", sys.executable, "-m", __spec__.name, action, layout.folder, node]
    subprocess.run(argv, env=clean_environment(layout), cwd="/", stdin=subprocess.DEVNULL, check=True)


if __name__ == "__main__":
    act(*sys.argv[1:4])
