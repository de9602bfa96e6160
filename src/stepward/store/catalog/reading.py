"""Rows of the catalog as the API's resources."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from stepward.ingest.hearing import Hearing
from stepward.ingest.liveness import Standing, source_state
from stepward.model.resources import Attempt, LatestValue, Run, RunEvent, Source, instant, number
from stepward.model.states import Exit, State
from stepward.model.words import RunKind, SourceKind
from stepward.store.catalog.standing import source_view

Row = Mapping[str, Any]


def maybe_instant(at_us: int | None) -> str | None:
    """``instant``, or None."""
    return None if at_us is None else instant(at_us)


def run_resource(row: Row) -> Run:
    """A row of ``runs``; attempts, latest values, counters and tags are filled in by ``runs``."""
    return Run(
        id=row["id"],
        name=row["name"],
        project=row["project"],
        kind=RunKind(row["kind"]),
        state=State(row["state"]),
        state_reason=row["state_reason"],
        attempts=[],
        latest={},
        tags=[],
        notes=row["notes"],
        created_at=instant(row["created_at"]),
        started_at=instant(row["started_at"]),
        ended_at=maybe_instant(row["ended_at"]),
        last_seen_at=maybe_instant(row["last_seen_at"]),
        step=row["step"],
        key=row["key"],
    )


def attempt_resource(row: Row, nodes: list[str], ranks: int) -> Attempt:
    """A row of ``attempts`` with what its sources add."""
    return Attempt(
        key=row["key"],
        number=row["number"],
        state=State(row["state"]),
        exit_code=row["exit_code"],
        signal=row["signal"],
        reason=row["reason"],
        nodes=nodes,
        ranks=max(ranks, row["world"] or 0),
        started_at=instant(row["started_at"]),
        ended_at=maybe_instant(row["ended_at"]),
        first_step=row["first_step"],
        last_step=row["last_step"],
    )


def latest_value(step: int, value: float | None) -> LatestValue:
    """A value of ``latest``; NULL is NaN there."""
    return LatestValue(step, "NaN" if value is None else number(value))


def source_resource(row: Row, attempt: Row, reaped: Sequence[Exit], hearing: Hearing, now: int) -> Source:
    """A row of ``sources``, judged now; ``reaped`` is what others saw of a rank's end."""
    view = source_view(row)
    if view.kind is SourceKind.RANK:
        view = msgspec.structs.replace(view, exits=[*view.exits, *reaped])
    end = source_state(view, Standing(state=State(attempt["state"])), hearing, now)
    return Source(
        writer=view.writer,
        kind=SourceKind(view.kind),
        attempt=attempt["number"],
        rank=view.rank,
        role=row["role"],
        node=view.node,
        pid=row["pid"],
        state=end.state,
        exit_code=end.exit_code,
        signal=end.signal,
        step=row["step"],
        phase=row["phase"],
        last_seen_at=instant(row["last_seen"]),
        clock_offset_s=row["offset_us"] / 1e6,
        tail=next((exit.tail for exit in reversed(view.exits) if exit.tail), []),
        traceback=next((exit.traceback for exit in reversed(view.exits) if exit.traceback), None),
    )


def run_event(row: Row, attempt: int | None) -> RunEvent:
    """A row of ``events``. What a detector says of ranks and nodes rests in ``data``, its figures below ``figures``."""
    data = msgspec.convert(row["data"], dict[str, Any])
    event = RunEvent(
        id=row["id"],
        type=row["type"],
        started_at=instant(row["started_at"]),
        ended_at=maybe_instant(row["ended_at"]),
        attempt=attempt,
        step=row["step"],
        rank=row["rank"],
        title=row["title"],
        data=data,
    )
    if row.get("detector") is not None:
        event.detector, event.certainty, event.severity = row["detector"], row["certainty"], row["severity"]
        event.detected_at = maybe_instant(data.get("detected_at"))
        event.ranks, event.nodes, event.devices = data.get("ranks", []), data.get("nodes", []), data.get("devices", [])
        event.data = data.get("figures", {})
    return event
