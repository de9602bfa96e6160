"""Goodput of a run, and of runs side by side."""

import re
from collections.abc import Iterator

from litestar import Response, get
from litestar.params import FromPath, FromQuery

from stepward.api.accounts import by_project
from stepward.api.answer import AnyRequest, answer
from stepward.api.auth import Who, visible_project
from stepward.api.parts import Given, Parts
from stepward.errors import UsageError
from stepward.goodput.answers import FleetGoodput, RunGoodput
from stepward.store.catalog import Principal

_SPAN = re.compile(r"([0-9]{1,6})([smhd])")
DAY_US = 86_400_000_000
SCRAPE_S = 1.0
"""Time that a scrape computes for ledgers that are not at hand, s."""
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


@get("/api/v1/runs/{run:str}/goodput", operation_id="get_run_goodput", sync_to_thread=True)
def get_run_goodput(request: AnyRequest, parts: Given, who: Who, run: FromPath[str]) -> Response[RunGoodput]:
    """Where every second of a run went."""
    return answer(request, parts.accounts.run(who.projects, run))


@get("/api/v1/goodput", operation_id="get_goodput", sync_to_thread=True)
def get_goodput(
    request: AnyRequest,
    parts: Given,
    who: Who,
    project: FromQuery[str | None] = None,
    since: FromQuery[str | None] = None,
) -> Response[FleetGoodput]:
    """Where the device time of the runs went that were alive in the last ``since`` (``24h``, ``7d``)."""
    if project is not None:
        visible_project(who, project)
    begin = None if since is None else parts.clock() - span_us(since)
    return answer(request, parts.accounts.fleet(who.projects, project, begin))


def gauges(parts: Parts, who: Principal) -> Iterator[str]:
    """Device seconds by bucket of the runs alive in the last day, and the share that was productive, for Prometheus."""
    found = parts.accounts.fleet(who.projects, None, parts.clock() - DAY_US, SCRAPE_S)
    projects = {fleet.runs[0].project: fleet for fleet in by_project(found)}
    yield "# HELP stepward_goodput_ratio Productive share of device time, runs alive in the last day.\n"
    yield "# TYPE stepward_goodput_ratio gauge\n"
    for project, fleet in projects.items():
        if fleet.overall_device is not None:
            yield f"stepward_goodput_ratio{{project={_label(project)}}} {fleet.overall_device}\n"
    yield "# HELP stepward_goodput_device_seconds Device seconds by bucket, runs alive in the last day.\n"
    yield "# TYPE stepward_goodput_device_seconds gauge\n"
    for project, fleet in projects.items():
        for bucket, seconds in fleet.buckets_device_s.items():
            yield f"stepward_goodput_device_seconds{{project={_label(project)},bucket={_label(bucket)}}} {seconds}\n"
    yield "# HELP stepward_goodput_pending_runs Runs alive in the last day whose account is still being computed.\n"
    yield "# TYPE stepward_goodput_pending_runs gauge\n"
    yield f"stepward_goodput_pending_runs {found.pending}\n"


def _label(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def span_us(text: str) -> int:
    """A duration such as ``90m`` or ``7d`` in µs.

    Raises:
        UsageError: ``bad_since``.
    """
    found = _SPAN.fullmatch(text)
    if found is None:
        raise UsageError(f"{text!r} is no duration", code="bad_since", hint="a number and s, m, h or d, such as 7d")
    return int(found[1]) * _SECONDS[found[2]] * 1_000_000


ROUTES = [get_run_goodput, get_goodput]
