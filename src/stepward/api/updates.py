"""The stream of live updates (server-sent events): ``runs=1`` for all runs, ``run=<id>`` for the details of some,
``events=1`` for what detectors see in any run.

``metrics`` names the newest values that travel with a run, as in the list of runs.
"""

from litestar import get
from litestar.openapi import ResponseSpec
from litestar.params import FromQuery
from litestar.response import Stream

from stepward.api.answer import AnyRequest
from stepward.api.auth import Who, bearer
from stepward.api.live import LiveClient
from stepward.api.parts import Given
from stepward.errors import UsageError
from stepward.model.updates import LiveUpdate
from stepward.store.catalog import Metrics

MAX_WATCHED = 100


@get(
    "/api/v1/live",
    operation_id="watch",
    media_type="text/event-stream",
    responses={200: ResponseSpec(LiveUpdate, description="One event", media_type="text/event-stream")},
)
async def watch(
    *,
    request: AnyRequest,
    parts: Given,
    who: Who,
    runs: FromQuery[bool] = False,
    run: FromQuery[list[str] | None] = None,
    events: FromQuery[bool] = False,
    metrics: FromQuery[list[str] | None] = None,
) -> Stream:
    """Events ``run``, ``run_removed``, ``points``, ``logs``, ``events``; ``resync`` says: read everything again."""
    if len(run or []) > MAX_WATCHED:
        raise UsageError(f"at most {MAX_WATCHED} runs can be watched in one stream", code="too_many_watched")
    client = LiveClient(
        who, all_runs=runs, runs=frozenset(run or []), metrics=Metrics.asked(metrics), all_events=events
    )
    token, cookie = bearer(request), request.cookies.get(parts.cookie, "")

    def allowed() -> bool:
        found = parts.access.by_session(cookie) if token is None else parts.access.by_token(token)
        return found is not None

    # A proxy that buffers would hold the events back.
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return Stream(parts.live.stream(client, allowed), media_type="text/event-stream", headers=headers)


ROUTES = [watch]
