"""Which runs say that they run in which job: what the watcher of a cluster asks for, so that it writes to them."""

from typing import Annotated

from litestar import Response, get
from litestar.params import FromQuery, QueryParameter

from stepward.api.answer import AnyRequest, answer
from stepward.api.auth import INGEST, Who
from stepward.api.parts import Given
from stepward.model.resources import JobClaim


@get("/api/v1/jobs/claims", operation_id="list_job_claims", opt=INGEST, sync_to_thread=True)
def list_job_claims(
    request: AnyRequest,
    parts: Given,
    who: Who,
    cluster: FromQuery[str],
    after: Annotated[int, QueryParameter(ge=0, le=(1 << 63) - 1)] = 0,
) -> Response[list[JobClaim]]:
    """Claims of a cluster's jobs behind ``after``, oldest first, at most 1,000."""
    return answer(request, parts.claims.after(who.projects, cluster, after))


ROUTES = [list_job_claims]
