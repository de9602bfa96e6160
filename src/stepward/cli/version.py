"""``stepward version``: what is installed here; ``doctor`` compares it with the server."""

import typer

from stepward import __version__

app = typer.Typer()


@app.command()
def version() -> None:
    """Print the version of stepward on this machine."""
    print(__version__)
