"""What git says about the code that runs: commit, branch, remote, and the uncommitted difference up to 256 KiB.

Asked in the background thread by the ``git`` command; no git, no repository or a slow one means no facts, never a wait
for the training loop. Remotes and differences leave without credentials (``secrets``).
"""

import os
from typing import IO, Any

from stepward.sdk.secrets import mask_text

MAX_DIFF_BYTES = 256 << 10
TIMEOUT_S = 10.0


def read_git(folder: str) -> dict[str, Any] | None:
    """Facts about the working tree that ``folder`` is in; None outside of one."""
    commit = _ask(folder, "rev-parse", "HEAD")
    if commit is None:
        return None
    diff = _run(folder, MAX_DIFF_BYTES + 1, "diff", "HEAD", "--no-color", "--no-ext-diff", "--no-textconv")
    facts = {
        "commit": commit,
        "branch": _ask(folder, "rev-parse", "--abbrev-ref", "HEAD"),
        "remote": mask_text(_ask(folder, "remote", "get-url", "origin") or "") or None,
        "dirty": bool(diff),
    }
    if diff:
        facts["diff"] = mask_text(diff[:MAX_DIFF_BYTES].decode("utf-8", "replace"))
        facts["diff_cut"] = len(diff) > MAX_DIFF_BYTES
    return {key: value for key, value in facts.items() if value is not None}


def _ask(folder: str, *arguments: str) -> str | None:
    answer = _run(folder, 4096, *arguments)
    return answer.decode("utf-8", "replace").strip() or None if answer is not None else None


def _run(folder: str, limit: int, *arguments: str) -> bytes | None:
    """The first ``limit`` bytes that a git command prints; None when it fails, or takes longer than the time-out."""
    # Imported on use, in the background thread (rule 4 of ARCHITECTURE.md).
    import subprocess
    from threading import Timer

    # GIT_OPTIONAL_LOCKS: looking at a repository never blocks its owner.
    environ = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"}
    try:
        process = subprocess.Popen(
            ["git", "-C", folder, *arguments],
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
    except OSError:
        return None
    timer = Timer(TIMEOUT_S, process.kill)
    timer.daemon = True
    timer.start()
    try:
        answer = _read(process.stdout, limit)
        if len(answer) >= limit:
            process.kill()
            process.wait()
            return answer
        return answer if process.wait() == 0 else None
    finally:
        timer.cancel()


def _read(stream: IO[bytes] | None, limit: int) -> bytes:
    if stream is None:
        return b""
    with stream:
        return stream.read(limit)
