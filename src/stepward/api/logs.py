"""Output of a run: its streams, pages of lines, searches, the bytes as they came."""

from typing import Annotated

from litestar import Response, get
from litestar.params import FromPath, FromQuery, QueryParameter
from litestar.response import Stream

from stepward.api.answer import AnyRequest, answer, begun
from stepward.api.auth import Who
from stepward.api.parts import Given
from stepward.model.resources import LogPage, LogStream


@get("/api/v1/runs/{run:str}/logs", operation_id="list_log_streams", sync_to_thread=True)
def list_log_streams(request: AnyRequest, parts: Given, who: Who, run: FromPath[str]) -> Response[list[LogStream]]:
    """The streams of a run: by attempt, rank, stream."""
    head = parts.runs.head(who.projects, run)
    return answer(request, parts.logs.streams(head.project, head.id, attempts=head.numbers))


@get("/api/v1/runs/{run:str}/logs/{stream:str}", operation_id="get_log_page", sync_to_thread=True)
def get_log_page(
    *,
    request: AnyRequest,
    parts: Given,
    who: Who,
    run: FromPath[str],
    stream: FromPath[str],
    from_n: Annotated[int | None, QueryParameter(ge=1)] = None,
    tail: Annotated[int | None, QueryParameter(ge=1, le=5000)] = None,
    limit: Annotated[int, QueryParameter(ge=1, le=5000)] = 500,
    q: Annotated[str | None, QueryParameter(max_length=1000)] = None,
    fold: FromQuery[bool] = True,
) -> Response[LogPage]:
    """Lines of a stream, from ``from_n`` on or the last ``tail`` (200); with ``q`` only those that match."""
    head = parts.runs.head(who.projects, run)
    page = parts.logs.page(
        head.project,
        head.id,
        stream,
        attempts=head.numbers,
        from_n=from_n,
        tail=tail,
        limit=limit,
        q=q or None,
        fold=fold,
    )
    return answer(request, page)


@get("/api/v1/runs/{run:str}/logs/{stream:str}/raw", operation_id="get_raw_log", sync_to_thread=True)
def get_raw_log(parts: Given, who: Who, run: FromPath[str], stream: FromPath[str]) -> Stream:
    """The bytes of a stream as they came."""
    head = parts.runs.head(who.projects, run)
    # As octets and as a download: output of a job must never run as a page of this origin.
    headers = {"Content-Disposition": f'attachment; filename="{head.id}.log"'}
    content = begun(parts.logs.raw(head.project, head.id, stream))
    return Stream(content, media_type="application/octet-stream", headers=headers)


ROUTES = [list_log_streams, get_log_page, get_raw_log]
