"""Whether the server serves, and numbers about itself for Prometheus."""

from collections.abc import Iterator

from litestar import Response, get

from stepward.api.auth import OPEN, Who
from stepward.api.goodput import gauges
from stepward.api.parts import Given, Parts
from stepward.model.resources import Health, instant
from stepward.store.catalog import Principal


@get("/healthz", operation_id="healthz", opt=OPEN, sync_to_thread=False)
def healthz(parts: Given) -> Health:
    """The process lives."""
    return Health("ok", parts.version, now=instant(parts.clock()))


@get("/readyz", operation_id="readyz", opt=OPEN, sync_to_thread=True)
def readyz(parts: Given) -> Response[Health]:
    """200 where everything works; 503 names what does not."""
    problems = parts.problems()
    health = Health("degraded" if problems else "ok", parts.version, problems, instant(parts.clock()))
    return Response(health, status_code=503 if problems else 200)


@get("/metrics", operation_id="get_server_metrics", media_type="text/plain; version=0.0.4", sync_to_thread=True)
def get_server_metrics(parts: Given, who: Who) -> str:
    """Numbers about the server itself in Prometheus' text format."""
    return "".join(_exposition(parts, who))


def _exposition(parts: Parts, who: Principal) -> Iterator[str]:
    projects = parts.retention.projects(who.projects)
    numbers = [
        ("stepward_frames_committed_total", "counter", "Frames committed.", parts.waiting.frames),
        ("stepward_frame_bytes_total", "counter", "Bytes of committed frames.", parts.waiting.bytes),
        ("stepward_frames_refused_total", "counter", "Frames answered with an error.", parts.waiting.refused),
        ("stepward_frames_waiting", "gauge", "Frames received and not committed yet.", len(parts.waiting)),
        ("stepward_live_clients", "gauge", "Open streams of live updates.", len(parts.live)),
        ("stepward_runs", "gauge", "Runs.", sum(project.runs for project in projects)),
        ("stepward_runs_live", "gauge", "Runs that have not ended.", sum(project.live for project in projects)),
        ("stepward_problems", "gauge", "Things that the server cannot do now.", len(parts.problems())),
        ("stepward_uptime_seconds", "gauge", "Time since the start.", (parts.clock() - parts.started_at) / 1e6),
    ]
    for name, kind, meaning, value in numbers:
        yield f"# HELP {name} {meaning}\n# TYPE {name} {kind}\n{name} {value}\n"
    yield from gauges(parts, who)


ROUTES = [healthz, readyz, get_server_metrics]
