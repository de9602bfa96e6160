"""``stepward backup``: a consistent copy of the server's data, taken while it runs."""

from typing import Annotated

import typer

from stepward.cli.connection import connect
from stepward.cli.figures import size
from stepward.cli.table import Format, FormatOption, write_json
from stepward.cli.text import safe

app = typer.Typer()


@app.command()
def backup(
    path: Annotated[
        str | None, typer.Option(help="New folder on the server's disk. Default: in backups/ of its data folder.")
    ] = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """Back the server up, on its own disk (admin only)."""
    done = connect().backup(path)
    if output is Format.JSON:
        write_json(done)
    else:
        print(f"{safe(done.path)}  {size(done.bytes)}")
