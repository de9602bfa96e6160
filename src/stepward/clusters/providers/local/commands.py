"""Running the programs of a cluster: commands that end, and daemons that outlive whoever started them."""

import os
import subprocess
from collections.abc import Mapping, Sequence

from stepward.clusters.providers.local.layout import Layout
from stepward.clusters.providers.local.processes import MARK
from stepward.errors import CommandFailed, Unavailable

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
COMMAND_S = 30.0
_TAIL = 600


def clean_environment(layout: Layout) -> dict[str, str]:
    """What commands and daemons get: nothing of the caller's, since slurmd hands its own to hooks and steps."""
    return {
        "PATH": PATH,
        "LANG": "C.UTF-8",
        "HOME": "/root",
        "SHELL": "/bin/bash",
        "SLURM_CONF": layout.conf,
        "TZ": "UTC",
    }


def run(layout: Layout, argv: Sequence[str], *, timeout_s: float = COMMAND_S, check: bool = True) -> str:
    """Run a command of the cluster; what it printed.

    Raises:
        CommandFailed: ``cluster_command_failed`` with argv, exit code and the end of stderr.
        Unavailable: ``cluster_command_hung``.
    """
    try:
        done = subprocess.run(
            argv,
            env=clean_environment(layout),
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout_s,
            start_new_session=True,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Unavailable(
            f"`{' '.join(argv)}` gave no answer within {timeout_s:g} s", code="cluster_command_hung", retry_after_s=5.0
        ) from None
    except OSError as error:
        raise CommandFailed(
            f"{argv[0]} could not be run: {error.strerror}", code="cluster_command_failed", argv=list(argv)
        ) from None
    out, said = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace").strip()
    if check and done.returncode:
        raise CommandFailed(
            f"`{' '.join(argv)}` ended with {done.returncode}: {(said or out.strip())[-_TAIL:]}",
            code="cluster_command_failed",
            argv=list(argv),
            exit_code=done.returncode,
            stderr=said[-_TAIL:],
        )
    return out


def answers(layout: Layout, argv: Sequence[str], *, timeout_s: float = 5.0) -> bool:
    """Whether a command ends well."""
    try:
        run(layout, argv, timeout_s=timeout_s)
    except (CommandFailed, Unavailable):
        return False
    return True


def launch(
    layout: Layout, slurm_name: str, role: str, argv: Sequence[str], environ: Mapping[str, str] | None = None
) -> None:
    """Start a daemon in a session of its own, below init, with its output in ``log/<role>.out``.

    ``setsid --fork`` lets it go: Slurm ends what is left of a script's process group, and a server reaps no daemon.

    Raises:
        CommandFailed: ``cluster_command_failed``.
    """
    known = clean_environment(layout) | dict(environ or {}) | {MARK: f"{slurm_name}:{role}"}
    try:
        with open(layout.log(role), "ab") as output:
            os.fchmod(output.fileno(), 0o600)
            subprocess.run(
                ["/usr/bin/setsid", "--fork", *argv],
                env=known,
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                check=True,
                timeout=COMMAND_S,
            )
    except (OSError, subprocess.SubprocessError) as error:
        raise CommandFailed(
            f"{role} could not be started: {error}", code="cluster_command_failed", argv=list(argv)
        ) from None


def tail(path: str, size: int = _TAIL) -> str:
    """The end of a log, for an error's message."""
    try:
        with open(path, "rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - size))
            return file.read().decode(errors="replace").strip()
    except OSError:
        return ""
