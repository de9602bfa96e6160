"""From what the user typed to the server and the run that are meant."""

from collections.abc import Iterable
from typing import Annotated

import typer

from stepward.client.api import Client
from stepward.errors import Conflict, NotFound
from stepward.model.resources import Run
from stepward.settings import load

RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="Id, beginning of an id, or unique name of a run.")]
ProjectOption = Annotated[str | None, typer.Option("--project", "-p", help="Only runs of this project.")]
LEAST_PREFIX = 4
"""Characters of an id, without ``run_``, that may stand for the run."""


def connect(*, server: str | None = None, token: str | None = None) -> Client:
    """A client of the server that the settings name.

    Raises:
        UsageError: ``no_server``, ``bad_config_file``, ``bad_server_url``.
    """
    return Client.of(load(server=server, token=token))


def find_run(client: Client, named: str) -> Run:
    """The run with this id, this unique name, or this unique beginning of an id.

    Raises:
        NotFound: ``no_such_run``.
        Conflict: ``ambiguous_name``; the hint lists runs that fit.
    """
    try:
        return client.run(named)
    except NotFound as error:
        beginning = named if named.startswith("run_") else f"run_{named}"
        found = _beginning_with(client, beginning)
        if not found:
            raise NotFound(error.message, code=error.code, hint="`stepward ls` lists the runs") from None
        if len(found) > 1:
            raise Conflict(
                f"{len(found)} runs begin with {beginning}", code="ambiguous_name", hint=_names(found)
            ) from None
        return found[0]
    except Conflict as error:
        if error.code != "ambiguous_name":
            raise
        named_so = [run for run in client.runs(filter=f"name = {quoted(named)}", limit=10) if run.name == named]
        raise Conflict(error.message, code=error.code, hint=_names(named_so) or error.hint) from None


def quoted(text: str) -> str:
    """``text`` as a string of the filter language."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _beginning_with(client: Client, beginning: str) -> list[Run]:
    if len(beginning) < len("run_") + LEAST_PREFIX or (not beginning.isalnum() and not beginning[4:].isalnum()):
        return []
    return [run for run in client.runs(filter=f"id:{quoted(beginning)}", limit=10) if run.id.startswith(beginning)]


def _names(runs: Iterable[Run]) -> str:
    return "use an id: " + ", ".join(f"{run.id} ({run.project}, {run.state})" for run in runs)
