"""From what was typed after ``stepward jobs submit`` to a submission."""

import os

import msgspec

from stepward.errors import UsageError
from stepward.model.jobs import JobSubmission
from stepward.orchestrators.slurm.submission import named_in


def submission(what: list[str], env: list[str], options: JobSubmission) -> JobSubmission:
    """The submission of a script or command; the working folder is this one where none is named.

    A single file that begins with ``#!`` is a batch script; anything else is a command with its arguments.

    Raises:
        UsageError: ``bad_env``, ``bad_script``.
    """
    script = _script(what[0]) if len(what) == 1 else None
    return msgspec.structs.replace(
        options,
        script=script,
        command=None if script is not None else what,
        name=options.name or _file_name(what[0], script),
        workdir=os.path.abspath(options.workdir or "."),
        env=dict(_variable(one) for one in env),
    )


def _file_name(path: str, script: str | None) -> str | None:
    """A script that does not name its job is known by its file, as sbatch would have it."""
    return os.path.basename(path) if script is not None and named_in(script) is None else None


def _script(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        if "/" in path or path.endswith((".sh", ".sbatch", ".slurm")):
            reason = error.strerror if isinstance(error, OSError) else "it is no text"
            raise UsageError(f"{path} cannot be read as a script: {reason}", code="bad_script") from None
        return None
    return text if text.startswith("#!") else None


def _variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if equals:
        return name, value
    if name not in os.environ:
        raise UsageError(f"--env {text}: there is no such variable here", code="bad_env", hint="NAME, or NAME=VALUE")
    return name, os.environ[name]
