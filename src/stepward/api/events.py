"""Events: of a run, of all runs, one; rules of people; judging again."""

import asyncio
from typing import Annotated, Literal

from litestar import Response, get, post, put
from litestar.params import FromPath, FromQuery, JSONBody, QueryParameter

from stepward.api.answer import AnyRequest, answer
from stepward.api.audit import audit, word_of
from stepward.api.auth import EDITOR, Who, visible_project
from stepward.api.goodput import span_us
from stepward.api.parts import Given, Parts
from stepward.model.resources import EventPage, ProjectRules, Reprocessing, RulesChange, RunEvent
from stepward.store.catalog.events import MAX_PAGE, EventFilter

Writer = Literal["detectors", "writers", "all"]
_DETECTED: dict[Writer, bool | None] = {"detectors": True, "writers": False, "all": None}


@get("/api/v1/runs/{run:str}/events", operation_id="list_events", sync_to_thread=True)
def list_events(
    *,
    request: AnyRequest,
    parts: Given,
    who: Who,
    run: FromPath[str],
    type: FromQuery[str | None] = None,
    certainty: FromQuery[str | None] = None,
    severity: FromQuery[str | None] = None,
    since: FromQuery[str | None] = None,
    by: FromQuery[Writer] = "all",
) -> Response[list[RunEvent]]:
    """The newest 5,000 events of a run, oldest first; ``GET /api/v1/events`` pages through all.

    ``type``, ``certainty`` and ``severity`` take several words joined by commas. Events that were withdrawn are shown to
    those who ask for that certainty. ``since`` (``24h``, ``7d``) keeps those that began or lasted within.
    """
    which = _filter(parts, (type, certainty, severity), since, by)
    return answer(request, parts.events.of_run(who.projects, run, which))


@get("/api/v1/runs/{run:str}/events/{event:str}", operation_id="get_event", sync_to_thread=True)
def get_event(
    request: AnyRequest, parts: Given, who: Who, run: FromPath[str], event: FromPath[str]
) -> Response[RunEvent]:
    """One event of a run, withdrawn or not."""
    return answer(request, parts.events.one(who.projects, run, event))


@get("/api/v1/events", operation_id="list_all_events", sync_to_thread=True)
def list_all_events(
    *,
    request: AnyRequest,
    parts: Given,
    who: Who,
    project: FromQuery[str | None] = None,
    run: FromQuery[str | None] = None,
    type: FromQuery[str | None] = None,
    certainty: FromQuery[str | None] = None,
    severity: FromQuery[str | None] = None,
    since: FromQuery[str | None] = None,
    by: FromQuery[Writer] = "detectors",
    limit: Annotated[int, QueryParameter(ge=1, le=MAX_PAGE)] = 100,
    cursor: FromQuery[str | None] = None,
) -> Response[EventPage]:
    """Events of all runs, or of one project or run, the newest first; by default those that detectors saw."""
    if project is not None:
        visible_project(who, project)
    which = _filter(parts, (type, certainty, severity), since, by)
    page = parts.events.page(who.projects, which, project=project, run=run, limit=limit, cursor=cursor)
    return answer(request, page)


# Handlers that share their path go to the thread themselves: see runs.get_run.
@get("/api/v1/projects/{name:str}/rules", operation_id="get_rules")
async def get_rules(parts: Given, who: Who, name: FromPath[str]) -> ProjectRules:
    """The rules of a project, as they were written."""
    return await asyncio.to_thread(parts.rules.get, visible_project(who, name))


@put("/api/v1/projects/{name:str}/rules", operation_id="change_rules", opt=EDITOR)
async def change_rules(parts: Given, who: Who, name: FromPath[str], data: JSONBody[RulesChange]) -> ProjectRules:
    """Put rules in place of all old ones. One wrong rule refuses the whole text, with its ``line`` and ``reason``.

    Runs that are live are judged anew by them; ``reprocess`` judges those that have ended.
    """
    project, by = visible_project(who, name), word_of(who)
    changed = await asyncio.to_thread(parts.rules.change, project, data.text, by)
    audit.info("project %r has %d rules now: by %s", project, len(changed.names), by)
    parts.observer.judge_anew(project)
    return changed


@post("/api/v1/runs/{run:str}/reprocess", operation_id="reprocess_run", opt=EDITOR, status_code=202)
async def reprocess_run(parts: Given, who: Who, run: FromPath[str], dry_run: FromQuery[bool] = False) -> Reprocessing:
    """Judge a stored run again, by the detectors and rules of today; asked for again, the answer says what changes."""
    head = await asyncio.to_thread(parts.runs.head, who.projects, run)
    job = parts.reprocessor.submit(head.project, head.id, dry_run=dry_run)
    if not dry_run:
        audit.info("run %s of project %r is judged again: by %s", head.id, head.project, word_of(who))
    return job


@get("/api/v1/runs/{run:str}/reprocess/{job:str}", operation_id="get_reprocessing", sync_to_thread=True)
def get_reprocessing(
    request: AnyRequest, parts: Given, who: Who, run: FromPath[str], job: FromPath[str]
) -> Response[Reprocessing]:
    """How far that is, and what it changes."""
    return answer(request, parts.reprocessor.get(parts.runs.head(who.projects, run).id, job))


def _filter(
    parts: Parts, words: tuple[str | None, str | None, str | None], since: str | None, by: Writer
) -> EventFilter:
    types, certainties, severities = map(_words, words)
    since_us = None if since is None else parts.clock() - span_us(since)
    return EventFilter(types, certainties, severities, since_us, _DETECTED[by])


def _words(joined: str | None) -> list[str] | None:
    return None if joined is None else [word.strip() for word in joined.split(",")]


ROUTES = [list_events, get_event, list_all_events, get_rules, change_rules, reprocess_run, get_reprocessing]
