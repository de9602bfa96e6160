"""The routes of a server: those of ``notices.toml`` in its data folder, which is watched, and those made by the API.

    [[route]]
    name = "oncall"
    kind = "webhook"
    url = "https://hooks.example.com/services/..."
    filter = {projects = ["llm"], severity = "critical", states = ["crashed", "lost"]}

    [[route]]
    name = "pager"
    kind = "command"
    argv = ["/usr/local/bin/page", "--team", "ml"]

A file with one wrong route is refused whole; the routes that it had before stay.
"""

import os
import re
import threading
import tomllib
from collections.abc import Callable
from typing import NamedTuple
from urllib.parse import urlsplit

import msgspec

from stepward.errors import StepwardError, UsageError
from stepward.model.notices import SEVERITIES, NoticeFilter, NoticeItem, NoticeRoute
from stepward.store.catalog.notices import Outbox

FILE = "notices.toml"
MAX_BYTES = 1 << 20
MAX_ROUTES = 100
MAX_GROUP_S, MAX_TIMEOUT_S = 3600.0, 120.0
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


class LiveRoute(NamedTuple):
    """A route in use; it tells nothing that was seen before ``since``, µs since the epoch."""

    route: NoticeRoute
    since: int
    of_file: bool


class Routes:
    """The routes, read again when the file changes.

    Args:
        data: the data folder.
        told: is told, once each, why the file is not taken.
    """

    def __init__(self, data: str, outbox: Outbox, told: Callable[[str], None]) -> None:
        self._path, self._outbox, self._told = f"{data}/{FILE}", outbox, told
        self._seen: tuple[int, int] | None = None
        self._of_file: tuple[LiveRoute, ...] = ()
        self._problem: str | None = None
        self._lock = threading.Lock()

    @property
    def problem(self) -> str | None:
        """Why the file is not taken, if it is not."""
        self._look()
        return self._problem

    def all(self) -> list[LiveRoute]:
        """Every route; one of the file takes the place of one of the same name."""
        self._look()
        named = {route.name: LiveRoute(route, since, False) for route, since in self._outbox.routes()}
        named.update({live.route.name: live for live in self._of_file})
        return [named[name] for name in sorted(named)]

    def _look(self) -> None:
        with self._lock:
            self._read()

    def _read(self) -> None:
        try:
            status = os.stat(self._path)
        except OSError:
            self._seen, self._of_file, self._problem = None, (), None
            return
        seen = (status.st_mtime_ns, status.st_size)
        if seen == self._seen:
            return
        self._seen = seen
        try:
            with open(self._path, "rb") as file:
                routes = parse_routes(file.read(MAX_BYTES + 1))
        except (OSError, StepwardError) as error:
            self._problem = f"{FILE} is not taken: {error}"
            self._told(self._problem)
            return
        self._problem = None
        self._of_file = tuple(LiveRoute(route, status.st_mtime_ns // 1000, True) for route in routes)


def parse_routes(content: bytes) -> list[NoticeRoute]:
    """The routes of a file.

    Raises:
        UsageError: ``bad_notices``.
    """
    if len(content) > MAX_BYTES:
        raise _refused(f"longer than {MAX_BYTES >> 20} MiB")
    try:
        tree = tomllib.loads(content.decode())
        routes = msgspec.convert(tree.pop("route", []), list[NoticeRoute])
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError) as error:
        raise _refused(str(error)) from None
    if tree:
        raise _refused(f"{sorted(tree)[0]!r} is no table of routes: write [[route]]")
    if len(routes) > MAX_ROUTES:
        raise _refused(f"more than {MAX_ROUTES} routes")
    names = [route.name for route in routes]
    for route in routes:
        check(route)
        if names.count(route.name) > 1:
            raise _refused(f"two routes are called {route.name!r}")
    return routes


def check(route: NoticeRoute) -> None:
    """Refuse a route that could not work.

    Raises:
        UsageError: ``bad_notices``.
    """
    who = f"route {route.name!r}"
    if not _NAME.fullmatch(route.name):
        raise _refused(f"{who}: a name has up to 64 letters, digits, - and _")
    if route.kind == "webhook":
        _check_url(route)
    elif not route.argv or route.url or not os.path.isabs(route.argv[0]):
        raise _refused(f"{who}: a command has an argv that begins with an absolute path, and no url")
    if not 0 <= route.group_s <= MAX_GROUP_S or not 0 < route.timeout_s <= MAX_TIMEOUT_S or route.per_hour < 1:
        raise _refused(
            f"{who}: group_s is 0 to {MAX_GROUP_S:g}, timeout_s up to {MAX_TIMEOUT_S:g}, per_hour at least 1"
        )


def _check_url(route: NoticeRoute) -> None:
    try:
        url = urlsplit(route.url)
        good = url.scheme in ("http", "https") and bool(url.hostname) and (url.port or 1) > 0 and route.url.isascii()
        good = good and url.username is None  # it would not be sent, and nobody would be told why nothing arrives
    except ValueError:
        good = False
    if not good or route.argv or any(letter.isspace() or ord(letter) < 33 for letter in route.url):
        raise _refused(f"route {route.name!r}: a webhook has an http or https url without a user, and no argv")


def masked(route: NoticeRoute) -> NoticeRoute:
    """The route as people may see it: of its URL the host alone, of a command the program; the rest may be secret."""
    if not route.url:
        return msgspec.structs.replace(route, argv=[*route.argv[:1], *["…"] * (len(route.argv) > 1)])
    url = urlsplit(route.url)
    port = f":{url.port}" if url.port else ""
    return msgspec.structs.replace(route, url=f"{url.scheme}://{url.hostname}{port}/…")


def tells(filter: NoticeFilter, item: NoticeItem) -> bool:
    """Whether a filter lets an item through."""
    if filter.projects is not None and item.project not in filter.projects:
        return False
    if item.phase == "end":
        return item.type in filter.states
    if filter.types is not None and item.type not in filter.types:
        return False
    return SEVERITIES.index(item.severity) >= SEVERITIES.index(filter.severity)


def _refused(why: str) -> UsageError:
    return UsageError(f"notices: {why}", code="bad_notices", hint="docs/notices.md")
