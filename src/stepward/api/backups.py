"""Backups of a serving server."""

from litestar import post
from litestar.params import FromQuery

from stepward.api.auth import ADMIN, Who
from stepward.api.parts import Given
from stepward.api.tokens import whole_server
from stepward.model.resources import Backup


@post("/api/v1/backups", operation_id="create_backup", opt=ADMIN, sync_to_thread=True)
def create_backup(parts: Given, who: Who, path: FromQuery[str | None] = None) -> Backup:
    """A consistent copy while serving goes on: in ``path`` (a new folder on the server), or below the data folder."""
    whole_server(who)
    return parts.backup(path)


ROUTES = [create_backup]
