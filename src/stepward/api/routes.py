"""The list of what there is, as one Litestar application."""

from collections.abc import Sequence

from litestar import Litestar
from litestar.di import Provide
from litestar.exceptions import HTTPException
from litestar.handlers import BaseRouteHandler
from litestar.openapi import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin
from litestar.types import LifespanHook

from stepward.api import (
    actions,
    backups,
    claims,
    clusters,
    diagnoses,
    events,
    goodput,
    health,
    ingest,
    jobs,
    logs,
    measures,
    nodes,
    notices,
    points,
    projects,
    runs,
    session,
    tokens,
    updates,
)
from stepward.api.answer import AnyRequest
from stepward.api.auth import guard, principal_of
from stepward.api.parts import Parts
from stepward.api.problems import on_any_error, on_http_error, on_stepward_error
from stepward.errors import StepwardError
from stepward.store.catalog import Principal

MODULES = (
    actions, backups, claims, clusters, diagnoses, events, goodput, health, ingest, jobs, logs, measures, nodes, notices,
    points, projects, runs, session, tokens, updates,
)  # fmt: skip


def application(
    parts: Parts,
    *,
    more: Sequence[BaseRouteHandler] = (),
    on_startup: Sequence[LifespanHook] = (),
    on_shutdown: Sequence[LifespanHook] = (),
) -> Litestar:
    """The API over ``parts``; ``more`` are handlers that are no part of it (the UI's files)."""
    app = Litestar(
        route_handlers=[*(route for module in MODULES for route in module.ROUTES), *more],
        guards=[guard],
        dependencies={
            "parts": Provide(_parts, sync_to_thread=False),
            "who": Provide(_who, sync_to_thread=False),
        },
        exception_handlers={
            StepwardError: on_stepward_error,
            HTTPException: on_http_error,
            Exception: on_any_error,
        },
        openapi_config=OpenAPIConfig(
            title="stepward",
            version="1",
            # The document is the whole of this path, so that unknown routes beside it stay ours to answer.
            path="/api/v1/openapi.json",
            render_plugins=[JsonRenderPlugin(path="/")],
            use_handler_docstrings=True,
        ),
        on_startup=list(on_startup),
        on_shutdown=list(on_shutdown),
        logging_config=None,
        debug=False,
    )
    app.state["parts"] = parts
    return app


def _parts(request: AnyRequest) -> Parts:
    parts: Parts = request.app.state["parts"]
    return parts


def _who(request: AnyRequest) -> Principal:
    return principal_of(request)
