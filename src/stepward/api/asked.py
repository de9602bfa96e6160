"""What questions about a metric have in common: read from the query of a request in one place."""

from typing import Annotated, Any, TypeAlias

import msgspec
from litestar.di import NamedDependency, Provide
from litestar.params import FromQuery, QueryParameter

from stepward.store.catalog import RunHead
from stepward.store.points.protocol import MAX_BUCKETS, AttemptSpan, ChartQuery

Buckets: TypeAlias = Annotated[int, QueryParameter(ge=1, le=MAX_BUCKETS)]
"""How many buckets a chart has at most."""


class Asked(msgspec.Struct, frozen=True):
    """A metric and a range of it; the fields of ``ChartQuery`` of the same names."""

    metric: str
    start: float | None
    end: float | None


class Narrowed(msgspec.Struct, frozen=True):
    """One rank or device of a metric, or all; the fields of ``ChartQuery`` of the same names."""

    rank: int | None
    device: int | None


def _asked(metric: FromQuery[str], start: FromQuery[float | None] = None, end: FromQuery[float | None] = None) -> Asked:
    return Asked(metric, start, end)


def _narrowed(rank: FromQuery[int | None] = None, device: FromQuery[int | None] = None) -> Narrowed:
    return Narrowed(rank, device)


ASKED = {"asked": Provide(_asked, sync_to_thread=False)}
NARROWED = {"narrowed": Provide(_narrowed, sync_to_thread=False)}
"""For a handler's ``dependencies``."""

OfMetric: TypeAlias = NamedDependency[Asked]
OfPart: TypeAlias = NamedDependency[Narrowed]


def query_of(head: RunHead, *given: Asked | Narrowed, **more: Any) -> ChartQuery:
    """A question about a run: what a request asked, and the history that stitches its attempts."""
    fields = {name: value for one in given for name, value in msgspec.structs.asdict(one).items()}
    return ChartQuery(run=head.id, history=history_of(head), run_started_us=head.started_at, **(fields | more))


def history_of(head: RunHead) -> list[AttemptSpan]:
    """The attempts of a run, for stitching."""
    return [AttemptSpan(row["key"], row["number"], row["first_step"], row["started_at"]) for row in head.attempts]
