"""Diagnoses of a run: the newest, all, the one of an event; made anew on demand; as Markdown or one HTML file."""

import asyncio
from typing import Literal

from litestar import Response, get, post
from litestar.enums import MediaType
from litestar.params import FromPath, FromQuery

from stepward.api.answer import AnyRequest, answer
from stepward.api.auth import EDITOR, Who
from stepward.api.parts import Given, Parts
from stepward.diagnose.document import StoredDiagnosis
from stepward.diagnose.export import html, markdown
from stepward.observe.diagnosing import resource
from stepward.store.catalog import Principal
from stepward.store.catalog.diagnoses import Kept

Form = Literal["json", "markdown", "html"]
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox",
}


@get("/api/v1/runs/{run:str}/diagnoses", operation_id="list_diagnoses", sync_to_thread=True)
def list_diagnoses(request: AnyRequest, parts: Given, who: Who, run: FromPath[str]) -> Response[list[StoredDiagnosis]]:
    """All diagnoses of a run, the newest first: of attempts (``event`` null) and of events."""
    return answer(request, [resource(kept) for kept in parts.diagnoses.of_run(who.projects, run)])


# Handlers that share their path go to the thread themselves: see runs.get_run.
@get("/api/v1/runs/{run:str}/diagnosis", operation_id="get_diagnosis")
async def get_diagnosis(
    *, request: AnyRequest, parts: Given, who: Who, run: FromPath[str], format: FromQuery[Form] = "json"
) -> Response[StoredDiagnosis]:
    """The newest diagnosis of a run, of the newest attempt that has one."""

    def found() -> Response[StoredDiagnosis]:
        return _shown(request, (parts, who), parts.diagnoses.newest(who.projects, run), format)

    return await asyncio.to_thread(found)


@post("/api/v1/runs/{run:str}/diagnosis", operation_id="make_diagnosis", opt=EDITOR)
async def make_diagnosis(request: AnyRequest, parts: Given, who: Who, run: FromPath[str]) -> Response[StoredDiagnosis]:
    """Diagnose the newest attempt of a run now, however it stands; what is not healthy is kept."""

    def made() -> Response[StoredDiagnosis]:
        return answer(request, parts.diagnosing.make(parts.runs.head(who.projects, run).id))

    return await asyncio.to_thread(made)


@get("/api/v1/runs/{run:str}/events/{event:str}/diagnosis", operation_id="get_event_diagnosis", sync_to_thread=True)
def get_event_diagnosis(
    *,
    request: AnyRequest,
    parts: Given,
    who: Who,
    run: FromPath[str],
    event: FromPath[str],
    format: FromQuery[Form] = "json",
) -> Response[StoredDiagnosis]:
    """The diagnosis that was made for an event."""
    return _shown(request, (parts, who), parts.diagnoses.newest(who.projects, run, event), format)


def _shown(request: AnyRequest, by: tuple[Parts, Principal], kept: Kept, form: Form) -> Response[StoredDiagnosis]:
    found = resource(kept)
    if form == "json":
        return answer(request, found)
    parts, who = by
    run = parts.runs.get(who.projects, kept.run)
    title = f"{run.name}, attempt {found.attempt}: diagnosis of {found.made_at}"
    page = (markdown if form == "markdown" else html)(found.document, title)
    media = "text/markdown; charset=utf-8" if form == "markdown" else MediaType.HTML
    # What the document says is the JSON; these are the same for people.
    return Response(page, media_type=media, headers=_HEADERS)  # type: ignore[arg-type]


ROUTES = [list_diagnoses, get_diagnosis, make_diagnosis, get_event_diagnosis]
