"""What Slurm calls to power nodes up and down and to reboot them: ``python -m ... ACTION FOLDER NODES``.

slurmctld ends what is left of the program's process group when it returns, so daemons are let go (``commands.launch``). A
reboot is called by the very slurmd that it ends: it goes on in a process of its own.
"""

import subprocess
import sys

import msgspec

from stepward.clusters.providers.local import nodes
from stepward.clusters.providers.local.commands import PATH, clean_environment, run
from stepward.clusters.providers.local.layout import Layout
from stepward.clusters.record import RECORD, ClusterRecord, write_atomically
from stepward.clusters.spec import ClusterSpec

ACTIONS = ("resume", "suspend", "reboot")
BOOT_POLL_S = 0.5


def write_programs(layout: Layout, python: str, spec: ClusterSpec) -> None:
    """Write the programs below ``bin/`` that slurm.conf names."""
    module = "stepward.clusters.providers.local.power"
    for action in ACTIONS:
        # Slurm 22.05 tells RebootProgram no node's name; our own mark in slurmd's environment does.
        nodes_ = '"${STEPWARD_DAEMON##*@}"' if action == "reboot" else '"$1"'
        script = f"#!/bin/sh\nexec {python} -m {module} {action} {layout.folder} {nodes_}\n"
        write_atomically(layout.path("bin", action), script.encode(), 0o755)
    for name, lines in (("task_prolog", _task_prolog(layout, spec)), ("await_boot", _await_boot(layout, spec))):
        write_atomically(layout.path("bin", name), "\n".join(["#!/bin/sh", *lines, ""]).encode(), 0o755)


def _task_prolog(layout: Layout, spec: ClusterSpec) -> list[str]:
    """Slurm sets in a task's environment what this prints."""
    project = [f'echo "export STEPWARD_PROJECT=${{STEPWARD_PROJECT:-{spec.project}}}"'] if spec.project else []
    return [
        f"read -r url < {layout.path('etc', 'server.url')} 2>/dev/null",
        '[ -z "$STEPWARD_SERVER$url" ] || echo "export STEPWARD_SERVER=${STEPWARD_SERVER:-$url}"',
        *project,
    ]


def _await_boot(layout: Layout, spec: ClusterSpec) -> list[str]:
    """Ends when no node of a job boots any more; it never fails, since Slurm would requeue the job.

    slurmctld launches a batch job on nodes that boot when PrologSlurmctld has ended, if they are up by then, and else at its
    next look, which it takes every 30 s.
    """
    looks = int(spec.slurm.resume_timeout_s / BOOT_POLL_S)
    return [
        f"export PATH={PATH} SLURM_CONF={layout.conf}",
        f"left={looks}",
        "while [ $left -gt 0 ] && scontrol -o show node \"$SLURM_JOB_NODELIST\" | grep -q 'State=[A-Z_+]*POWER'; do",
        f"  left=$((left - 1)); sleep {BOOT_POLL_S}",
        "done",
        "exit 0",
    ]


def act(action: str, folder: str, hosts: str) -> None:
    """Do one action for the nodes of a host list."""
    layout = Layout(folder)
    with open(f"{folder}/{RECORD}", "rb") as file:
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
