"""What a metric says across runs and ranks: comparison, profile of ranks, newest points, numbers."""

from typing import Annotated

from litestar import Response, get
from litestar.params import FromPath, FromQuery, QueryParameter

from stepward.api.answer import AnyRequest, answer
from stepward.api.asked import ASKED, NARROWED, Buckets, OfMetric, OfPart, history_of, query_of
from stepward.api.auth import Who
from stepward.api.parts import Given
from stepward.errors import UsageError
from stepward.model.points import Comparison, Point, RankProfile, RunLine, Stats
from stepward.store.points.protocol import MAX_COMPARED, Axis, ComparedRun, CompareQuery


@get("/api/v1/compare", operation_id="compare_runs", dependencies=ASKED, sync_to_thread=True)
def compare_runs(
    *,
    request: AnyRequest,
    parts: Given,
    who: Who,
    run: FromQuery[list[str]],
    asked: OfMetric,
    x: FromQuery[Axis] = "step",
    buckets: Buckets = 1000,
) -> Response[Comparison]:
    """One metric of several runs, a line each, in the same buckets where they are of one project."""
    if len(run) > MAX_COMPARED:
        raise UsageError(
            f"{len(run)} runs are too many for one comparison", code="too_many_runs", hint=f"at most {MAX_COMPARED}"
        )
    heads = {head.id: head for head in (parts.runs.head(who.projects, name) for name in run)}
    comparison = Comparison(metric=asked.metric, x=x)
    lines: dict[str, RunLine] = {}
    for project in sorted({head.project for head in heads.values()}):
        compared = [
            ComparedRun(head.id, history_of(head), head.started_at)
            for head in heads.values()
            if head.project == project
        ]
        query = CompareQuery(metric=asked.metric, runs=compared, x=x, start=asked.start, end=asked.end, buckets=buckets)
        found = parts.points.compare(project, query)
        comparison.unit = comparison.unit or found.unit
        lines |= {line.run: line for line in found.lines}
    comparison.lines = [lines[id] for id in heads if id in lines]
    return answer(request, comparison)


@get("/api/v1/runs/{run:str}/ranks-profile", operation_id="get_ranks_profile", dependencies=ASKED, sync_to_thread=True)
def get_ranks_profile(
    *,
    request: AnyRequest,
    parts: Given,
    who: Who,
    run: FromPath[str],
    asked: OfMetric,
    buckets: Buckets = 1000,
    attempt: FromQuery[int | None] = None,
) -> Response[RankProfile]:
    """Minimum, quantiles and maximum over the ranks by step, and which rank has them."""
    head = parts.runs.head(who.projects, run)
    return answer(request, parts.points.profile(head.project, query_of(head, asked, buckets=buckets, attempt=attempt)))


@get("/api/v1/runs/{run:str}/tail", operation_id="get_tail", dependencies=NARROWED, sync_to_thread=True)
def get_tail(
    *,
    request: AnyRequest,
    parts: Given,
    who: Who,
    run: FromPath[str],
    metric: FromQuery[str],
    narrowed: OfPart,
    last: Annotated[int, QueryParameter(ge=1, le=5000)] = 100,
) -> Response[list[Point]]:
    """The newest points of a metric, oldest first."""
    head = parts.runs.head(who.projects, run)
    query = query_of(head, narrowed, metric=metric)
    return answer(request, parts.points.tail(head.project, query, attempts=head.numbers, last=last))


@get("/api/v1/runs/{run:str}/stats", operation_id="get_stats", dependencies=ASKED | NARROWED, sync_to_thread=True)
def get_stats(
    *,
    request: AnyRequest,
    parts: Given,
    who: Who,
    run: FromPath[str],
    asked: OfMetric,
    x: FromQuery[Axis] = "step",
    narrowed: OfPart,
) -> Response[Stats]:
    """A metric, or a range of it, in numbers."""
    head = parts.runs.head(who.projects, run)
    return answer(request, parts.points.stats(head.project, query_of(head, asked, narrowed, x=x)))


ROUTES = [compare_runs, get_ranks_profile, get_tail, get_stats]
