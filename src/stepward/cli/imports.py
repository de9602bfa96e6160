"""``stepward import``: exported points, or TensorBoard's event files, become runs. They go through the spool, like any run."""

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from stepward.cli.sync import lines
from stepward.cli.text import safe
from stepward.errors import OUTCOMES, Unavailable
from stepward.settings import Settings, load

if TYPE_CHECKING:
    from stepward.importers.journaled import JournaledRun
    from stepward.importers.tensorboard import EventFile

app = typer.Typer(no_args_is_help=True)
ProjectOption = Annotated[str | None, typer.Option("--project", "-p", help="Project of the new runs.")]
FOLLOW_S = 2.0
"""Seconds between two looks at event files that may grow."""


@app.callback()
def import_points() -> None:
    """Make runs of what other programs, or an export, have written."""


@app.command("parquet")
def import_parquet(
    file: Annotated[str, typer.Argument(metavar="FILE", help="What `stepward export --format parquet` wrote.")],
    name: Annotated[str | None, typer.Option(help="Name of the new run. Default: the file's.")] = None,
    project: ProjectOption = None,
) -> None:
    """Make a run of an exported Parquet file."""
    import os

    from stepward.importers.journaled import JournaledRun
    from stepward.importers.parquet import read_parquet

    settings = load(project=project)
    with JournaledRun(settings, name or os.path.basename(file).removesuffix(".parquet")) as run:
        for point in read_parquet(file):
            run.add(point)
    typer.echo(f"{run.run}: {run.points} points")
    _deliver(settings, [run.run])


@app.command("tensorboard")
def import_tensorboard(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="Folder of event files, at any depth.")],
    project: ProjectOption = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as the files grow, until Ctrl-C.")] = False,
) -> None:
    """Make a run of each folder of TensorBoard event files."""
    settings = load(project=project)
    runs, files = _followed(settings, folder) if follow else _read(settings, folder)
    for run in runs:
        typer.echo(f"{run.run}: {run.points} points of {safe(run.name)}")
    for file in files:
        if file.damaged:
            typer.echo(f"{safe(file.path)}: {file.damaged}; what follows was not read", err=True)
    _deliver(settings, [run.run for run in runs])


def _read(settings: Settings, folder: str) -> "tuple[list[JournaledRun], list[EventFile]]":
    from contextlib import ExitStack

    from stepward.importers.journaled import JournaledRun
    from stepward.importers.tensorboard import EventFile, folders

    runs, files = [], []
    with ExitStack() as open_runs:
        for each in folders(folder):
            run = open_runs.enter_context(JournaledRun(settings, each.name))
            runs.append(run)
            for file in map(EventFile, each.files):
                files.append(file)
                for point in file.read():
                    run.add(point)
    return runs, files


def _followed(settings: Settings, folder: str) -> "tuple[list[JournaledRun], list[EventFile]]":
    from stepward.importers.following import Follower

    with Follower(settings, folder) as follower:
        try:
            while True:
                follower.turn()
                time.sleep(FOLLOW_S)
        except KeyboardInterrupt:
            pass
    return follower.runs, follower.files


def _deliver(settings: Settings, runs: Iterable[str]) -> None:
    """Deliver what was imported; ends with 75 where something remains in the spool."""
    from stepward.spool.sync import SyncReport, sync

    total = SyncReport()
    for run in runs:
        report = sync(settings, run=run)
        total.runs += report.runs
        total.frames += report.frames
        total.bytes += report.bytes
        total.left_bytes += report.left_bytes
        total.problem = report.problem or total.problem
    typer.echo("\n".join(lines(total)))
    if total.left_bytes:
        raise typer.Exit(OUTCOMES[Unavailable][1])
