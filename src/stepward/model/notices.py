"""Notices: who is told what, what was told, and what is not to be told for a while."""

from typing import Any, Literal

import msgspec

Severity = Literal["info", "warning", "critical"]
SEVERITIES: tuple[Severity, ...] = ("info", "warning", "critical")
NoticeState = Literal["waiting", "sent", "failed", "silenced"]


class NoticeFilter(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What a route tells; None: whatever it is.

    Attributes:
        projects: of these projects.
        types: events of these types.
        severity: events from this severity on.
        states: ends of attempts in these states; an empty list: none.
    """

    projects: list[str] | None = None
    types: list[str] | None = None
    severity: Severity = "warning"
    states: tuple[str, ...] = ("failed", "crashed", "oom", "timeout", "lost")


class NoticeRoute(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Where notices go.

    Attributes:
        name: letters, digits, ``-`` and ``_``.
        kind: ``webhook`` posts JSON that Slack takes; ``command`` runs a program and gives it JSON on its input.
        url: of the webhook; answers of the API show only its host.
        argv: of the command, without a shell; only the file can have one.
        group_s: what happens within this is one message.
        per_hour: messages within an hour; beyond, what happens is gathered until there is room.
        timeout_s: how long one attempt to tell may take.
        recovery: whether it is told that an event is over.
    """

    name: str
    kind: Literal["webhook", "command"]
    url: str = ""
    argv: list[str] = []
    filter: NoticeFilter = NoticeFilter()
    group_s: float = 20.0
    per_hour: int = 60
    timeout_s: float = 10.0
    recovery: bool = True


class KnownRoute(msgspec.Struct, kw_only=True):
    """A route with where it comes from: ``file`` (``notices.toml``) or ``api``."""

    route: NoticeRoute
    origin: Literal["file", "api"]


class NoticeItem(msgspec.Struct, kw_only=True):
    """One thing that a notice tells. ``phase``: an event ``began`` or is over (``ended``), an attempt came to its ``end``."""

    run: str
    project: str
    event: str
    phase: Literal["began", "ended", "end"]
    type: str
    severity: Severity
    title: str
    at: str
    data: dict[str, Any] = {}


class Notice(msgspec.Struct, kw_only=True):
    """A message of a route; ``error`` says why the newest attempt to tell it failed."""

    id: str
    route: str
    state: NoticeState
    made_at: str
    due_at: str
    sent_at: str | None = None
    tries: int = 0
    error: str | None = None
    items: list[NoticeItem] = []


class NewSilence(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What is not to be told for ``for_s`` seconds: of a project, a run, a type, or all of these together."""

    for_s: float
    project: str | None = None
    run: str | None = None
    type: str | None = None
    reason: str = ""


class Silence(msgspec.Struct, kw_only=True):
    """What is not told until then."""

    id: str
    until: str
    made_by: str
    project: str | None = None
    run: str | None = None
    type: str | None = None
    reason: str = ""


class Told(msgspec.Struct):
    """How a test message went; ``error`` None where it arrived."""

    error: str | None = None
