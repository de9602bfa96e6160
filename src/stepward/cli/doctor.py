"""``stepward doctor``: can this machine send its runs to the server, and if not, why. Works from a compute node too."""

from typing import Annotated

import typer

from stepward.cli.checks import Check, Status, examine
from stepward.cli.table import Column, Format, FormatOption, show
from stepward.settings import load

app = typer.Typer()

_COLOURS: dict[Status, str] = {"ok": "green", "warn": "yellow", "bad": "bold red"}


@app.command()
def doctor(
    exit_code: Annotated[bool, typer.Option("--exit-code", help="End with 1 where something is bad.")] = False,
    output: FormatOption = Format.TABLE,
) -> None:
    """Check server, token, versions, clock, spool, data folder, extras, devices and cgroup."""
    checks = list(examine(load()))
    columns: list[Column[Check]] = [
        Column("name", lambda check: check.name, title="CHECK"),
        Column("status", lambda check: check.status, style=lambda check: _COLOURS[check.status]),
        Column("found", lambda check: check.found),
        Column("advice", lambda check: check.advice, lambda check: check.advice or "", title="WHAT TO DO"),
    ]
    if output is Format.TABLE:
        _print(checks)
    else:
        show(output, columns, checks)
    if exit_code and any(check.status == "bad" for check in checks):
        raise typer.Exit(1)


def _print(checks: list[Check]) -> None:
    """A line a check, nothing cut: what was found is the answer."""
    from rich.text import Text

    from stepward.cli.table import terminal
    from stepward.cli.text import safe

    out = terminal()
    for check in checks:
        line = Text.assemble((f"{check.status:<5}", _COLOURS[check.status]), f"{check.name:<9} {safe(check.found)}")
        out.print(line, soft_wrap=True)
        if check.advice:
            out.print(Text(f"{'':<15}→ {safe(check.advice)}"), soft_wrap=True)
