"""``stepward login``: keeps server and token in the user's configuration, once the server has said that they are good."""

import os
import re
import sys
from typing import Annotated

import typer

from stepward.cli.connection import connect
from stepward.cli.text import safe
from stepward.errors import UsageError
from stepward.settings import config_path, load

app = typer.Typer()

_ENTRY = re.compile(r"\s*([A-Za-z0-9_-]+)\s*=")


@app.command()
def login(
    url: Annotated[
        str | None, typer.Argument(metavar="[URL]", help="Server. Default: the one in the settings.")
    ] = None,
    token: Annotated[
        str | None, typer.Option(help="Token; `-` reads it from stdin. Default: asked for, or that of a local server.")
    ] = None,
    link: Annotated[bool, typer.Option("--link", help="Print a one-time link that signs a browser in.")] = False,
) -> None:
    """Sign in: check the token with the server, then keep both for this user."""
    known = load(server=url)
    server = known.server
    if server is None:
        raise UsageError("no server is known", code="no_server", hint="stepward login http://host:7070")
    secret = _secret(token, known.token, server)
    client = connect(server=server, token=secret)
    session = client.session()
    if link:
        print(client.login_link().url)
        return
    remember({"server": server, "token": secret})
    print(f"signed in to {safe(server)} as {safe(session.name)} ({session.kind.value}); kept in {config_path()}")


def _secret(given: str | None, known: str | None, server: str) -> str:
    if given == "-":
        return sys.stdin.readline().strip()
    if given or known:
        return given or known or ""
    if not sys.stdin.isatty():
        raise UsageError(
            f"no token for {server}", code="no_token", hint="--token TOKEN, or --token - to read it from stdin"
        )
    return str(typer.prompt(f"Token for {server}", hide_input=True)).strip()


def remember(entries: dict[str, str]) -> None:
    """Set entries of ``config.toml``, leaving its other lines as they are; the file is whole at any moment and 0600.

    Raises:
        UsageError: ``bad_config_file``.
    """
    path = config_path()
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        old = ""
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                old = file.read()
        part = f"{path}.{os.getpid()}"
        fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        with open(fd, "w", encoding="utf-8") as file:
            file.write(merged(old, entries))
            file.flush()
            os.fsync(fd)
        os.replace(part, path)
    except OSError as error:
        raise UsageError(f"{path} can't be written: {error.strerror}", code="bad_config_file") from None


def merged(old: str, entries: dict[str, str]) -> str:
    """The text of a TOML file with these top-level entries set.

    Raises:
        UsageError: ``bad_config_file`` where the file's other lines would not survive.
    """
    import tomllib

    lines = old.split("\n") if old else []
    table = next((place for place, line in enumerate(lines) if line.lstrip().startswith("[")), len(lines))
    kept = [line for line in lines[:table] if not ((found := _ENTRY.match(line)) and found[1] in entries)]
    head = [f"{name} = {_toml_string(value)}" for name, value in entries.items()]
    new = "\n".join([*head, *kept, *lines[table:]]).rstrip("\n") + "\n"
    try:
        if tomllib.loads(new) == {**tomllib.loads(old), **entries}:
            return new
    except tomllib.TOMLDecodeError:
        pass
    raise UsageError("the configuration file can't be changed", code="bad_config_file", hint="mend or remove it")


def _toml_string(text: str) -> str:
    """A TOML basic string: that of JSON, but for DEL, which TOML wants escaped."""
    import json

    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
