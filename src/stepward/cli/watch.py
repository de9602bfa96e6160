"""``stepward watch``: runs as they change; one run with sparklines of its metrics until it has ended.

On a terminal the picture is redrawn in place, at most once a second; in a file or pipe, and with ``--format json`` or
``csv``, one line is printed for each change.
"""

import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from stepward.cli.connection import ProjectOption, connect, find_run
from stepward.cli.figures import figure
from stepward.cli.ls import columns
from stepward.cli.show import SAMPLED
from stepward.cli.table import Format, FormatOption, terminal, write_csv, write_json
from stepward.cli.text import safe
from stepward.client.live import Away, Live
from stepward.errors import Unavailable
from stepward.model.resources import Run
from stepward.model.states import State

if TYPE_CHECKING:
    from stepward.cli.views import View

app = typer.Typer()

REDRAW_S = 1.0
_METRICS = {Format.JSON: ["*"], Format.CSV: []}
"""Newest values that the lines need; of a table or a line of text the server's choice will do."""


@app.command()
def watch(
    *,
    run: Annotated[
        str | None, typer.Argument(metavar="RUN", help="One run, until it has ended. Default: all runs, until Ctrl-C.")
    ] = None,
    project: ProjectOption = None,
    filter: Annotated[str | None, typer.Option("--filter", "-f", help="Only runs that match, as in `ls`.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=500, help="Runs at most.")] = 20,
    exit_code: Annotated[bool, typer.Option("--exit-code", help="End with 1 unless the run has finished.")] = False,
    output: FormatOption = Format.TABLE,
) -> None:
    """Watch runs change; a single run until it has ended."""
    from stepward.cli.views import AllRuns, OneRun

    client = connect()
    drawn = output is Format.TABLE and sys.stdout.isatty()
    one = OneRun(client, find_run(client, run), sparks=drawn) if run else None
    view: View = one or AllRuns(client, project, filter, limit, metrics=_METRICS.get(output))
    live = client.live(run=[one.run.id]) if one else client.live(runs=True)
    if drawn:
        _draw(view, live)
    else:
        _tell(view, live, output)
    if exit_code and one and one.run.state is not State.FINISHED:
        raise typer.Exit(1)


def _changes(view: "View", live: Live) -> Iterator[tuple[list[Run], Away | None]]:
    """The runs that changed and whether the stream is down, at least once a ``REDRAW_S``, until the view is over."""
    away = None
    while True:
        until = time.monotonic() + REDRAW_S
        while (left := until - time.monotonic()) > 0:
            update = live.next(left)
            if update is not None:
                away = update if isinstance(update, Away) else None
                view.take(update)
        changed: list[Run] = []
        try:
            changed = view.refresh() if away is None else []
        except Unavailable as error:
            away = Away(error, REDRAW_S)
        yield changed, away
        if view.over and away is None:
            return


def _draw(view: "View", live: Live) -> None:
    """Redraw the picture in place."""
    from rich.console import Group
    from rich.live import Live as Screen
    from rich.text import Text

    out = terminal()
    with Screen(console=out, auto_refresh=False, vertical_overflow="crop") as screen:
        for _, away in _changes(view, live):
            lines = view.lines(out.width, time.time())
            if away:
                lines.append(Text(f"no answer: {safe(away.error.message)}; trying again", style="yellow"))
            screen.update(Group(*lines), refresh=True)


def _tell(view: "View", live: Live, output: Format) -> None:
    """Print a line for each change."""
    first = True
    for runs, _ in _changes(view, live):
        for run in runs:
            if output is Format.JSON:
                write_json(run, indent=0)
            elif output is Format.CSV:
                write_csv(columns(time.time(), []), [run], head=first)
            else:
                print(_line(run))
            first = False
        sys.stdout.flush()


def _line(run: Run) -> str:
    """What changed, on one line: newest state, step and up to four values that the user logged."""
    logged = sorted(name for name in run.latest if not name.startswith(SAMPLED))[:4]
    values = "  ".join(f"{safe(name)} {figure(run.latest[name].value)}" for name in logged)
    step = "" if run.step is None else f"  step {run.step}"
    return f"{time.strftime('%H:%M:%S')}  {safe(run.name)}  {run.state.value}{step}  {values}".rstrip()
