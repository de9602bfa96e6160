"""Points of a run: which series there are, charts, the table of steps, everything as NDJSON."""

from typing import Annotated

from litestar import Response, get
from litestar.params import FromPath, FromQuery, QueryParameter
from litestar.response import Stream

from stepward.api.answer import AnyRequest, answer, begun
from stepward.api.asked import ASKED, NARROWED, Buckets, OfMetric, OfPart, query_of
from stepward.api.auth import Who
from stepward.api.parts import Given
from stepward.ingest.decode import MAX_RANK
from stepward.model.points import Chart, Series, StepTable
from stepward.store.catalog import RunHead, Survivor
from stepward.store.points.protocol import Axis, By, PointsStore


@get("/api/v1/runs/{run:str}/series", operation_id="list_series", sync_to_thread=True)
def list_series(request: AnyRequest, parts: Given, who: Who, run: FromPath[str]) -> Response[list[Series]]:
    """The metrics of a run, by name."""
    head = parts.runs.head(who.projects, run)
    return answer(request, parts.points.series(head.project, head.id))


@get("/api/v1/runs/{run:str}/points", operation_id="get_chart", dependencies=ASKED | NARROWED, sync_to_thread=True)
def get_chart(
    *,
    request: AnyRequest,
    parts: Given,
    who: Who,
    run: FromPath[str],
    asked: OfMetric,
    x: FromQuery[Axis] = "step",
    buckets: Buckets = 1000,
    by: FromQuery[By] = "none",
    narrowed: OfPart,
    attempt: FromQuery[int | None] = None,
) -> Response[Chart]:
    """The lines of one metric: min, max, mean, first and last of each bucket, so that no spike is hidden."""
    head = parts.runs.head(who.projects, run)
    query = query_of(head, asked, narrowed, x=x, buckets=buckets, by=by, attempt=attempt)
    return answer(request, parts.points.chart(head.project, query))


@get("/api/v1/runs/{run:str}/steps", operation_id="list_steps", sync_to_thread=True)
def list_steps(
    *,
    request: AnyRequest,
    parts: Given,
    who: Who,
    run: FromPath[str],
    rank: Annotated[int | None, QueryParameter(ge=0, le=MAX_RANK)] = None,
    last: Annotated[int, QueryParameter(ge=1, le=5000)] = 500,
) -> Response[StepTable]:
    """The newest steps with the seconds of their phases, oldest first."""
    head = parts.runs.head(who.projects, run)
    return answer(request, parts.points.steps(head.project, head.id, attempts=head.numbers, rank=rank, last=last))


@get("/api/v1/runs/{run:str}/export", operation_id="export_run", sync_to_thread=True)
def export_run(parts: Given, who: Who, run: FromPath[str]) -> Stream:
    """All points, one JSON object a line."""
    head = parts.runs.head(who.projects, run)
    lines = begun(parts.points.export(head.project, head.id, attempts=head.numbers))
    name = f'attachment; filename="{head.id}.ndjson"'
    return Stream(lines, media_type="application/x-ndjson", headers={"Content-Disposition": name})


def newest_survivor(points: PointsStore, head: RunHead, metric: str) -> Survivor | None:
    """The newest surviving point of a metric: the end of its line. Its time is not known, so any later point replaces it."""
    query = query_of(head, metric=metric, buckets=1)
    lines = [line for line in points.chart(head.project, query).lines if not line.abandoned and line.x_last]
    if not lines or not head.attempts:
        return None
    step, value = int(lines[0].x_last[-1]), lines[0].last[-1]
    spans = [row for row in head.attempts if row["first_step"] is not None and row["first_step"] <= step]
    attempt = (spans or head.attempts)[-1]["key"]
    return Survivor(step, 0, float("nan") if value is None else value, None, attempt)


ROUTES = [list_series, get_chart, list_steps, export_run]
