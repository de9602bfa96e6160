"""What Slurm calls to power nodes up and down and to reboot them: ``python -m ... ACTION FOLDER NODES``.

slurmctld ends what is left of the program's process group when it returns, so daemons are let go (``commands.launch``). A
reboot is called by the very slurmd that it ends: it goes on in a process of its own.
"""

import subprocess
import sys
import time

import msgspec

from stepward.clusters.providers.local import nodes
from stepward.clusters.providers.local.commands import answers, clean_environment, launch, run
from stepward.clusters.providers.local.layout import Layout
from stepward.clusters.record import RECORD, ClusterRecord, write_atomically
from stepward.errors import StepwardError

ACTIONS = ("resume", "suspend", "reboot")
READY_LOOK_S = 5.0
"""Of one job, before the next is asked about."""


def write_programs(layout: Layout, python: str, project: str | None) -> None:
    """Write ``bin/resume``, ``bin/suspend``, ``bin/reboot`` and ``bin/task_prolog``; ``project`` is of jobs that name none."""
    module = "stepward.clusters.providers.local.power"
    for action in ACTIONS:
        # Slurm 22.05 tells RebootProgram no node's name; our own mark in slurmd's environment does.
        nodes_ = '"${STEPWARD_DAEMON##*@}"' if action == "reboot" else '"$1"'
        script = f"#!/bin/sh\nexec {python} -m {module} {action} {layout.folder} {nodes_}\n"
        write_atomically(layout.path("bin", action), script.encode(), 0o755)
    # Slurm sets in a task's environment what its prolog prints.
    url = layout.path("etc", "server.url")
    said = [
        "#!/bin/sh",
        f"read -r url < {url} 2>/dev/null",
        '[ -z "$STEPWARD_SERVER$url" ] || echo "export STEPWARD_SERVER=${STEPWARD_SERVER:-$url}"',
        *([f'echo "export STEPWARD_PROJECT=${{STEPWARD_PROJECT:-{project}}}"'] if project else []),
    ]
    script = "\n".join(said) + "\n"
    write_atomically(layout.path("bin", "task_prolog"), script.encode(), 0o755)


def act(action: str, folder: str, hosts: str) -> None:
    """Do one action for the nodes of a host list."""
    layout, record = Layout(folder), _record(folder)
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
    if action == "resume":
        launch(layout, record.slurm_name, "hasten", _argv("hasten", layout, hosts))


def hasten(folder: str, hosts: str) -> None:
    """Have jobs begin as soon as the nodes that they wait for are up.

    slurmctld looks at a batch job that waits for nodes to boot every 30 s, and whenever somebody asks whether it is ready:
    so we ask, as srun does for its own. Measured with 22.05: 2 s from submission to the first line instead of 29.
    """
    layout = Layout(folder)
    until = time.monotonic() + _record(folder).spec.slurm.resume_timeout_s
    while time.monotonic() < until:
        try:
            waiting = run(layout, ["squeue", "-h", "-t", "CF", "-w", hosts, "-o", "%A"]).split()
        except StepwardError:
            return  # slurmctld ends: when it is back it looks by itself
        if not waiting:
            return
        for job in waiting:
            # It waits itself; another job's nodes may be up before.
            answers(layout, ["scontrol", "wait_job", job], timeout_s=READY_LOOK_S)


def _record(folder: str) -> ClusterRecord:
    with open(f"{folder}/{RECORD}", "rb") as file:
        return msgspec.json.decode(file.read(), type=ClusterRecord)


def _argv(action: str, layout: Layout, hosts: str) -> list[str]:
    return [sys.executable, "-m", __spec__.name, action, layout.folder, hosts]


def _apart(action: str, layout: Layout, node: str) -> None:
    argv = ["/usr/bin/setsid", "--fork", *_argv(action, layout, node)]
    subprocess.run(argv, env=clean_environment(layout), cwd="/", stdin=subprocess.DEVNULL, check=True)


if __name__ == "__main__":
    if sys.argv[1] == "hasten":
        hasten(*sys.argv[2:4])
    else:
        act(*sys.argv[1:4])
