"""Judging attempts and runs: rows of sources in, states out, by the pure rules of ``stepward.ingest.liveness``.

Called in two places: at the end of a batch of frames, for the attempts whose evidence changed, and every second for the
runs that are live, because silence is evidence too.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import sqlalchemy as sa

from stepward.ingest.hearing import LEASE_US, Hearing
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
REST_US, REST_PARTS = 5_000_000, 5
"""A run in which nothing happens is looked at so often, those that are live at the begin in so many parts."""
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


class Rests:
    """Live runs in which nothing can change yet by silence alone: they are looked at when the first lease of theirs is over,
    and every ``REST_US`` whatever happens. Thousands of runs that go on are then no work of each second."""

    def __init__(self) -> None:
        self._until: dict[str, tuple[int, str | None]] = {}
        """Run -> when it is looked at again, and the hang that was open."""
        self._looked_at = 0

    def due(self, live: Sequence[str], hangs: Mapping[str, str], now: int) -> dict[str, set[str]]:
        """Those of the live runs that are to be looked at now, in the shape that ``judge`` takes."""
        if now < self._looked_at:  # the clock was set back
            self._until.clear()
        self._looked_at = now
        self._until = {run: self._until[run] for run in live if run in self._until}
        never = (0, None)
        found = {}
        for run in live:
            until, hang = self._until.get(run, never)
            if until <= now or hang != hangs.get(run):
                found[run] = set[str]()
        return found

    def rest(self, runs: Iterable[str], expiries: Mapping[str, int], hangs: Mapping[str, str], now: int) -> None:
        """Nothing has changed in these; those that are seen for the first time come back at different seconds."""
        for number, run in enumerate(runs):
            longest = REST_US if run in self._until else REST_US * (1 + number % REST_PARTS) // REST_PARTS
            self._until[run] = (min(now + longest, expiries.get(run, now) + 1), hangs.get(run))

    def forget(self, runs: Iterable[str]) -> None:
        """What has changed is looked at again at once."""
        for run in runs:
            self._until.pop(run, None)


def restless(connection: sa.Connection, hearing: Hearing, now: int, rests: Rests) -> dict[str, set[str]]:
    """The live runs that ``judge`` would change, in the shape that it takes; reads alone."""
    query = sa.select(schema.runs.c.id).where(schema.runs.c.live.is_(True)).order_by(schema.runs.c.id)
    live = list(connection.execute(query).scalars())
    hangs = {row[0]: f"{row[2]} {row[1]}" for row in connection.execute(hung_runs())}
    changed: dict[str, set[str]] = {}
    for some in _pieces(rests.due(live, hangs, now)):
        found = assess(connection, some, hearing, now)
        changed.update((run, set()) for run in found.changed)
        rests.rest([run for run in some if run not in found.changed], found.expiries, hangs, now)
    rests.forget(changed)
    return changed


def hung_runs() -> sa.Select[Any]:
    """The question for runs with an open hang: the run, the newest of its hangs, and how many they are."""
    events = schema.events.c
    return sa.select(events.run, sa.func.max(events.id), sa.func.count()).where(_open_hang()).group_by(events.run)


def _open_hang() -> sa.ColumnElement[bool]:
    """A detector's word counts once it is confirmed; a writer's has no certainty."""
    events = schema.events.c
    sure = sa.or_(events.certainty.is_(None), events.certainty == "confirmed")
    # Written out: an index over some rows alone serves only statements that say which.
    return sa.and_(sa.text("events.type = 'hang'"), events.ended_at.is_(None), sure)


class Verdicts(NamedTuple):
    """What is to be written: the columns of attempts and of runs that differ, keys included; projects by changed run.

    ``expiries`` is the first instant at which silence alone may change the verdict, by run.
    """

    attempts: list[dict[str, Any]]
    runs: list[dict[str, Any]]
    changed: dict[str, str]
    expiries: dict[str, int]


def assess(connection: sa.Connection, runs: Mapping[str, set[str]], hearing: Hearing, now: int) -> Verdicts:
    """Judge without writing; one question a table, however many runs."""
    found = Verdicts([], [], {}, {})
    evidence, rows = _Evidence(connection, runs), _rows(connection, runs)
    for run, attempts in _attempts(connection, runs).items():
        newest = max(attempts, key=lambda row: row["number"])
        known = {row["key"]: row for row in attempts}
        judged = [
            row for row in attempts if row["key"] in runs[run] or row is newest or not State(row["state"]).terminal
        ]
        views = {row["key"]: evidence.view(row, attempts) for row in judged}
        leases = [at + LEASE_US for view in views.values() for at in _heard(view) if at + LEASE_US >= now]
        found.expiries[run] = min(leases, default=now + REST_US)
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


def _heard(view: AttemptView) -> Iterator[int]:
    yield from (source.heard_at for source in view.sources)
    if view.launch is not None:
        yield view.launch.heard_at


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
        query = sa.select(events.c.run, events.c.attempt, events.c.title).where(events.c.run.in_(wanted), _open_hang())
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
