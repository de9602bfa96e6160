"""``stepward events``: what detectors saw in all runs, all that happened in one, and what comes."""

import sys
import time
from collections.abc import Iterable
from typing import Annotated

import typer

from stepward.cli.connection import ProjectOption, connect, find_run
from stepward.cli.figures import ago, between
from stepward.cli.table import Column, Format, FormatOption, show, terminal, write_csv, write_json
from stepward.cli.text import safe
from stepward.client.api import Client
from stepward.client.live import Opened
from stepward.model.resources import Run, RunEvent
from stepward.model.updates import EventsUpdate, RunUpdate

app = typer.Typer()

PAGE = 500
QUIET_S = 3.0
"""How long after its end a run is still listened to: detectors speak a little later than it ends."""
WITHDRAWN = "withdrawn"
_SEVERITIES = {"critical": "bold red", "warning": "yellow"}
_CERTAINTIES = {"suspected": "dim", WITHDRAWN: "dim"}
Filters = dict[str, str | None]


@app.command()
def events(
    *,
    run: Annotated[
        str | None, typer.Argument(metavar="RUN", help="One run. Default: what detectors saw in all.")
    ] = None,
    project: ProjectOption = None,
    type: Annotated[str | None, typer.Option("--type", "-t", help="Types: hang,straggler.")] = None,
    certainty: Annotated[str | None, typer.Option(help="suspected, confirmed, withdrawn; several by commas.")] = None,
    severity: Annotated[str | None, typer.Option(help="info, warning, critical; several by commas.")] = None,
    since: Annotated[str | None, typer.Option(help="Only those that lasted within: 90m, 24h, 7d.")] = None,
    everything: Annotated[
        bool, typer.Option("--all", "-a", help="Also what the run's processes, wrapper and watcher reported.")
    ] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Events at most.")] = 100,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with what comes; of a run, until it ends.")
    ] = False,
    output: FormatOption = Format.TABLE,
) -> None:
    """List events, newest first; `--follow` prints them, and each change of them, as they come."""
    client = connect()
    filters: Filters = {"type": type, "certainty": certainty, "severity": severity, "since": since}
    filters |= {"project": project, "by": "all" if everything else "detectors"}
    one = None if run is None else find_run(client, run)
    if follow:
        if everything and one is None:
            raise typer.BadParameter("--all with --follow needs a RUN")
        Following(client, one, filters, output).until_the_end()
        return
    found = _newest(client, one, filters, limit)
    show(output, columns(time.time(), of_run=one is not None), found, empty="no events")


def columns(now: float, *, of_run: bool) -> list[Column[RunEvent]]:
    """The columns of a list of events, seen at ``now`` (seconds since the epoch)."""
    names: list[Column[RunEvent]] = [
        Column("run", lambda event: event.run, lambda event: event.run_name or event.run or "-", flexible=True)
    ]
    return [
        Column("started_at", lambda event: event.started_at, lambda event: ago(event.started_at, now), title="WHEN"),
        *([] if of_run else names),
        Column("type", lambda event: event.type, style=_style),
        Column("certainty", lambda event: event.certainty, style=_style),
        Column("severity", lambda event: event.severity, style=_style, spare=True),
        Column("step", lambda event: event.step, right=True),
        Column("ranks", lambda event: event.ranks, lambda event: _few(event.ranks), spare=True),
        Column("nodes", lambda event: event.nodes, lambda event: _few(event.nodes), spare=True),
        Column("ended_at", lambda event: event.ended_at, lambda event: lasted(event, now), title="LASTS", right=True),
        Column("title", lambda event: event.title, flexible=True),
        Column("id", lambda event: event.id, spare=True),
    ]


def lasted(event: RunEvent, now: float) -> str:
    """How long an event lasted, or has lasted up to now."""
    if event.ended_at is not None:
        return between(event.started_at, event.ended_at, now)
    if event.detector is None or event.certainty == WITHDRAWN:
        return "-"
    return f"{between(event.started_at, None, now)}…"


class Following:
    """Events as they come; each is printed again when its certainty changes or it ends."""

    def __init__(self, client: Client, run: Run | None, filters: Filters, output: Format) -> None:
        self._client, self._run, self._filters, self._output = client, run, filters, output
        self._seen: dict[tuple[str, str], RunEvent] = {}

    def until_the_end(self) -> None:
        """Print until the run has ended and nothing more comes; of all runs, until Ctrl-C."""
        one = self._run
        live = self._client.live(run=[one.id]) if one else self._client.live(events=True)
        ended = False
        while not ended:
            update = live.next(QUIET_S)
            if isinstance(update, Opened | EventsUpdate):
                self._print(reversed(_newest(self._client, one, self._filters, PAGE if one else 100)))
            if isinstance(update, EventsUpdate):
                self._print(self._withdrawn(update))
            if isinstance(update, RunUpdate) and one is not None and update.run.id == one.id:
                one.state = update.run.state
            if isinstance(update, Opened) and one is not None:
                one.state = self._client.run(one.id).state
            ended = one is not None and update is None and one.state.terminal

    def _withdrawn(self, update: EventsUpdate) -> list[RunEvent]:
        """Those that were printed and are taken back now; the list of events has them no more."""
        gone = []
        for event in update.events:
            known = self._seen.get((update.run, event.id))
            if event.certainty == WITHDRAWN and known is not None:
                event.run, event.run_name = update.run, known.run_name
                gone.append(event)
        return gone

    def _print(self, events: Iterable[RunEvent]) -> None:
        for event in events:
            key = (event.run or "", event.id)
            known, self._seen[key] = self._seen.get(key), event
            if known is None or (known.certainty, known.ended_at) != (event.certainty, event.ended_at):
                self._tell(event)
        sys.stdout.flush()

    def _tell(self, event: RunEvent) -> None:
        if self._output is Format.JSON:
            write_json(event, indent=0)
        elif self._output is Format.CSV:
            write_csv(columns(time.time(), of_run=self._run is not None), [event], head=len(self._seen) == 1)
        else:
            terminal().print(_line(event, of_run=self._run is not None), style=_style(event), soft_wrap=True)


def _newest(client: Client, run: Run | None, filters: Filters, limit: int) -> list[RunEvent]:
    found: list[RunEvent] = []
    cursor = None
    while len(found) < limit:
        asked = {**filters, "run": run.id if run else None}
        page = client.all_events(limit=min(limit - len(found), PAGE), cursor=cursor, **asked)
        found += page.items
        cursor = page.next
        if cursor is None:
            break
    return found


def _line(event: RunEvent, *, of_run: bool) -> str:
    run = "" if of_run else f"{event.run_name or event.run}: "
    ended = ", over" if event.ended_at is not None and event.detector is not None else ""
    told = f" ({event.certainty}{ended})" if event.certainty else ""
    return safe(f"{event.started_at[:19]}Z {run}{event.type}{told}: {event.title}")


def _few(values: list[int] | list[str]) -> str:
    shown = " ".join(str(value) for value in values[:4])
    return f"{shown} +{len(values) - 4}" if len(values) > 4 else shown or "-"


def _style(event: RunEvent) -> str:
    return _CERTAINTIES.get(event.certainty or "") or _SEVERITIES.get(event.severity or "", "")
