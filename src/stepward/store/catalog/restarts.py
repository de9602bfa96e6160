"""What restarts are decided by: the attempts of runs, what each saved and lost, and the diagnoses of their events."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import sqlalchemy as sa

from stepward.model.launches import attempt_numbers
from stepward.model.states import State
from stepward.store.catalog.database import Database
from stepward.store.catalog.schema import attempts, diagnoses, events

_AT_ONCE = 500


class AttemptFacts(NamedTuple):
    """An attempt; ``saved`` is the newest step whose checkpoint it made durable, ``lost_nodes`` those that failed under it."""

    number: int
    state: State
    started_at: int
    last_step: int | None
    saved: int | None
    lost_nodes: tuple[str, ...]


class DiagnosedEvent(NamedTuple):
    """A confirmed hardware fault, or a hang that lasts, and the document (JSON) of the diagnosis that was made for it."""

    event: str
    attempt: int
    document: bytes


class RestartFacts(NamedTuple):
    """A run; attempts in the order of their numbers."""

    run: str
    attempts: list[AttemptFacts]
    events: list[DiagnosedEvent]


def restart_facts(database: Database, of: Iterable[str]) -> dict[str, RestartFacts]:
    """The facts of those runs that have had a second attempt or a diagnosed event; most have neither and cost next to nothing."""
    found: dict[str, RestartFacts] = {}
    with database.read() as connection:
        for run in _eventful(connection, list(of)):
            rows = connection.execute(sa.select(attempts).where(attempts.c.run == run).order_by(attempts.c.number))
            known = [dict(row) for row in rows.mappings()]
            if known:
                numbers = attempt_numbers((row["key"], row["number"]) for row in known)
                found[run] = RestartFacts(
                    run, _attempts(connection, run, known, numbers), _diagnosed(connection, run, numbers)
                )
    return found


def _eventful(connection: sa.Connection, of: Sequence[str]) -> list[str]:
    found: set[str] = set()
    for at in range(0, len(of), _AT_ONCE):
        some = of[at : at + _AT_ONCE]
        again = sa.select(attempts.c.run).where(attempts.c.run.in_(some), attempts.c.number > 1)
        judged = sa.select(diagnoses.c.run).where(diagnoses.c.run.in_(some), diagnoses.c.event != "")
        found |= {row.run for row in connection.execute(sa.union(again, judged))}
    return sorted(found)


def _attempts(
    connection: sa.Connection, run: str, known: Sequence[dict[str, object]], numbers: dict[str, int]
) -> list[AttemptFacts]:
    saved: dict[int, int] = {}
    durable = sa.select(events.c.attempt, sa.func.max(events.c.step).label("step")).where(
        events.c.run == run, events.c.type == "checkpoint_durable", events.c.step.is_not(None)
    )
    for row in connection.execute(durable.group_by(events.c.attempt)):
        number = numbers.get(row.attempt, 0)
        saved[number] = max(saved.get(number, row.step), row.step)
    lost: dict[int, set[str]] = {}
    failed = sa.select(events.c.attempt, events.c.data).where(events.c.run == run, events.c.type == "node_failed")
    for row in connection.execute(failed):
        lost.setdefault(numbers.get(row.attempt, 0), set()).update(map(str, row.data.get("nodes") or ()))
    return [
        AttemptFacts(
            number=number,
            state=State(str(row["state"])),
            started_at=int(str(row["started_at"])),
            last_step=None if row["last_step"] is None else int(str(row["last_step"])),
            saved=saved.get(number),
            lost_nodes=tuple(sorted(lost.get(number, ()))),
        )
        for row in known
        for number in [int(str(row["number"]))]
    ]


def _diagnosed(connection: sa.Connection, run: str, numbers: dict[str, int]) -> list[DiagnosedEvent]:
    query = (
        sa.select(events.c.id, events.c.attempt, diagnoses.c.document)
        .join(diagnoses, sa.and_(diagnoses.c.run == events.c.run, diagnoses.c.event == events.c.id))
        .where(
            events.c.run == run,
            events.c.certainty == "confirmed",
            sa.or_(events.c.type == "hardware_fault", sa.and_(events.c.type == "hang", events.c.ended_at.is_(None))),
        )
        .order_by(events.c.started_at, events.c.id)
    )
    return [DiagnosedEvent(row.id, numbers.get(row.attempt, 0), row.document) for row in connection.execute(query)]
