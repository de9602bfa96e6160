"""The hot route: takes one frame as it comes, answers when it is committed (``docs/wire.md``)."""

from litestar import post

from stepward.api.answer import AnyRequest
from stepward.api.auth import INGEST, Who
from stepward.api.parts import Given, Parts
from stepward.errors import PermissionDenied, StorageFull, Unavailable, UsageError
from stepward.ingest.hearing import LEASE_US
from stepward.model.frames import HEAD_BYTES, MAX_FRAME_BYTES, Frame
from stepward.model.resources import Accepted
from stepward.store.catalog import Principal

ACCEPT_GAP = "stepward-accept-gap"
_REFUSAL_US = 5_000_000
"""How long a writer that was told «later» waits, where the error does not say."""


@post(
    "/api/v1/ingest",
    operation_id="ingest_frame",
    opt=INGEST,
    status_code=200,
    request_max_body_size=HEAD_BYTES + MAX_FRAME_BYTES,
)
async def ingest_frame(request: AnyRequest, parts: Given, who: Who) -> Accepted:
    """Commit one frame (``application/vnd.stepward.frame``)."""
    data = await request.body()
    with parts.waiting.frame(len(data)):
        try:
            end = await parts.ingestor.submit(
                data,
                allow_gap=request.headers.get(ACCEPT_GAP) == "1",
                authorize=lambda frame: _authorize(parts, who, frame),
            )
        except (StorageFull, Unavailable) as error:
            wait = int(error.retry_after_s * 1e6) if isinstance(error, Unavailable) else _REFUSAL_US
            # We made it wait: that is no silence of its own.
            parts.hearing.deaf(parts.clock(), parts.clock() + wait + LEASE_US)
            raise
    return Accepted(end=end, server_time=parts.clock())


def _authorize(parts: Parts, who: Principal, frame: Frame) -> None:
    if not who.sees(frame.project):
        raise PermissionDenied(
            f"this token is not for the project {frame.project!r}",
            code="project_not_allowed",
            hint="use a token for that project, or set STEPWARD_PROJECT",
        )
    if parts.runs.project_of(frame.run) not in (None, frame.project):
        raise UsageError(
            f"the run {frame.run} belongs to another project than {frame.project!r}",
            code="run_of_another_project",
            hint="a run id is used in one project only",
        )
    if parts.runs.deleted(frame.project, frame.writer):
        raise UsageError(f"the run {frame.run} was deleted", code="run_deleted", hint="start it again to have it back")


ROUTES = [ingest_frame]
