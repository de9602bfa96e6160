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
    cluster: Annotated[
        str | None,
        typer.Option(
            "--cluster",
            metavar="NAME",
            help="Check the settings of a Slurm instead: a cluster made here, or `host`, the Slurm of this machine.",
        ),
    ] = None,
    exit_code: Annotated[bool, typer.Option("--exit-code", help="End with 1 where something is bad.")] = False,
    output: FormatOption = Format.TABLE,
) -> None:
    """Check server, token, versions, clock, spool, data folder, extras, devices and cgroup; or the settings of a Slurm."""
    checks = list(examine(load())) if cluster is None else _of_slurm(cluster)
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


def _of_slurm(name: str) -> list[Check]:
    from stepward.cli.slurm_checks import examine_slurm

    return examine_slurm(name)


def _print(checks: list[Check]) -> None:
    """A line a check, nothing cut: what was found is the answer."""
    from rich.text import Text

    from stepward.cli.table import terminal
    from stepward.cli.text import safe

    out = terminal()
    wide = max([9, *(len(check.name) for check in checks)])
    for check in checks:
        line = Text.assemble(
            (f"{check.status:<5}", _COLOURS[check.status]), f"{check.name:<{wide}} {safe(check.found)}"
        )
        out.print(line, soft_wrap=True)
        if check.advice:
            out.print(Text(f"{'':<{wide + 6}}→ {safe(check.advice)}"), soft_wrap=True)
