"""Runs: pages, one run, its configuration and sources; what people may change; deleting."""

import asyncio

from litestar import Response, delete, get, patch
from litestar.params import FromPath, FromQuery, JSONBody

from stepward.api import deletion
from stepward.api.answer import AnyRequest, answer
from stepward.api.audit import word_of
from stepward.api.auth import EDITOR, Who, visible_project
from stepward.api.parts import Given, Parts
from stepward.model.resources import Run, RunChange, RunConfig, RunPage, Source
from stepward.store.catalog import Metrics, Principal


@get("/api/v1/runs", operation_id="list_runs", sync_to_thread=True)
def list_runs(
    *,
    request: AnyRequest,
    parts: Given,
    who: Who,
    filter: FromQuery[str] = "",
    sort: FromQuery[str | None] = None,
    project: FromQuery[str | None] = None,
    limit: FromQuery[int] = 50,
    cursor: FromQuery[str | None] = None,
    metrics: FromQuery[list[str] | None] = None,
) -> Response[RunPage]:
    """Runs that match a filter, newest first unless ``sort`` says otherwise; newest values of ``metrics`` (``*``: any)."""
    if project is not None:
        visible_project(who, project)
    page = parts.runs.page(
        who.projects,
        filter=filter,
        sort=sort,
        project=project,
        limit=limit,
        cursor=cursor,
        metrics=Metrics.asked(metrics),
    )
    return answer(request, page)


# Litestar 2.25 wraps a handler with ``sync_to_thread`` once more for each further method of its path, and then answers a
# coroutine: handlers that share their path go to the thread themselves.
@get("/api/v1/runs/{run:str}", operation_id="get_run")
async def get_run(request: AnyRequest, parts: Given, who: Who, run: FromPath[str]) -> Response[Run]:
    """One run with its attempts and latest values."""
    return answer(request, await asyncio.to_thread(parts.runs.get, who.projects, run))


@patch("/api/v1/runs/{run:str}", operation_id="change_run", opt=EDITOR)
async def change_run(
    request: AnyRequest, parts: Given, who: Who, run: FromPath[str], data: JSONBody[RunChange]
) -> Response[Run]:
    """Change name, tags or notes; what is absent stays."""
    changed = await asyncio.to_thread(parts.edits.change, who.projects, run, data)
    return answer(request, await asyncio.to_thread(parts.runs.get, who.projects, changed))


@delete("/api/v1/runs/{run:str}", operation_id="delete_run", opt=EDITOR)
async def delete_run(parts: Given, who: Who, run: FromPath[str]) -> None:
    """Delete a run with everything of it. What its processes still send is refused."""
    await asyncio.to_thread(_delete, parts, who, run)


def _delete(parts: Parts, who: Principal, run: str) -> None:
    deletion.delete_run(parts, parts.runs.head(who.projects, run), by=word_of(who))


@get("/api/v1/runs/{run:str}/config", operation_id="get_run_config", sync_to_thread=True)
def get_run_config(request: AnyRequest, parts: Given, who: Who, run: FromPath[str]) -> Response[RunConfig]:
    """The three trees: what the user set, software, system."""
    return answer(request, parts.runs.config(who.projects, run))


@get("/api/v1/runs/{run:str}/sources", operation_id="list_sources", sync_to_thread=True)
def list_sources(request: AnyRequest, parts: Given, who: Who, run: FromPath[str]) -> Response[list[Source]]:
    """Who writes: ranks, wrappers, agents; when they were last heard, and their last words."""
    return answer(request, parts.runs.sources(who.projects, run))


ROUTES = [list_runs, get_run, change_run, delete_run, get_run_config, list_sources]
