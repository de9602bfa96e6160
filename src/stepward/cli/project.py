"""``stepward project``: the projects, and how long each keeps the runs that have ended."""

import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from stepward.cli.connection import connect
from stepward.cli.figures import ago, lasting
from stepward.cli.table import Column, Format, FormatOption, show, write_json
from stepward.cli.text import plain, safe
from stepward.cli.token import span
from stepward.model.resources import Project, ProjectChange

app = typer.Typer(help="List projects; set how long they keep ended runs.", no_args_is_help=True)

FOR_EVER = "never"


@app.command("ls")
def ls(output: FormatOption = Format.TABLE) -> None:
    """List the projects."""
    now = time.time()
    columns: list[Column[Project]] = [
        Column("name", lambda project: project.name, flexible=True),
        Column("runs", lambda project: project.runs, right=True),
        Column("live", lambda project: project.live, right=True),
        Column("retention_s", lambda project: project.retention_s, kept, right=True, title="KEEPS"),
        Column("expired", lambda project: project.expired, right=True),
        Column("created_at", lambda project: project.created_at, lambda one: ago(one.created_at, now), right=True),
    ]
    show(output, columns, connect().projects(), empty="no projects yet")


@app.command("set")
def set_(
    *,
    project: Annotated[str, typer.Argument(metavar="NAME", help="Name of the project.")],
    retention: Annotated[
        str, typer.Option(help=f"Delete runs that ended longer ago: 12h, 90d; `{FOR_EVER}` deletes nothing.")
    ],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say how many runs that would delete now.")] = False,
    output: FormatOption = Format.TABLE,
) -> None:
    """Set how long a project keeps ended runs (admin only)."""
    change = ProjectChange(retention_s=None if retention == FOR_EVER else span(retention))
    changed = connect().change_project(project, change, dry_run=dry_run)
    if output is Format.JSON:
        write_json(changed)
        return
    would, deletes = ("would keep", "would delete") if dry_run else ("keeps", "deletes")
    runs = "1 run" if changed.expired == 1 else f"{changed.expired} runs"
    print(f"{safe(changed.name)} {would} ended runs {kept(changed)}; that {deletes} {runs} now")


@app.command("rules")
def rules(
    project: Annotated[str, typer.Argument(metavar="NAME", help="Name of the project.")],
    file: Annotated[
        str | None, typer.Argument(metavar="FILE", help="TOML that takes the place of all rules; `-` reads stdin.")
    ] = None,
    *,
    output: FormatOption = Format.TABLE,
) -> None:
    """Show the rules by which a project judges metrics, or put those of a file in their place."""
    client = connect()
    if file is None:
        found = client.rules(project)
        if output is Format.JSON:
            write_json(found)
        elif found.text:
            print("\n".join(plain(line) for line in found.text.splitlines()))
        else:
            print("no rules; docs/detect.md shows how to write some", file=sys.stderr)
        return
    text = sys.stdin.read() if file == "-" else Path(file).read_text("utf-8")
    changed = client.change_rules(project, text)
    if output is Format.JSON:
        write_json(changed)
    else:
        print(f"{safe(project)} has {len(changed.names)} rules: {safe(', '.join(changed.names)) or 'none'}")


def kept(project: Project) -> str:
    """How long a project keeps the runs that have ended."""
    return "for ever" if project.retention_s is None else lasting(project.retention_s)
