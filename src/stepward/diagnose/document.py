"""The document of a diagnosis, ``stepward.diagnosis/1``: what ``--format json`` prints and a server stores.

Every list is there, empty where there is nothing; times are RFC 3339 or null where a log has no date.
"""

from typing import Literal

import msgspec

SCHEMA = "stepward.diagnosis/1"

Outcome = Literal["healthy", "degraded", "failed", "unknown"]
Verdict = Literal["bad", "ok", "unknown"]


class InputNote(msgspec.Struct):
    """What one input was understood as; ``why`` says what kept it from being read."""

    source: str
    kind: str
    rank: int | None = None
    node: str | None = None
    lines: int = 0
    first_t: str | None = None
    last_t: str | None = None
    encoding: str = "utf-8"
    truncated: bool = False
    why: str | None = None


class ChartWindow(msgspec.Struct):
    """Where to look in a chart."""

    metric: str
    from_t: str
    to_t: str


class Evidence(msgspec.Struct):
    """A line that proves something, with its repeats.

    Of a run that a server keeps, ``stream`` is the id of the stream of output in which the line stands (of the run of a node,
    ``stream_run``, where it is not the run's own), ``event`` the event that a detector told, ``chart`` what a measurement
    looks like; each null where there is none.
    """

    kind: str
    source: str
    line: int
    last_line: int
    count: int
    time: str | None
    rank: int | None
    node: str | None
    text: str
    stream: str | None = None
    stream_run: str | None = None
    event: str | None = None
    chart: ChartWindow | None = None


class Suspects(msgspec.Struct):
    """Who is to be looked at; empty where nobody is to blame by name."""

    nodes: list[str] = []
    ranks: list[int] = []
    devices: list[str] = []


class Secondary(msgspec.Struct):
    """A symptom that the cause explains, and on how many ranks it was seen."""

    text: str
    ranks: int


class Cause(msgspec.Struct):
    """One explanation. ``label`` is null for a candidate that is only the first error by time."""

    label: str | None
    layer: str | None
    confidence: float
    decided_by: str
    summary: str
    evidence: list[Evidence]
    suspects: Suspects
    secondary: list[Secondary] = []
    remediation: list[str] = []


class EventNote(msgspec.Struct):
    """Something that happened over an interval, by the words of the event types."""

    type: str
    text: str
    rank: int | None = None
    node: str | None = None


class RuledOut(msgspec.Struct):
    """A label that something spoke for, and why it is not the cause."""

    label: str
    why: str


class Unknown(msgspec.Struct):
    """An analyzer that cannot answer, and what it lacks."""

    analyzer: str
    why: str


class Finding(msgspec.Struct):
    """One analyzer's answer about its layer."""

    analyzer: str
    layer: str
    verdict: Verdict
    why: str


class Episode(msgspec.Struct):
    """One attempt that the logs show, oldest first; the last one's causes are those of the document."""

    number: int
    source: str
    line: int
    label: str | None
    summary: str


class StoredDiagnosis(msgspec.Struct, kw_only=True):
    """A diagnosis that a server made, of one attempt of a run.

    ``event`` is the event that it was made for, null where it was the attempt's end or somebody's wish; ``version`` is
    that of the rules (``engine.VERSION``).
    """

    run: str
    attempt: int | None
    event: str | None
    made_at: str
    version: int
    document: "Document"


class Document(msgspec.Struct):
    """A whole diagnosis."""

    schema: str = SCHEMA
    outcome: Outcome = "unknown"
    ended: bool | None = None
    inputs: list[InputNote] = []
    causes: list[Cause] = []
    candidates: list[Cause] = []
    events: list[EventNote] = []
    ruled_out: list[RuledOut] = []
    unknown: list[Unknown] = []
    findings: list[Finding] = []
    episodes: list[Episode] = []
