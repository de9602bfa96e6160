"""Backups of a serving server."""

from litestar import post

from stepward.api.auth import ADMIN
from stepward.api.parts import Parts
from stepward.api.tokens import whole_server
from stepward.model.resources import Backup
from stepward.store.catalog import Principal


@post("/api/v1/backups", operation_id="create_backup", opt=ADMIN, sync_to_thread=True)
def create_backup(parts: Parts, who: Principal, path: str | None = None) -> Backup:
    """A consistent copy while serving goes on: in ``path`` (a new folder on the server), or below the data folder."""
    whole_server(who)
    return parts.backup(path)


ROUTES = [create_backup]
