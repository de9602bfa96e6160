"""Signing in and out: a browser trades a one-time link, or a token, for a session cookie."""

import asyncio

from litestar import Response, get, post
from litestar.datastructures import Cookie
from litestar.params import JSONBody

from stepward.api.answer import AnyRequest
from stepward.api.auth import ANYBODY, OPEN, Who, check_origin
from stepward.api.parts import Given, Parts
from stepward.errors import StepwardError, Unauthenticated, Unavailable
from stepward.model.resources import Login, LoginLink, Session, instant
from stepward.store.catalog import Principal
from stepward.store.catalog.access import SESSION_S

FAILURE_S = 0.5
"""What a failed login costs; one is answered at a time."""
MOST_WAITING = 20
LOGIN_BYTES = 256 << 10
"""Largest body that is read of somebody whom nobody knows."""
_failing = asyncio.Semaphore(1)
_waiting = 0


@get("/api/v1/session", operation_id="get_session", opt=ANYBODY, sync_to_thread=False)
def get_session(parts: Given, who: Who) -> Session:
    """Who is asking, and what the server is."""
    return _session(parts, who)


@post("/api/v1/login", operation_id="login", opt=OPEN, status_code=200, request_max_body_size=LOGIN_BYTES)
async def login(request: AnyRequest, parts: Given, data: JSONBody[Login]) -> Response[Session]:
    """Sign a browser in. A one-time link works once; failures are answered slowly."""
    if request.headers.get("origin"):
        check_origin(request, parts)
    try:
        secret, who = await asyncio.to_thread(parts.access.login, data.secret)
    except Unauthenticated as error:
        raise await _slowed(error) from None
    return Response(_session(parts, who), cookies=[_cookie(request, parts, secret, SESSION_S)])


@post("/api/v1/logout", operation_id="logout", opt=ANYBODY, status_code=204)
async def logout(request: AnyRequest, parts: Given, who: Who) -> Response[None]:
    """End the session of this browser."""
    await asyncio.to_thread(parts.access.logout, request.cookies.get(parts.cookie, ""))
    return Response(None, status_code=204, cookies=[_cookie(request, parts, "", 0)])


@post("/api/v1/login-links", operation_id="create_login_link", sync_to_thread=True)
def create_login_link(parts: Given, who: Who) -> LoginLink:
    """A one-time link that signs a browser in as the caller."""
    secret, expires_at = parts.access.new_link(who)
    return LoginLink(login_url(parts.url, secret), instant(expires_at))


def login_url(url: str, secret: str) -> str:
    """The link that signs in; its secret is in the fragment, which no browser sends to a server or a proxy's log."""
    return f"{url}/#login={secret}"


def _session(parts: Parts, who: Principal) -> Session:
    projects = None if who.projects is None else list(who.projects)
    return Session(
        kind=who.kind, name=who.name, projects=projects, version=parts.version, started_at=instant(parts.started_at)
    )


def _cookie(request: AnyRequest, parts: Parts, secret: str, max_age: int) -> Cookie:
    return Cookie(
        key=parts.cookie,
        value=secret,
        path=parts.cookie_path,
        max_age=max_age,
        httponly=True,
        secure=request.url.scheme == "https",
        samesite="strict",
    )


async def _slowed(error: StepwardError) -> StepwardError:
    global _waiting
    if _waiting >= MOST_WAITING:
        return Unavailable("too many failed logins", code="too_many_logins", retry_after_s=MOST_WAITING * FAILURE_S)
    _waiting += 1
    try:
        async with _failing:
            await asyncio.sleep(FAILURE_S)
    finally:
        _waiting -= 1
    return error


ROUTES = [get_session, login, logout, create_login_link]
