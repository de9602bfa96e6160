"""The reference of all commands and options, as Markdown made from the commands themselves.

``docs/cli.md`` holds it between two marks; a test compares, and ``python -m stepward.cli.reference docs/cli.md`` writes it.
"""

import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import typer

from stepward.cli.app import app

BEGIN, END = "<!-- begin of the generated reference -->", "<!-- end of the generated reference -->"


class Parameter(NamedTuple):
    """An argument or option: how it is written, and what it means."""

    written: str
    help: str


class Command(NamedTuple):
    """A command as it is typed, what it does, and its parameters; a group is one where it may be called by itself."""

    path: str
    help: str
    parameters: list[Parameter]


def commands() -> list[Command]:
    """Every command with all its parameters, in the order of ``stepward --help``."""
    root: Any = typer.main.get_command(app)
    return list(_walk(root, "stepward"))


def markdown() -> str:
    """The generated part of ``docs/cli.md``, marks included."""
    parts = [BEGIN]
    for command in commands():
        parts.append(f"### `{command.path}`\n\n{command.help}")
        if command.parameters:
            rows = [f"| `{one.written}` | {one.help} |" for one in command.parameters]
            parts.append("\n".join(["| | |", "| --- | --- |", *rows]))
    return "\n\n".join([*parts, END])


def put_into(page: str) -> str:
    """A page with its generated part renewed."""
    head, rest = page.split(BEGIN)
    return head + markdown() + rest.split(END)[1]


def _walk(command: Any, path: str) -> Iterator[Command]:
    context = typer.Context(command)
    names = command.list_commands(context) if hasattr(command, "list_commands") else []
    if not names or command.invoke_without_command:
        records = [one.get_help_record(context) for one in command.params]
        found = [Parameter(_one_line(record[0]), _one_line(record[1])) for record in records if record]
        yield Command(path, _one_line(command.help), found)
    for name in names:
        yield from _walk(command.get_command(context, name), f"{path} {name}")


def _one_line(text: str | None) -> str:
    return " ".join((text or "").split()).replace("|", "\\|")


def main() -> None:
    """Renew the generated part of the file that is named."""
    with open(sys.argv[1], encoding="utf-8") as file:
        page = file.read()
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        file.write(put_into(page))


if __name__ == "__main__":
    main()
