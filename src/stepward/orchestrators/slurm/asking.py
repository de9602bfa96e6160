"""Running one of Slurm's commands: without a shell, with a time-out, in an environment of our own; failures by name.

Times are asked for as seconds since the epoch (``SLURM_TIME_FORMAT=%s``), so that no zone and no locale is in between.
"""

import contextlib
import os
import re
import signal
import subprocess
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from stepward.errors import CommandFailed, Conflict, NotFound, StepwardError, Unavailable

ANSWER_S = 20.0
"""Seconds that a command may take: Slurm's own MessageTimeout is 10 s, and a command may ask twice."""
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/slurm/bin"
_DOWN = re.compile(
    r"unable to contact slurm controller|connection refused|connection timed out|socket timed out|zero bytes were|"
    r"not responding|standby mode|no route to host|network is unreachable|could not establish a configuration|"
    r"error connecting to|connection reset|problem talking to the database|slurmdbd.*(?:down|failed)|"
    r"unexpected message received|failed to contact|munge|transport endpoint|broken pipe|"
    r"fatal: .*(?:configuration|slurm\.conf)",
    re.IGNORECASE,
)
_NO_JOB = re.compile(r"invalid job id|job id.*(?:not found|unknown)|invalid job array", re.IGNORECASE)
_NO_ACCOUNTING = re.compile(r"accounting storage is disabled|accounting.*not enabled", re.IGNORECASE)


class Said(NamedTuple):
    """What a command printed on stdout and stderr."""

    out: str
    err: str


def ask(
    argv: Sequence[str],
    conf: str | None,
    *,
    read: bool = True,
    stdin: bytes = b"",
    timeout_s: float = ANSWER_S,
    pass_fds: Sequence[int] = (),
    fine: Sequence[int] = (0,),
) -> Said:
    """What a command prints.

    Args:
        conf: path of slurm.conf; None for the one of this host.
        read: the command asks, and its times are wanted as numbers; others must not hand such a setting to a job.
        fine: exit codes of an answer.

    Raises:
        Unavailable: ``slurm_unreachable``.
        CommandFailed: ``slurm_missing``.
        NotFound: ``unknown_job``.
        Conflict: ``slurm_refused``, ``slurm_no_accounting``.
    """
    try:
        # A session of its own: after the time-out everything that the command has started is ended with it.
        process = subprocess.Popen(
            list(argv),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(conf, read=read),
            cwd="/",
            pass_fds=tuple(pass_fds),
            start_new_session=True,
        )
    except OSError as error:
        raise CommandFailed(
            f"{argv[0]} cannot be run here: {error.strerror or error}",
            code="slurm_missing",
            hint="install Slurm's commands (slurm-client), or run this where they are",
        ) from None
    with process:
        try:
            out, err = process.communicate(stdin, timeout=timeout_s)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            # Something that has left the session may still hold the pipes: it is not waited for.
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.communicate(timeout=1.0)
            raise _unreachable(argv, f"no answer within {timeout_s:g} s") from None
    said = err.decode(errors="replace").strip()
    if process.returncode not in fine:
        raise refusal(argv, process.returncode, said)
    if not out and _DOWN.search(said):
        raise _unreachable(argv, said)
    return Said(out.decode(errors="replace"), said)


def environment(conf: str | None, *, read: bool) -> Mapping[str, str]:
    """The environment of a command: nothing of ours but where Slurm is."""
    own = {"PATH": f"{os.environ.get('PATH', '')}:{_PATH}".strip(":"), "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8"}
    own["HOME"] = os.path.expanduser("~")
    used = conf or os.environ.get("SLURM_CONF")
    if used:
        own["SLURM_CONF"] = used
    if read:
        own |= {"TZ": "UTC", "SLURM_TIME_FORMAT": "%s", "SLURM_BITSTR_LEN": "0"}
    return own


def refusal(argv: Sequence[str], code: int, said: str) -> StepwardError:
    """The error that a command's failure means."""
    words = _last_words(said) or f"exit code {code}"
    # Of a submission the same words are about its own array.
    if argv[0] != "sbatch" and _NO_JOB.search(said):
        return NotFound(
            f"Slurm knows no such job: {words}",
            code="unknown_job",
            hint="it may have ended long ago: accounting (sacct) remembers longer than the controller",
        )
    if _NO_ACCOUNTING.search(said):
        return Conflict(
            "this Slurm keeps no accounting",
            code="slurm_no_accounting",
            hint="set AccountingStorageType=accounting_storage/slurmdbd to know of jobs that have ended",
        )
    if _DOWN.search(said):
        return _unreachable(argv, words)
    return Conflict(f"Slurm refused: {words}", code="slurm_refused", hint=f"what {argv[0]} said; docs/jobs.md")


def _unreachable(argv: Sequence[str], words: str) -> Unavailable:
    if "configuration source" in words:
        # What it says itself is about the DNS records of a site that keeps its configuration there.
        return Unavailable(
            f"no Slurm is configured on this host: {argv[0]} finds no slurm.conf",
            code="slurm_unreachable",
            hint="--cluster NAME asks one that stepward made (`stepward cluster list`); SLURM_CONF names any other",
        )
    return Unavailable(
        f"Slurm does not answer {argv[0]}: {_last_words(words)}",
        code="slurm_unreachable",
        hint="is slurmctld up (scontrol ping), and for accounting slurmdbd? SLURM_CONF names the cluster",
        retry_after_s=5.0,
    )


def _last_words(said: str) -> str:
    """The lines that say something, without the command's own prefix."""
    lines = [re.sub(r"^\w+: (?:error|fatal|debug\d?|info): ", "", line).strip() for line in said.splitlines()]
    return "; ".join(dict.fromkeys(line for line in lines if line))[-400:]
