"""Every error as an RFC 9457 problem document with a stable ``code`` (``docs/errors.md``).

An error that nobody foresaw becomes ``internal_error`` with a number under which the log has its traceback; nothing of it
is shown to the caller.
"""

import logging
from typing import Any

import msgspec
from litestar import Request, Response
from litestar.exceptions import (
    HTTPException,
    MethodNotAllowedException,
    NotFoundException,
    ValidationException,
)

from stepward.errors import StepwardError, Unavailable, http_status
from stepward.model.identity import ulid
from stepward.model.resources import number

MEDIA_TYPE = "application/problem+json"
_TITLES = {
    400: "Bad request",
    401: "Not signed in",
    403: "Not allowed",
    404: "Not found",
    405: "Method not allowed",
    409: "Conflict",
    413: "Too large",
    422: "Not understood",
    426: "Versions too far apart",
    429: "Too many requests",
    500: "Internal error",
    501: "Not installed",
    502: "A command failed",
    503: "Unavailable",
    507: "Disk full",
}
_log = logging.getLogger("stepward.api")


def document(status: int, detail: str, code: str, hint: str | None = None, **context: Any) -> dict[str, Any]:
    """The members of a problem document; context never hides a standard member."""
    problem = {**_finite(context), "type": f"urn:stepward:error:{code}", "title": _TITLES.get(status, "Error")}
    problem |= {"status": status, "detail": detail, "code": code}
    return problem | ({"hint": hint} if hint else {})


def of_error(error: StepwardError) -> tuple[dict[str, Any], dict[str, str]]:
    """Document and headers of one of our errors."""
    status = http_status(error)
    headers = {}
    if isinstance(error, Unavailable):
        headers["Retry-After"] = str(max(1, round(error.retry_after_s)))
    elif status == 507:
        headers["Retry-After"] = "5"
    elif status == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="stepward"'
    return document(status, error.message, error.code, error.hint, **error.context), headers


def on_stepward_error(_request: Request[Any, Any, Any], error: StepwardError) -> Response[bytes]:
    """Handler of our own errors."""
    problem, headers = of_error(error)
    return _answer(problem, headers)


def on_http_error(request: Request[Any, Any, Any], error: HTTPException) -> Response[bytes]:
    """Handler of the framework's errors: unknown routes, wrong methods, parameters that do not fit."""
    path, status = request.url.path, error.status_code
    if isinstance(error, NotFoundException):
        return _answer(document(404, f"there is nothing at {path}", "no_such_route", "/api/v1/openapi.json lists it"))
    if isinstance(error, MethodNotAllowedException):
        problem = document(405, f"{request.method} is not for {path}", "method_not_allowed")
        return _answer(problem, dict(error.headers or {}))
    if isinstance(error, ValidationException):
        fields = [dict(item) for item in error.extra or [] if isinstance(item, dict)]
        said = "; ".join(f"{item.get('key', 'body')}: {item.get('message')}" for item in fields)
        return _answer(document(400, said or error.detail, "bad_request", fields=fields))
    if status == 413:
        return _answer(document(413, "the body is larger than this route takes", "body_too_large"))
    return _answer(document(status, error.detail, f"http_{status}" if status != 400 else "bad_request"))


def on_any_error(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    """Handler of what nobody foresaw."""
    if isinstance(error, RecursionError) and "deserializing" in str(error):
        # The framework knows msgspec's other refusals of a body, not this one.
        return _answer(document(400, "the body is nested too deeply", "bad_request"))
    number_ = ulid()
    _log.error("%s %s failed (%s)", request.method, request.url.path, number_, exc_info=error)
    detail = f"the server failed; its log has the reason under {number_}"
    return _answer(document(500, detail, "internal_error", number=number_))


def _answer(problem: dict[str, Any], headers: dict[str, str] | None = None) -> Response[bytes]:
    content = msgspec.json.encode(problem)
    return Response(content, status_code=problem["status"], media_type=MEDIA_TYPE, headers=headers)


def _finite(context: dict[str, Any]) -> dict[str, Any]:
    return {key: number(value) if isinstance(value, float) else value for key, value in context.items()}
