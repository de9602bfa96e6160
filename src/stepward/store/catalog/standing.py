"""Judging attempts and runs: rows of sources in, states out, by the pure rules of ``stepward.ingest.liveness``.

Called in two places: at the end of a batch of frames, for the attempts whose evidence changed, and every second for the
runs that are live, because silence is evidence too.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import sqlalchemy as sa

from stepward.ingest.hearing import Hearing
from stepward.ingest.liveness import AttemptView, LaunchView, SourceView, Standing, attempt_standing, run_standing
from stepward.model.launches import covers
from stepward.model.states import Exit, State
from stepward.model.words import SourceKind
from stepward.store.catalog import schema
from stepward.store.catalog.bounds import int64
from stepward.store.catalog.launches import covered
from stepward.store.catalog.rows import corrected

PIECE = 1000
"""Runs that are judged at once."""
_exits = msgspec.msgpack.Decoder(list[Exit])
Row = Mapping[str, Any]
Place = tuple[str, str, int | None]
"""Attempt, node and rank."""


def judge(connection: sa.Connection, runs: Mapping[str, set[str]], hearing: Hearing, now: int) -> dict[str, str]:
    """Set the states of the given attempts, of each run's newest attempt and of the runs.

    Returns:
        The runs that changed, with their projects.
    """
    changed: dict[str, str] = {}
    for some in _pieces(runs):
        found = assess(connection, some, hearing, now)
        _write(connection, schema.attempts, found.attempts)
        _write(connection, schema.runs, found.runs)
        changed |= found.changed
    return changed


def restless(connection: sa.Connection, hearing: Hearing, now: int) -> dict[str, set[str]]:
    """The live runs that ``judge`` would change, in the shape that it takes; reads alone."""
    query = sa.select(schema.runs.c.id).where(schema.runs.c.live.is_(True)).order_by(schema.runs.c.id)
    live: dict[str, set[str]] = {run: set() for run in connection.execute(query).scalars()}
    return {run: set() for some in _pieces(live) for run in assess(connection, some, hearing, now).changed}


class Verdicts(NamedTuple):
    """What is to be written: the columns of attempts and of runs that differ, keys included; projects by changed run."""

    attempts: list[dict[str, Any]]
    runs: list[dict[str, Any]]
    changed: dict[str, str]


def assess(connection: sa.Connection, runs: Mapping[str, set[str]], hearing: Hearing, now: int) -> Verdicts:
    """Judge without writing; one question a table, however many runs."""
    found = Verdicts([], [], {})
    evidence, rows = _Evidence(connection, runs), _rows(connection, runs)
    for run, attempts in _attempts(connection, runs).items():
        newest = max(attempts, key=lambda row: row["number"])
        known = {row["key"]: row for row in attempts}
        judged = [
            row for row in attempts if row["key"] in runs[run] or row is newest or not State(row["state"]).terminal
        ]
        views = {row["key"]: evidence.view(row, attempts) for row in judged}
        standings = {row["key"]: attempt_standing(views[row["key"]], hearing, now) for row in judged}
        differ = [
            {"run": run, "key": key, **values}
            for key, values in ((key, _of_attempt(standing)) for key, standing in standings.items())
            if _differs(known[key], values)
        ]
        state, reason = run_standing(views[newest["key"]], standings[newest["key"]], known, hearing, now)
        values = {
            "state": state.value,
            "state_reason": reason,
            "live": not state.terminal or any(not standing.state.terminal for standing in standings.values()),
            "ended_at": standings[newest["key"]].ended_at if state.terminal else None,
        }
        found.attempts.extend(differ)
        if _differs(rows[run], values):
            found.runs.append({"id": run, **values})
        if differ or _differs(rows[run], values):
            found.changed[run] = rows[run]["project"]
    return found


def source_view(row: Row) -> SourceView:
    """A row of ``sources`` as the rules see it, its times on the server's clock."""
    exits = _exits.decode(row["exits"]) if row["exits"] else []
    return SourceView(
        writer=row["writer"],
        kind=SourceKind(row["kind"]),
        heard_at=row["last_seen"] if row["heard_at"] is None else row["heard_at"],
        rank=row["rank"],
        node=row["node"],
        begun=row["status_at"] is not None or row["step"] is not None or bool(exits),
        exits=[msgspec.structs.replace(exit, at=corrected(exit.at, row["offset_us"])) for exit in exits],
        alive=row["alive"],
        stopped=row["stopped"],
        next_attempt=row["next_attempt"],
    )


def place_of(row: Row) -> Place:
    """Where a source lives; what a wrapper says of a rank is about the rank of its own attempt and node."""
    return row["attempt"], row["node"], row["rank"]


def reaped_ranks(rows: Iterable[Row]) -> dict[Place, list[Exit]]:
    """What the wrappers and agents among ``rows`` saw of the ends of ranks."""
    found: dict[Place, list[Exit]] = {}
    for row in rows:
        if row["kind"] != SourceKind.RANK:
            for exit in source_view(row).exits:
                if exit.rank is not None:
                    found.setdefault((row["attempt"], row["node"], exit.rank), []).append(exit)
    return found


def _pieces(runs: Mapping[str, set[str]]) -> Iterator[dict[str, set[str]]]:
    """Runs in pieces that fit into a statement: a database takes so many parameters and no more."""
    left = iter(sorted(runs.items()))
    while piece := dict(itertools.islice(left, PIECE)):
        yield piece


def _rows(connection: sa.Connection, runs: Iterable[str]) -> dict[str, Row]:
    table = schema.runs.c
    query = sa.select(table.id, table.project, table.state, table.state_reason, table.live, table.ended_at)
    return {row["id"]: dict(row) for row in connection.execute(query.where(table.id.in_(sorted(runs)))).mappings()}


def _attempts(connection: sa.Connection, runs: Iterable[str]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    query = sa.select(schema.attempts).where(schema.attempts.c.run.in_(sorted(runs)))
    for row in connection.execute(query).mappings():
        found.setdefault(row["run"], []).append(dict(row))
    return found


def vouched_rows(connection: sa.Connection, rows: Iterable[sa.RowMapping]) -> list[dict[str, Any]]:
    """Rows of ``sources``, each as heard as the run that vouches for it."""
    found = [dict(row) for row in rows]
    vouchers = {row["vouched_by"] for row in found if row["vouched_by"]}
    table = schema.sources.c
    query = sa.select(table.run, sa.func.max(table.heard_at)).where(table.run.in_(sorted(vouchers))).group_by(table.run)
    heard = {run: at or 0 for run, at in connection.execute(query)} if vouchers else {}
    for row in found:
        row["heard_at"] = max(heard.get(row["vouched_by"], 0), row["heard_at"] or 0) or None
    return found


class _Evidence:
    """What was heard of some runs, read with one question a table: many runs are judged every second."""

    def __init__(self, connection: sa.Connection, runs: Iterable[str]) -> None:
        self._sources: dict[str, dict[str, list[SourceView]]] = {}
        self._launches: dict[str, list[Row]] = {}
        self._hangs: dict[tuple[str, str], str] = {}
        wanted = sorted(runs)
        sources, events, launches = schema.sources, schema.events, schema.launches
        rows = connection.execute(sa.select(sources).where(sources.c.run.in_(wanted))).mappings()
        for row in vouched_rows(connection, rows):
            self._sources.setdefault(row["run"], {}).setdefault(row["attempt"], []).append(source_view(row))
        # A detector's word counts once it is confirmed; a writer's has no certainty.
        sure = sa.or_(events.c.certainty.is_(None), events.c.certainty == "confirmed")
        open_hang = sa.and_(events.c.type == "hang", events.c.ended_at.is_(None), sure)
        query = sa.select(events.c.run, events.c.attempt, events.c.title).where(events.c.run.in_(wanted), open_hang)
        for hang in connection.execute(query):
            self._hangs[hang.run, hang.attempt] = hang.title or "a hang was reported"
        for launch in connection.execute(sa.select(launches).where(launches.c.run.in_(wanted))).mappings():
            self._launches.setdefault(launch["run"], []).append(dict(launch))

    def view(self, attempt: Row, attempts: Sequence[dict[str, Any]]) -> AttemptView:
        """What is known of one of the attempts of a run."""
        run, key = attempt["run"], attempt["key"]
        of_run = self._sources.get(run, {})
        sources = [source for source in of_run.get(key, []) if source.kind is not SourceKind.WATCHER]
        ended = any(source.exits for source in sources)
        launch = None
        for row in self._launches.get(run, []):
            if not covers(row["key"], key):
                continue
            watchers = [source for source in of_run.get(row["key"], []) if source.kind is SourceKind.WATCHER]
            newest = covered(row["key"], attempts)[-1] is attempt
            # How the job ended is not how an earlier part of it did, where that part's end was seen.
            sources += watchers if newest or not ended else []
            launch = _launch_view(row, watchers) if newest else launch
        return AttemptView(key=key, sources=sources, hang=self._hangs.get((run, key)), launch=launch)


def _launch_view(row: Row, watchers: Sequence[SourceView]) -> LaunchView:
    state = None if row["state"] is None else State(row["state"])
    heard = max((watcher.heard_at for watcher in watchers), default=0)
    return LaunchView(state=state, reason=row["reason"], paused=row["paused"], heard_at=heard)


def _of_attempt(standing: Standing) -> dict[str, Any]:
    return {
        "state": standing.state.value,
        "exit_code": standing.exit_code,
        "signal": standing.signal,
        "reason": standing.reason,
        "ended_at": None if standing.ended_at is None else int64(standing.ended_at),
    }


def _differs(row: Row, values: Row) -> bool:
    return any(row[name] != value for name, value in values.items())


def _write(connection: sa.Connection, table: sa.Table, rows: Sequence[dict[str, Any]]) -> None:
    """Update rows, named by their primary keys."""
    if not rows:
        return
    keys = [column.name for column in table.primary_key]
    changed: dict[str, Any] = {name: sa.bindparam(f"new_{name}") for name in rows[0] if name not in keys}
    which = sa.and_(*(table.c[name] == sa.bindparam(f"new_{name}") for name in keys))
    statement = sa.update(table).where(which).values(changed)
    connection.execute(statement, [{f"new_{name}": value for name, value in row.items()} for row in rows])
