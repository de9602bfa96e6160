"""``stepward``: finds the command, loads its module alone, and turns every error into one line and an exit code.

No command's module is imported before it is called, so that ``stepward ls`` does not pay for ``stepward up``. The
boundary in ``main`` is the only place where errors become text: a message and a code, a hint below it, never a
traceback (``STEPWARD_TRACEBACK=1`` shows one). Exit codes are those of ``stepward.errors.OUTCOMES``.
"""

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import typer
from typer.core import TyperGroup

from stepward.cli.text import safe
from stepward.errors import StepwardError, exit_code

if TYPE_CHECKING:
    from typer.core import TyperCommand

INTERRUPTED = 130
"""128 + SIGINT, as shells report it."""
BROKEN_PIPE = 141
"""128 + SIGPIPE: the reader of our output has gone, which is no error of ours."""


class Place(NamedTuple):
    """Where a command lives: module and name of its ``typer.Typer``, and the panel of ``--help`` that lists it."""

    module: str
    panel: str
    attribute: str = "app"


_RUNS, _SERVER, _HERE = "Runs", "Server", "This machine"
COMMANDS: dict[str, Place] = {
    "run": Place("stepward.cli.run", _RUNS),
    "ls": Place("stepward.cli.ls", _RUNS),
    "show": Place("stepward.cli.show", _RUNS),
    "watch": Place("stepward.cli.watch", _RUNS),
    "logs": Place("stepward.cli.logs", _RUNS),
    "diff": Place("stepward.cli.diff", _RUNS),
    "events": Place("stepward.cli.events", _RUNS),
    "reprocess": Place("stepward.cli.reprocess", _SERVER),
    "diagnose": Place("stepward.cli.diagnose", _RUNS),
    "goodput": Place("stepward.cli.goodput", _RUNS),
    "export": Place("stepward.cli.export", _RUNS),
    "import": Place("stepward.cli.imports", _RUNS),
    "up": Place("stepward.cli.up", _SERVER),
    "demo": Place("stepward.cli.demo", _SERVER),
    "project": Place("stepward.cli.project", _SERVER),
    "cluster": Place("stepward.cli.cluster", _SERVER),
    "nodes": Place("stepward.cli.nodes", _SERVER),
    "jobs": Place("stepward.cli.jobs", _SERVER),
    "notices": Place("stepward.cli.notices", _SERVER),
    "token": Place("stepward.cli.token", _SERVER),
    "backup": Place("stepward.cli.backup", _SERVER),
    "restore": Place("stepward.cli.restore", _SERVER),
    "login": Place("stepward.cli.login", _HERE),
    "agent": Place("stepward.cli.agent", _HERE),
    "sync": Place("stepward.cli.sync", _HERE),
    "doctor": Place("stepward.cli.doctor", _HERE),
    "version": Place("stepward.cli.version", _HERE),
}


class Commands(TyperGroup):
    """A group whose commands are imported when they are asked for."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        # Only the names are needed before a command is called: to list and to suggest them.
        self.commands = dict.fromkeys(COMMANDS)  # type: ignore[assignment]

    def get_command(self, ctx: Any, cmd_name: str) -> "TyperCommand | TyperGroup | None":
        """The command, from its own module."""
        place = COMMANDS.get(cmd_name)
        if place is None:
            return None
        command: Any = typer.main.get_command(getattr(import_module(place.module), place.attribute))
        command.name, command.rich_help_panel = cmd_name, place.panel
        # Every ``Typer`` brings the options that install completion; they belong to the root alone.
        command.params = [one for one in command.params if not one.name.endswith("_completion")]
        return command  # type: ignore[no-any-return]


app = typer.Typer(
    cls=Commands,
    name="stepward",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def _root() -> None:
    """Keeps ML training runs healthy, fast and explained."""


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line and end the process with its exit code."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character gets an escape, not a traceback.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    sys.exit(outcome(sys.argv[1:] if argv is None else argv))


def outcome(argv: Sequence[str]) -> int:
    """Run a command and report its failure on stderr; the exit code."""
    try:
        code = app(args=list(argv), prog_name="stepward", standalone_mode=False)
        sys.stdout.flush()
    except SystemExit as ending:
        if isinstance(ending.__context__, BrokenPipeError):
            # typer answers a broken pipe by itself, with a 1 that says nothing.
            return report(ending.__context__)
        raise
    except (Exception, KeyboardInterrupt) as error:
        if os.environ.get("STEPWARD_TRACEBACK"):
            raise
        return report(error)
    return code if isinstance(code, int) else 0


def report(error: BaseException) -> int:
    """Say on stderr what went wrong and what to do about it; the exit code that stands for it."""
    if isinstance(error, (KeyboardInterrupt, typer.Abort)):
        return INTERRUPTED
    if isinstance(error, BrokenPipeError):
        # The interpreter flushes stdout once more at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    message, code, hint, status = _words(error)
    if message:
        lines = [f"error: {safe(message)} [{safe(code)}]", *([f"hint: {safe(hint)}"] if hint else [])]
        print("\n".join(lines), file=sys.stderr)
    return status


def _words(error: BaseException) -> tuple[str, str, str | None, int]:
    """Message, code, hint and exit code of an error."""
    if isinstance(error, StepwardError):
        return error.message, error.code, error.hint, exit_code(error)
    if isinstance(error, typer.TyperException):
        context = getattr(error, "ctx", None)
        where = f"{context.command_path} --help" if context is not None else "stepward --help"
        # No message: the command was called without arguments, and its help has been printed.
        return error.format_message().rstrip("."), "usage", where, 2
    if isinstance(error, OSError):
        return f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}", "os_error", None, 1
    hint = "this is a fault of stepward; STEPWARD_TRACEBACK=1 shows where it arose"
    return f"{type(error).__name__}: {error}", "internal", hint, 1
