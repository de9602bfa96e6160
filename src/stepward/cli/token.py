"""``stepward token``: who may do what with the server."""

import re
import time
from typing import Annotated

import typer

from stepward.cli.connection import connect
from stepward.cli.figures import ago
from stepward.cli.table import Column, Format, FormatOption, show, write_json
from stepward.errors import NotFound, UsageError
from stepward.model.resources import NewToken, Token
from stepward.model.words import TokenKind

app = typer.Typer(help="Create, list and revoke tokens (admin only).", no_args_is_help=True)

_SPAN = re.compile(r"([0-9]{1,9})([smhd])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


@app.command()
def create(
    name: Annotated[str, typer.Argument(help="What the token is for.")],
    kind: Annotated[TokenKind, typer.Option(help="What its bearer may do.")] = TokenKind.VIEWER,
    project: Annotated[list[str] | None, typer.Option("--project", "-p", help="Only this project; repeatable.")] = None,
    expires: Annotated[str | None, typer.Option(help="How long it is good: 90m, 12h, 30d. Default: for ever.")] = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """Create a token; its secret is printed once."""
    asked = NewToken(name=name, kind=kind, projects=project, expires_in_s=None if expires is None else span(expires))
    token = connect().create_token(asked)
    if output is Format.JSON:
        write_json(token)
    else:
        print(token.secret)


@app.command("ls")
def ls(output: FormatOption = Format.TABLE) -> None:
    """List the tokens; secrets are never shown again."""
    now = time.time()
    columns: list[Column[Token]] = [
        Column("id", lambda token: token.id),
        Column("name", lambda token: token.name, flexible=True),
        Column("kind", lambda token: token.kind.value),
        Column("projects", lambda token: token.projects or ["all"], lambda token: " ".join(token.projects or ["all"])),
        Column("created_at", lambda token: token.created_at, lambda token: ago(token.created_at, now), right=True),
        Column(
            "last_used_at", lambda token: token.last_used_at, lambda token: ago(token.last_used_at, now), right=True
        ),
        Column("expires_at", lambda token: token.expires_at, lambda token: ago(token.expires_at, now), right=True),
    ]
    show(output, columns, connect().tokens(), empty="no tokens")


@app.command()
def revoke(token: Annotated[str, typer.Argument(metavar="ID", help="Id or unique name of a token.")]) -> None:
    """Revoke a token: it is refused from now on."""
    client = connect()
    found = [known for known in client.tokens() if token in (known.id, known.name)]
    if len(found) != 1:
        problem = "no token is" if not found else f"{len(found)} tokens are"
        raise NotFound(f"{problem} called {token}", code="unknown_token", hint="`stepward token ls` lists them")
    client.revoke_token(found[0].id)
    print(f"revoked {found[0].id}")


def span(text: str) -> float:
    """Seconds of ``90m``, ``12h``, ``30d``.

    Raises:
        UsageError: ``bad_duration``.
    """
    found = _SPAN.fullmatch(text)
    if not found:
        raise UsageError(f"{text} is no duration", code="bad_duration", hint="for example 90m, 12h or 30d")
    return float(int(found[1]) * _SECONDS[found[2]])
