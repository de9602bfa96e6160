"""What a metric says across runs and ranks: comparison, profile of ranks, newest points, numbers."""

from typing import Annotated

from litestar import Response, get
from litestar.params import FromPath, FromQuery, QueryParameter

from stepward.api.answer import AnyRequest, answer
from stepward.api.auth import Who
from stepward.api.parts import Given
from stepward.api.points import history_of
from stepward.errors import UsageError
from stepward.model.points import Comparison, Point, RankProfile, RunLine, Stats
from stepward.store.points.protocol import (
    MAX_BUCKETS,
    MAX_COMPARED,
    Axis,
    ChartQuery,
    ComparedRun,
    CompareQuery,
)


@get("/api/v1/compare", operation_id="compare_runs", sync_to_thread=True)
def compare_runs(
    *,
    request: AnyRequest,
    parts: Given,
    who: Who,
    run: FromQuery[list[str]],
    metric: FromQuery[str],
    x: FromQuery[Axis] = "step",
    start: FromQuery[float | None] = None,
    end: FromQuery[float | None] = None,
    buckets: Annotated[int, QueryParameter(ge=1, le=MAX_BUCKETS)] = 1000,
) -> Response[Comparison]:
    """One metric of several runs, a line each, in the same buckets where they are of one project."""
    if len(run) > MAX_COMPARED:
        raise UsageError(
            f"{len(run)} runs are too many for one comparison", code="too_many_runs", hint=f"at most {MAX_COMPARED}"
        )
    heads = {head.id: head for head in (parts.runs.head(who.projects, name) for name in run)}
    comparison = Comparison(metric=metric, x=x)
    lines: dict[str, RunLine] = {}
    for project in sorted({head.project for head in heads.values()}):
        compared = [
            ComparedRun(head.id, history_of(head), head.started_at)
            for head in heads.values()
            if head.project == project
        ]
        query = CompareQuery(metric=metric, runs=compared, x=x, start=start, end=end, buckets=buckets)
        found = parts.points.compare(project, query)
        comparison.unit = comparison.unit or found.unit
        lines |= {line.run: line for line in found.lines}
    comparison.lines = [lines[id] for id in heads if id in lines]
    return answer(request, comparison)


@get("/api/v1/runs/{run:str}/ranks-profile", operation_id="get_ranks_profile", sync_to_thread=True)
def get_ranks_profile(
    *,
    request: AnyRequest,
    parts: Given,
    who: Who,
    run: FromPath[str],
    metric: FromQuery[str],
    start: FromQuery[float | None] = None,
    end: FromQuery[float | None] = None,
    buckets: Annotated[int, QueryParameter(ge=1, le=MAX_BUCKETS)] = 1000,
    attempt: FromQuery[int | None] = None,
) -> Response[RankProfile]:
    """Minimum, quantiles and maximum over the ranks by step, and which rank has them."""
    head = parts.runs.head(who.projects, run)
    query = ChartQuery(
        run=head.id,
        metric=metric,
        start=start,
        end=end,
        buckets=buckets,
        attempt=attempt,
        history=history_of(head),
    )
    return answer(request, parts.points.profile(head.project, query))


@get("/api/v1/runs/{run:str}/tail", operation_id="get_tail", sync_to_thread=True)
def get_tail(
    *,
    request: AnyRequest,
    parts: Given,
    who: Who,
    run: FromPath[str],
    metric: FromQuery[str],
    rank: FromQuery[int | None] = None,
    device: FromQuery[int | None] = None,
    last: Annotated[int, QueryParameter(ge=1, le=5000)] = 100,
) -> Response[list[Point]]:
    """The newest points of a metric, oldest first."""
    head = parts.runs.head(who.projects, run)
    query = ChartQuery(run=head.id, metric=metric, rank=rank, device=device, history=history_of(head))
    return answer(request, parts.points.tail(head.project, query, attempts=head.numbers, last=last))


@get("/api/v1/runs/{run:str}/stats", operation_id="get_stats", sync_to_thread=True)
def get_stats(
    *,
    request: AnyRequest,
    parts: Given,
    who: Who,
    run: FromPath[str],
    metric: FromQuery[str],
    x: FromQuery[Axis] = "step",
    start: FromQuery[float | None] = None,
    end: FromQuery[float | None] = None,
    rank: FromQuery[int | None] = None,
    device: FromQuery[int | None] = None,
) -> Response[Stats]:
    """A metric, or a range of it, in numbers."""
    head = parts.runs.head(who.projects, run)
    query = ChartQuery(
        run=head.id,
        metric=metric,
        x=x,
        start=start,
        end=end,
        rank=rank,
        device=device,
        history=history_of(head),
        run_started_us=head.started_at,
    )
    return answer(request, parts.points.stats(head.project, query))


ROUTES = [compare_runs, get_ranks_profile, get_tail, get_stats]
