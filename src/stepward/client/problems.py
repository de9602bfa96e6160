"""From an answer that is no success to the error that it means, whoever gave it: our server, a proxy, or a stranger."""

from collections.abc import Mapping
from typing import Any

import msgspec

from stepward.errors import StepwardError, Unavailable, UsageError, from_problem

LONGEST_WAIT_S = 3600.0
"""Whoever asks for a longer wait, or for ``inf``, is not believed."""
_LATER = frozenset({429, 502, 503, 504})
"""Statuses that a proxy or a busy server gives without a problem document: later it may be another."""


def error_of(where: str, status: int, headers: Mapping[str, str], body: bytes) -> StepwardError:
    """The error that the server raised, of the same class; ``where`` says what was asked of whom."""
    problem = _problem(body)
    if problem is not None:
        error = from_problem(status, problem)
        if isinstance(error, Unavailable):
            wait = retry_seconds(headers.get("retry-after"))
            error.retry_after_s = error.retry_after_s if wait is None else wait
        return error
    if 300 <= status < 400:
        there = headers.get("location", "elsewhere")
        return UsageError(f"{where}: moved to {there}", code="bad_server_url", hint=f"use {there} as the server")
    if status in _LATER:
        wait = retry_seconds(headers.get("retry-after"))
        return Unavailable(
            f"{where}: HTTP {status}", code="server_unavailable", retry_after_s=1.0 if wait is None else wait
        )
    hint = "is this a stepward server, and its --root-path part of the URL?"
    return from_problem(status, {"detail": f"{where}: HTTP {status}", "hint": hint})


def _problem(body: bytes) -> dict[str, Any] | None:
    try:
        problem = msgspec.json.decode(body, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return problem if "code" in problem or "detail" in problem else None


def retry_seconds(text: str | None) -> float | None:
    """A ``Retry-After`` in seconds; None for a date, for what is no number, and for more than is waited for."""
    try:
        wait = float(text or "")
    except ValueError:
        return None
    return wait if 0 <= wait <= LONGEST_WAIT_S else None
