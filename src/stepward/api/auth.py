"""Who may go where: a guard before every handler. Closed unless a route says otherwise.

A route's ``needs`` is the least kind of token that it takes (``viewer`` where nothing is said); ``ANYBODY`` known may go
where nothing of a project is shown, and routes marked ``OPEN`` ask nobody. A token comes in ``Authorization: Bearer``,
a browser's session in a cookie; a cookie only writes when the page that sends it is one of ours (``Origin``).
"""

from typing import Any, TypeAlias

from litestar.connection import ASGIConnection
from litestar.di import NamedDependency
from litestar.handlers import BaseRouteHandler

from stepward.api.parts import Parts
from stepward.errors import NotFound, PermissionDenied, Unauthenticated
from stepward.model.words import TokenKind
from stepward.store.catalog import Principal

OPEN = {"open": True}
ANYBODY: dict[str, Any] = {"needs": None}
EDITOR = {"needs": TokenKind.EDITOR}
ADMIN = {"needs": TokenKind.ADMIN}
INGEST = {"needs": TokenKind.INGEST}
_READS = frozenset({"GET", "HEAD", "OPTIONS"})

Who: TypeAlias = NamedDependency[Principal]
"""The principal, as a parameter of a handler."""
Connection = ASGIConnection[Any, Any, Any, Any]


def guard(connection: Connection, handler: BaseRouteHandler) -> None:
    """Let the request pass, with its principal in ``connection.scope["auth"]``, or refuse it.

    Raises:
        Unauthenticated: ``no_credential``, ``bad_token``.
        PermissionDenied: ``foreign_origin``, ``not_allowed``.
    """
    if handler.opt.get("open"):
        return
    principal = _principal(connection, connection.app.state["parts"])
    needs: TokenKind | None = handler.opt.get("needs", TokenKind.VIEWER)
    if needs is not None and not principal.at_least(needs):
        raise PermissionDenied(
            f"{principal.kind} tokens may not do this, it needs {needs}",
            code="not_allowed",
            hint="ask an administrator for a token of that kind",
        )
    connection.scope["auth"] = principal


def principal_of(connection: Connection) -> Principal:
    """The principal that ``guard`` found."""
    principal: Principal = connection.scope["auth"]
    return principal


def bearer(connection: Connection) -> str | None:
    """The token of the ``Authorization`` header."""
    scheme, _, secret = connection.headers.get("authorization", "").partition(" ")
    return secret.strip() if scheme.lower() == "bearer" else None


def visible_project(who: Principal, project: str) -> str:
    """``project``, where the caller may see it.

    Raises:
        NotFound: ``no_such_project``; the answer does not tell whether it exists.
    """
    if not who.sees(project):
        raise NotFound(f"there is no project {project!r}", code="no_such_project")
    return project


def _principal(connection: Connection, parts: Parts) -> Principal:
    secret = bearer(connection)
    if secret is not None:
        found = parts.access.by_token(secret)
        if found is None:
            raise Unauthenticated(
                "this token is not known, or no longer", code="bad_token", hint="stepward login, or ask for a new token"
            )
        return found
    cookie = connection.cookies.get(parts.cookie)
    found = parts.access.by_session(cookie) if cookie else None
    if found is None:
        raise Unauthenticated(
            "this needs a token or a signed-in browser",
            code="no_credential",
            hint="send Authorization: Bearer <token>, or open the link that stepward login prints",
        )
    if connection.scope.get("method", "GET") not in _READS:
        check_origin(connection, parts)
    return found


def check_origin(connection: Connection, parts: Parts) -> None:
    """Refuse what a page of another site sends with our cookie.

    Raises:
        PermissionDenied: ``foreign_origin``.
    """
    origin = connection.headers.get("origin", "")
    host = origin.partition("://")[2]
    if not host or (host != connection.headers.get("host") and host not in parts.origins):
        raise PermissionDenied(
            f"a page of {origin or 'an unknown origin'} may not write here",
            code="foreign_origin",
            hint="behind a proxy name the public host: stepward up --allowed-host HOST",
        )
