"""``stepward restore``: a data folder from a backup, while no server runs on it."""

from typing import Annotated

import typer

from stepward.cli.extra import needs
from stepward.cli.text import safe

app = typer.Typer()


@app.command()
def restore(
    archive: Annotated[str, typer.Argument(metavar="BACKUP", help="Folder that `stepward backup` wrote.")],
    data: Annotated[str, typer.Option(metavar="DIR", help="Data folder to make: new or empty.")],
) -> None:
    """Put a backup back into a new data folder."""
    with needs("server"):
        from stepward.server.backup import restore as put_back

    put_back(archive, data)
    print(f"restored; start the server on it with `stepward up --data {safe(data)}`")
