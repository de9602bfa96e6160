"""Tokens: for administrators of the whole server only."""

import asyncio

from litestar import delete, get, post
from litestar.params import FromPath, JSONBody

from stepward.api.auth import ADMIN, Who
from stepward.api.parts import Given
from stepward.errors import PermissionDenied
from stepward.model.resources import NewToken, Token
from stepward.store.catalog import Principal


# Two methods on one path: see get_run.
@get("/api/v1/tokens", operation_id="list_tokens", opt=ADMIN)
async def list_tokens(parts: Given, who: Who) -> list[Token]:
    """All tokens, without their secrets."""
    whole_server(who)
    return await asyncio.to_thread(parts.access.tokens)


@post("/api/v1/tokens", operation_id="create_token", opt=ADMIN)
async def create_token(parts: Given, who: Who, data: JSONBody[NewToken]) -> Token:
    """A new token; its secret is in this answer and never shown again."""
    whole_server(who)
    return await asyncio.to_thread(parts.access.create, data)


@delete("/api/v1/tokens/{id:str}", operation_id="delete_token", opt=ADMIN, sync_to_thread=True)
def delete_token(parts: Given, who: Who, id: FromPath[str]) -> None:
    """Revoke a token; its browser sessions end with it."""
    whole_server(who)
    parts.access.delete(id)


def whole_server(who: Principal) -> None:
    """An administrator of some projects is none of the server: a token of all projects would be an escalation.

    Raises:
        PermissionDenied: ``not_allowed``.
    """
    if who.projects is not None:
        raise PermissionDenied("this needs an admin token for all projects", code="not_allowed")


ROUTES = [list_tokens, create_token, delete_token]
