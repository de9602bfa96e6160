"""What every request passes before it is routed: the root path, the Host header, and headers for browsers.

The Host check is what keeps a page of another site from reaching a server on this machine by a name of its own (DNS
rebinding). Such a name is never an address, so addresses are let in where the server listens on more than loopback.
"""

import ipaddress
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

import msgspec

from stepward.api.problems import MEDIA_TYPE, of_error
from stepward.errors import PermissionDenied

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
ASGIApp = Callable[[Scope, Receive, Send], Awaitable[None]]

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_POLICY = (
    "default-src 'self'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "connect-src 'self'; object-src 'none'; base-uri 'self'; form-action 'self'; frame-ancestors 'none'"
)
_HEADERS = [
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
]


class Door:
    """An ASGI application around another.

    Args:
        root_path: path below which a proxy serves us, stripped where it comes along; begins with ``/`` or is empty.
        hosts: names that requests may ask for.
        addresses: whether any address will do, too.
    """

    def __init__(self, app: ASGIApp, *, root_path: str, hosts: Iterable[str], addresses: bool) -> None:
        self._app = app
        self._root_path = root_path
        self._hosts = frozenset(host.lower() for host in hosts) | LOOPBACK
        self._addresses = addresses

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or answer 403 ``foreign_host``."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        host = _host(scope)
        if not self._welcome(host):
            await _refuse(host, _with_headers(send))
            return
        await self._app(self._stripped(scope), receive, _with_headers(send))

    def _welcome(self, host: str) -> bool:
        return host in self._hosts or (self._addresses and _is_address(host))

    def _stripped(self, scope: Scope) -> Scope:
        path, root = scope["path"], self._root_path
        if root and (path == root or path.startswith(root + "/")):
            path = path[len(root) :] or "/"
        return {**scope, "path": path, "root_path": "", "raw_path": path.encode()}


def _host(scope: Scope) -> str:
    """The name in the Host header, without its port, lower-case; empty where there is none or what follows is no port."""
    value = next((value for name, value in scope["headers"] if name == b"host"), b"").decode("latin-1").lower()
    name, _, rest = value[1:].partition("]") if value.startswith("[") else value.partition(":")
    port = rest.removeprefix(":")
    return name if not port or (port.isascii() and port.isdigit()) else ""


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


async def _refuse(host: str, send: Send) -> None:
    error = PermissionDenied(
        f"this server does not answer to the name {host!r}",
        code="foreign_host",
        hint="stepward up --allowed-host HOST",
    )
    problem, _ = of_error(error)
    body = msgspec.json.encode(problem)
    headers = [(b"content-type", MEDIA_TYPE.encode()), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 403, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message["headers"], *_HEADERS]
        await send(message)

    return sending
