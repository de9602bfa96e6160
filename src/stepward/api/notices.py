"""Notices: routes (administrators of the whole server), what was told, silences (editors, of their projects).

An address is a secret and may point anywhere that the server reaches: only administrators give one, and nobody reads it
back. Commands come from the file in the data folder alone.
"""

import asyncio
from typing import Annotated

from litestar import delete, get, post, put
from litestar.params import FromPath, JSONBody, QueryParameter

from stepward.api.audit import audit, word_of
from stepward.api.auth import ADMIN, EDITOR, Who, visible_project
from stepward.api.parts import Given, Parts
from stepward.api.tokens import whole_server
from stepward.errors import PermissionDenied, UsageError
from stepward.model.notices import KnownRoute, NewSilence, Notice, NoticeRoute, Silence, Told
from stepward.respond.notices.routes import check, masked
from stepward.store.catalog import Principal

MAX_PAGE = 200
MAX_SILENCE_S = 90 * 86_400.0


@get("/api/v1/notices", operation_id="list_notices", opt=ADMIN, sync_to_thread=True)
def list_notices(parts: Given, who: Who, limit: Annotated[int, QueryParameter(ge=1, le=MAX_PAGE)] = 50) -> list[Notice]:
    """The newest messages, those that wait too."""
    whole_server(who)
    return parts.outbox.newest(limit)


@get("/api/v1/notices/routes", operation_id="list_notice_routes", opt=ADMIN, sync_to_thread=True)
def list_notice_routes(parts: Given, who: Who) -> list[KnownRoute]:
    """All routes; of an address the host alone."""
    whole_server(who)
    return [
        KnownRoute(route=masked(live.route), origin="file" if live.of_file else "api")
        for live in parts.notice_routes.all()
    ]


# Handlers that share their path go to the thread themselves: see runs.get_run.
@put("/api/v1/notices/routes/{name:str}", operation_id="put_notice_route", opt=ADMIN)
async def put_notice_route(parts: Given, who: Who, name: FromPath[str], data: JSONBody[NoticeRoute]) -> KnownRoute:
    """Make or change a webhook."""
    whole_server(who)
    if data.name != name:
        raise UsageError("the route has another name than the path", code="bad_notices")
    if data.kind != "webhook":
        raise PermissionDenied(
            "a command can only be named in notices.toml, in the data folder",
            code="not_allowed",
            hint="docs/notices.md",
        )
    check(data)
    await asyncio.to_thread(parts.outbox.put_route, data, parts.clock())
    audit.info("route %r of notices is %s now: by %s", name, masked(data).url, word_of(who))
    return KnownRoute(route=masked(data), origin="api")


@delete("/api/v1/notices/routes/{name:str}", operation_id="delete_notice_route", opt=ADMIN)
async def delete_notice_route(parts: Given, who: Who, name: FromPath[str]) -> None:
    """Forget a route that was made here."""
    whole_server(who)
    await asyncio.to_thread(parts.outbox.delete_route, name)
    audit.info("route %r of notices is deleted: by %s", name, word_of(who))


@post("/api/v1/notices/routes/{name:str}/test", operation_id="test_notice_route", opt=ADMIN, sync_to_thread=True)
def test_notice_route(parts: Given, who: Who, name: FromPath[str]) -> Told:
    """Send a test message by a route now, and say whether it arrived."""
    whole_server(who)
    return Told(parts.notifier.test(name))


@get("/api/v1/notices/silences", operation_id="list_silences")
async def list_silences(parts: Given, who: Who) -> list[Silence]:
    """Silences that are not over."""
    return await asyncio.to_thread(parts.outbox.silences, parts.clock(), who.projects)


@post("/api/v1/notices/silences", operation_id="create_silence", opt=EDITOR)
async def create_silence(parts: Given, who: Who, data: JSONBody[NewSilence]) -> Silence:
    """Tell nothing of a project, a run or a type for a while. One that names no project needs the whole server."""
    return await asyncio.to_thread(_silence, parts, who, data)


@delete("/api/v1/notices/silences/{id:str}", operation_id="delete_silence", opt=EDITOR, sync_to_thread=True)
def delete_silence(parts: Given, who: Who, id: FromPath[str]) -> None:
    """End a silence."""
    parts.outbox.end_silence(id, who.projects)


def _silence(parts: Parts, who: Principal, asked: NewSilence) -> Silence:
    if not 0 < asked.for_s <= MAX_SILENCE_S:
        raise UsageError("a silence lasts up to 90 days", code="bad_silence", hint="for_s, in seconds")
    if asked.run is not None:
        run = parts.runs.get(who.projects, asked.run)
        asked.run, asked.project = run.id, run.project
    elif asked.project is not None:
        asked.project = visible_project(who, asked.project)
    else:
        whole_server(who)
    made = parts.outbox.silence(asked, by=who.name, now=parts.clock())
    audit.info("silence %s of %s until %s: by %s", made.id, asked, made.until, word_of(who))
    return made


ROUTES = [
    list_notices, list_notice_routes, put_notice_route, delete_notice_route, test_notice_route, list_silences,
    create_silence, delete_silence,
]  # fmt: skip
