"""``stepward notices``: where notices go, what was told, and what is not to be told for a while."""

import time
from typing import Annotated

import typer

from stepward.cli.connection import connect
from stepward.cli.figures import ago
from stepward.cli.table import Column, Format, FormatOption, write_csv, write_json, write_table
from stepward.cli.text import safe
from stepward.cli.token import span
from stepward.errors import Unavailable, UsageError
from stepward.model.notices import KnownRoute, NewSilence, Notice, Silence

app = typer.Typer(help="Notices by webhook and command (docs/notices.md).", no_args_is_help=True)


@app.command("ls")
def ls(
    output: FormatOption = Format.TABLE,
    last: Annotated[int, typer.Option(help="How many of the newest messages.")] = 20,
) -> None:
    """Show the newest messages; as a table also the routes and silences."""
    client, now = connect(), time.time()
    told = client.notices(limit=last)
    if output is Format.JSON:
        write_json(told)
    elif output is Format.CSV:
        write_csv(_messages(now), told)
    else:
        routes, silences = client.notice_routes(), client.silences()
        if not routes:
            print("no routes: docs/notices.md says how to make one")
        else:
            write_table(_ROUTES, routes)
        for columns, rows in ((_SILENCES, silences), (_messages(now), told)):
            if rows:
                print()
                write_table(columns, rows)  # type: ignore[arg-type]


@app.command()
def test(route: Annotated[str, typer.Argument(metavar="ROUTE", help="Name of a route.")]) -> None:
    """Send a test message by a route."""
    told = connect().test_notice_route(route)
    if told.error is not None:
        raise Unavailable(f"{route}: {told.error}", code="not_told", hint="the route's address or command")
    print(f"{safe(route)} took it")


@app.command()
def silence(
    *,
    duration: Annotated[str | None, typer.Option("--for", help="How long: 90m, 12h, 7d.")] = None,
    project: Annotated[str | None, typer.Option("--project", "-p", help="Of this project.")] = None,
    run: Annotated[str | None, typer.Option(help="Of this run.")] = None,
    type_: Annotated[str | None, typer.Option("--type", help="Events of this type, or ends in this state.")] = None,
    reason: Annotated[str, typer.Option(help="Why, for others.")] = "",
    end: Annotated[str | None, typer.Option(metavar="ID", help="End a silence instead.")] = None,
) -> None:
    """Tell nothing of a project, a run or a type for a while."""
    client = connect()
    if end is not None:
        client.end_silence(end)
        return
    if duration is None:
        raise UsageError("for how long?", code="bad_silence", hint="--for 2h")
    asked = NewSilence(for_s=span(duration), project=project, run=run, type=type_, reason=reason)
    made = client.silence(asked)
    print(f"{made.id} until {made.until}")


_ROUTES: list[Column[KnownRoute]] = [
    Column("route", lambda row: row.route.name),
    Column("kind", lambda row: row.route.kind),
    Column("to", lambda row: row.route.url or " ".join(row.route.argv), flexible=True),
    Column("from", lambda row: row.origin),
    Column("severity", lambda row: row.route.filter.severity),
    Column(
        "projects", lambda row: row.route.filter.projects, lambda row: " ".join(row.route.filter.projects or ["all"])
    ),
]
_SILENCES: list[Column[Silence]] = [
    Column("silence", lambda row: row.id),
    Column("until", lambda row: row.until),
    Column("project", lambda row: row.project),
    Column("run", lambda row: row.run),
    Column("type", lambda row: row.type),
    Column("reason", lambda row: row.reason, flexible=True),
]


def _messages(now: float) -> list[Column[Notice]]:
    return [
        Column("id", lambda row: row.id),
        Column("route", lambda row: row.route),
        Column("state", lambda row: row.state),
        Column("made_at", lambda row: row.made_at, lambda row: ago(row.made_at, now), right=True),
        Column("tries", lambda row: row.tries, right=True),
        Column("tells", lambda row: "; ".join(f"{item.type}: {item.title}" for item in row.items), flexible=True),
        Column("error", lambda row: row.error, flexible=True),
    ]
