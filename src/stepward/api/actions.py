"""The audit: what was done to clusters, nodes, jobs and runs."""

from typing import Annotated

from litestar import Response, get
from litestar.params import FromQuery, QueryParameter

from stepward.api.answer import AnyRequest, answer
from stepward.api.auth import Who
from stepward.api.parts import Given
from stepward.model.jobs import ActionPage
from stepward.store.catalog.actions import MAX_PAGE


@get("/api/v1/actions", operation_id="list_actions", sync_to_thread=True)
def list_actions(
    *,
    request: AnyRequest,
    parts: Given,
    who: Who,
    cluster: FromQuery[str | None] = None,
    node: FromQuery[str | None] = None,
    job: FromQuery[str | None] = None,
    run: FromQuery[str | None] = None,
    kind: FromQuery[str | None] = None,
    limit: Annotated[int, QueryParameter(ge=1, le=MAX_PAGE)] = 50,
    cursor: FromQuery[str | None] = None,
) -> Response[ActionPage]:
    """What was done, the newest first; of a run only for those who may see it. ``cluster`` by either of its names."""
    cluster = None if cluster is None else parts.queues.slurm_name(cluster)
    page = parts.actions.page(
        who.projects, cluster=cluster, node=node, job=job, run=run, kind=kind, limit=limit, cursor=cursor
    )
    return answer(request, page)


ROUTES = [list_actions]
