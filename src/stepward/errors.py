"""Every error that stepward raises on purpose, each with a stable code.

StepwardError
├─ UsageError            the caller's mistake: argument, flag, setting, malformed input
├─ NotFound              the named thing does not exist (or may not be seen)
├─ Conflict              the request contradicts the present state; carries what would fit
├─ Unauthenticated       no credential, or one that is not known
├─ PermissionDenied      a known credential that may not do this
├─ TooLarge              a body or an answer beyond its limit
├─ IncompatibleVersion   peers too far apart; says which to upgrade
├─ Unavailable           server, store or orchestrator out of reach; has ``retry_after_s``
├─ StorageFull           no space left; what was accepted before is safe
├─ CommandFailed         an external command: argv, exit code, tail of its stderr
├─ ParseError            foreign output that was not understood; keeps a sample
└─ MissingExtra          an optional dependency is absent; names the pip line

The classes say *who can mend it*; the ``code`` says *what it is*. The table ``OUTCOMES`` is the one place where classes
meet HTTP statuses and exit codes.
"""

from typing import Any


class StepwardError(Exception):
    """Base of all errors.

    Args:
        message: what happened and where, one sentence.
        code: stable snake_case identifier, documented in ``docs/errors.md``.
        hint: what to do about it.
        context: JSON-able details, sent along in problem documents.
    """

    def __init__(self, message: str, *, code: str, hint: str | None = None, **context: Any) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.hint = hint
        self.context = context

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


class UsageError(StepwardError):
    """The caller's mistake."""


class NotFound(StepwardError):
    """The named thing does not exist, or the caller may not see it."""


class Conflict(StepwardError):
    """The request contradicts the present state."""


class Unauthenticated(StepwardError):
    """No credential, or an unknown one."""


class PermissionDenied(StepwardError):
    """A known credential that may not do this."""


class TooLarge(StepwardError):
    """A body or an answer beyond its limit."""


class IncompatibleVersion(StepwardError):
    """Peers too far apart."""


class Unavailable(StepwardError):
    """Out of reach for now; ``retry_after_s`` says when to try again."""

    def __init__(
        self, message: str, *, code: str, hint: str | None = None, retry_after_s: float = 1.0, **context: Any
    ) -> None:
        super().__init__(message, code=code, hint=hint, **context)
        self.retry_after_s = retry_after_s


class StorageFull(StepwardError):
    """No space left on the device that holds the data."""


class CommandFailed(StepwardError):
    """An external command ended badly."""


class ParseError(StepwardError):
    """Foreign output that was not understood."""


class MissingExtra(StepwardError, ImportError):
    """An optional dependency is absent."""

    def __init__(self, module: str, extra: str) -> None:
        super().__init__(
            f"{module} is not installed",
            code="missing_extra",
            hint=f"pip install 'stepward[{extra}]'",
            module=module,
            extra=extra,
        )


# class -> (HTTP status, exit code of the CLI)
OUTCOMES: dict[type[StepwardError], tuple[int, int]] = {
    UsageError: (400, 2),
    NotFound: (404, 1),
    Conflict: (409, 1),
    Unauthenticated: (401, 1),
    PermissionDenied: (403, 1),
    TooLarge: (413, 1),
    IncompatibleVersion: (426, 1),
    Unavailable: (503, 75),
    StorageFull: (507, 75),
    CommandFailed: (502, 1),
    ParseError: (422, 1),
    MissingExtra: (501, 2),
    StepwardError: (500, 1),
}


def http_status(error: StepwardError) -> int:
    """The HTTP status that stands for ``error``."""
    return OUTCOMES[type(error)][0]


def exit_code(error: StepwardError) -> int:
    """The exit code with which the CLI ends on ``error``."""
    return OUTCOMES[type(error)][1]


def from_problem(status: int, problem: dict[str, Any]) -> StepwardError:
    """Rebuild, from an RFC 9457 problem document, the error that the server raised.

    An unknown status becomes a plain ``StepwardError`` so that a newer server never breaks an older client; nor does any
    member of the document, whoever wrote it. When to try again is said by the ``Retry-After`` header, not by the document.
    """
    message = str(problem.get("detail") or problem.get("title") or f"HTTP {status}")
    code = str(problem.get("code") or f"http_{status}")
    hint = problem.get("hint")
    kind = next((kind for kind, (other, _) in OUTCOMES.items() if other == status and kind is not MissingExtra), None)
    error = (kind or StepwardError)(message, code=code, hint=None if hint is None else str(hint))
    error.context = {key: value for key, value in problem.items() if key not in _PROBLEM_FIELDS}
    return error


_PROBLEM_FIELDS = frozenset({"type", "title", "status", "detail", "instance", "code", "hint"})
