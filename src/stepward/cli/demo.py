"""``stepward demo``: a real training job that breaks, in a server of its own."""

import os
from typing import Annotated

import typer

from stepward.cli.extra import needs

app = typer.Typer()


@app.command()
def demo(
    seed: Annotated[int | None, typer.Option(help="Picks fault, rank and step. Default: by chance.")] = None,
    once: Annotated[bool, typer.Option("--once", help="End after the story, as DEMO_ONCE=1 does.")] = False,
    port: Annotated[int | None, typer.Option(help="Port of the server. Default: 7070, or a free one.")] = None,
    data: Annotated[str | None, typer.Option(help="Keep everything in this folder. Default: a temporary one.")] = None,
    steps: Annotated[int, typer.Option(min=60, help="Training steps.")] = 600,
) -> None:
    """Train a small model that something will befall, and see who knows the truth."""
    with needs("demo"):
        from stepward.demo.story import Options, tell

    once = once or os.environ.get("DEMO_ONCE") == "1"
    raise typer.Exit(tell(Options(seed=seed, once=once, port=port, data=data, steps=steps)))
