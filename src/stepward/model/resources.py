"""The JSON of the API, one struct a resource: what the server answers, the client reads and the UI's types come from.

What is drawn is in ``points``, what a live stream tells in ``updates``.

Instants are RFC 3339 strings in UTC with microseconds; durations are floats named ``_s``; numbers that are not finite
are the strings "NaN", "Infinity", "-Infinity" (JSON has no others).
"""

import math
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import msgspec

from stepward.model.states import State
from stepward.model.words import RunKind, SourceKind, TokenKind

Number = float | Literal["NaN", "Infinity", "-Infinity"]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def number(value: float) -> Number:
    """A float as JSON can carry it."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def instant(at_us: int) -> str:
    """µs since the epoch as ``2026-12-01T09:30:00.000000Z``; clamped to the years 1-9999."""
    try:
        moment = _EPOCH + timedelta(microseconds=at_us)
    except OverflowError:
        moment = datetime.max if at_us > 0 else datetime.min
    return moment.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def microseconds(moment: str) -> int:
    """µs since the epoch of an instant as ``instant`` writes it."""
    return round((datetime.fromisoformat(moment) - _EPOCH) / timedelta(microseconds=1))


class LatestValue(msgspec.Struct):
    """Newest value of a metric: at the highest step of the surviving history, lowest rank that has it."""

    step: int
    value: Number


class Attempt(msgspec.Struct, kw_only=True):
    """One launch of a run."""

    key: str
    number: int
    state: State
    exit_code: int | None = None
    signal: str | None = None
    reason: str | None = None
    nodes: list[str] = []
    ranks: int = 0
    started_at: str | None = None
    ended_at: str | None = None
    first_step: int | None = None
    last_step: int | None = None


class Run(msgspec.Struct, kw_only=True):
    """A run with its attempts; what ``show`` and ``ls`` print.

    Attributes:
        latest: newest values, in lists and live updates of the metrics asked for alone.
        latest_left_out: metrics that have a newest value, too.
    """

    id: str
    name: str
    project: str
    kind: RunKind
    state: State
    state_reason: str | None = None
    attempts: list[Attempt] = []
    latest: dict[str, LatestValue] = {}
    latest_left_out: int = 0
    pending: int = 0
    dropped: int = 0
    gaps: int = 0
    tags: list[str] = []
    notes: str = ""
    created_at: str
    started_at: str | None = None
    ended_at: str | None = None
    last_seen_at: str | None = None
    step: int | None = None
    key: str | None = None


class RunPage(msgspec.Struct):
    """A page of runs; ``next`` is the cursor of the following page. ``total`` counts what the filter matches."""

    items: list[Run]
    total: int
    next: str | None = None


class RunChange(msgspec.Struct, omit_defaults=True):
    """What people may change of a run; a field that is absent stays."""

    name: str | msgspec.UnsetType = msgspec.UNSET
    tags: list[str] | msgspec.UnsetType = msgspec.UNSET
    notes: str | msgspec.UnsetType = msgspec.UNSET


class RunConfig(msgspec.Struct):
    """The three trees of a run; numbers in them that are not finite are strings."""

    user: dict[str, Any] = {}
    software: dict[str, Any] = {}
    system: dict[str, Any] = {}


class Source(msgspec.Struct, kw_only=True):
    """A writer of a run, and when it was last heard."""

    writer: str
    kind: SourceKind
    attempt: int
    rank: int | None = None
    role: str = "trainer"
    node: str = ""
    pid: int = 0
    state: State
    exit_code: int | None = None
    signal: str | None = None
    step: int | None = None
    phase: str | None = None
    last_seen_at: str | None = None
    clock_offset_s: float = 0.0
    tail: list[str] = []
    traceback: str | None = None


class LogLine(msgspec.Struct, kw_only=True):
    """One line of output. ``repeats`` > 1: the line stands for that many alike (``n_last`` is the last one's number).

    ``truncated`` is the number of characters that are not in ``text``.
    """

    n: int
    text: str
    at: str | None = None
    n_last: int | None = None
    repeats: int = 1
    truncated: int = 0


class LogStream(msgspec.Struct, kw_only=True):
    """A stream of output of one source of one attempt; ``id`` names it in queries."""

    id: str
    stream: str
    attempt: int
    rank: int | None = None
    node: str = ""
    lines: int = 0
    bytes: int = 0
    lost_bytes: int = 0
    last_at: str | None = None


class LogPage(msgspec.Struct, kw_only=True):
    """Lines of a stream in order. ``matches`` counts hits of a search over the whole stream, None without a search."""

    stream: LogStream
    lines: list[LogLine]
    first_n: int | None = None
    last_n: int | None = None
    matches: int | None = None


class RunEvent(msgspec.Struct, kw_only=True):
    """An event of a run, as its writer or a detector reported it.

    Attributes:
        ended_at: None where it is an instant, or where a detector says that it lasts.
        run: where events of several runs are shown.
        detector: name and version of the detector; None where a writer reported it, which has none of the following.
        certainty: ``suspected``, then ``confirmed`` or ``withdrawn``.
        severity: ``info``, ``warning``, ``critical``.
        detected_at: instant of what made the detector say this.
        ranks, nodes, devices: whom it is about; empty where it cannot be localised (``data["unknown"]`` says why).
        data: a writer's own words, or a detector's figures.
    """

    id: str
    type: str
    started_at: str
    ended_at: str | None = None
    attempt: int | None = None
    step: int | None = None
    rank: int | None = None
    title: str = ""
    data: dict[str, Any] = {}
    run: str | None = None
    run_name: str | None = None
    project: str | None = None
    detector: str | None = None
    certainty: str | None = None
    severity: str | None = None
    detected_at: str | None = None
    ranks: list[int] = []
    nodes: list[str] = []
    devices: list[int] = []


class EventPage(msgspec.Struct):
    """Events of several runs, the newest first; ``next`` is the cursor of the following page."""

    items: list[RunEvent]
    next: str | None = None


class ChangedEvent(msgspec.Struct):
    """An event as it was, and as it is judged now."""

    was: RunEvent
    now: RunEvent


class Reprocessing(msgspec.Struct, kw_only=True):
    """A stored run that is judged again, and what that changes of its detectors' events.

    Attributes:
        error: why it failed.
    """

    id: str
    run: str
    dry_run: bool
    state: Literal["queued", "running", "done", "failed"] = "queued"
    error: str | None = None
    added: list[RunEvent] = []
    removed: list[RunEvent] = []
    changed: list[ChangedEvent] = []
    unchanged: int = 0


class ProjectRules(msgspec.Struct, kw_only=True):
    """The rules by which a project's people judge metrics: the TOML of docs/detect.md, and the names in it."""

    project: str
    text: str = ""
    names: list[str] = []
    changed_at: str | None = None
    changed_by: str | None = None


class RulesChange(msgspec.Struct):
    """New rules in place of all old ones, as TOML."""

    text: str


class Project(msgspec.Struct, kw_only=True):
    """A tenant.

    Attributes:
        retention_s: runs that ended longer ago are deleted; None keeps them.
        expired: runs of which that is true now: the next minutes delete them.
    """

    name: str
    runs: int = 0
    live: int = 0
    created_at: str
    retention_s: float | None = None
    expired: int = 0


class ProjectChange(msgspec.Struct, omit_defaults=True):
    """What may be changed of a project; a field that is absent stays. ``retention_s`` None keeps runs for ever."""

    retention_s: float | msgspec.UnsetType | None = msgspec.UNSET


class Token(msgspec.Struct, kw_only=True):
    """A credential. ``secret`` is there once, in the answer that creates it."""

    id: str
    name: str
    kind: TokenKind
    projects: list[str] | None = None
    created_at: str
    last_used_at: str | None = None
    expires_at: str | None = None
    secret: str | None = None


class NewToken(msgspec.Struct, kw_only=True):
    """A token to create; ``projects`` None means all."""

    name: str
    kind: TokenKind
    projects: list[str] | None = None
    expires_in_s: float | None = None


class Session(msgspec.Struct, kw_only=True):
    """Who is asking, and what the server is."""

    kind: TokenKind
    name: str
    projects: list[str] | None = None
    version: str
    started_at: str


class LoginLink(msgspec.Struct):
    """A one-time link that signs a browser in."""

    url: str
    expires_at: str


class Login(msgspec.Struct):
    """A secret: that of a one-time link, or a token."""

    secret: str


class Accepted(msgspec.Struct, kw_only=True):
    """Answer to a frame: committed. ``end`` is the position that the writer's next frame must begin at."""

    end: int
    server_time: int


class JobClaim(msgspec.Struct, kw_only=True):
    """A run that says which job it runs in. ``seq`` grows from claim to claim; ``covered``: its output comes from inside."""

    seq: int
    job: str
    project: str
    run: str
    covered: bool = False


class Backup(msgspec.Struct):
    """A finished backup on the server's disk."""

    path: str
    bytes: int
    created_at: str


class Health(msgspec.Struct):
    """Whether the server serves; ``problems`` names what it can't do now (a full disk, say).

    ``now`` is the server's clock when it answered: ``stepward doctor`` compares its own.
    """

    status: Literal["ok", "degraded"]
    version: str
    problems: list[str] = []
    now: str | None = None
