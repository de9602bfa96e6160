"""What the goodput of runs is computed from, and the ledgers of ended runs, which are kept.

A kept ledger is good for the run as it was: whatever is said about a run raises ``runs.changes``, and only a run of which
nothing can change by time alone (``live`` is false) has one. Who writes to a run's rows outside of frames must raise it too.
"""

from collections.abc import Collection
from typing import Any, NamedTuple

import msgspec
import sqlalchemy as sa

from stepward.model.launches import outer_keys
from stepward.model.words import NODES_PROJECT, SourceKind
from stepward.store.catalog.database import Database, upsert
from stepward.store.catalog.launches import Inside, nodes_of
from stepward.store.catalog.rows import corrected
from stepward.store.catalog.runs import Projects, check_project, find, visible
from stepward.store.catalog.schema import attempts, configs, events, launches, ledgers, runs, sources


class LedgerHead(NamedTuple):
    """A run among others, as it is now; times in µs."""

    id: str
    name: str
    project: str
    state: str
    live: bool
    changes: int
    started_at: int
    ended_at: int | None
    last_seen_at: int | None

    @property
    def alive_us(self) -> int:
        """When it was last known to be alive."""
        return self.ended_at or self.last_seen_at or self.started_at


class AttemptFacts(NamedTuple):
    """An attempt as the catalog knows it.

    Attributes:
        joined: a rank of it was heard.
        last_step: the highest step that began or that something was logged for.
        nodes: of its sources, and those that a scheduler gave to it.
    """

    key: str
    number: int
    state: str
    ranks: int
    started_us: int
    ended_us: int | None
    joined: bool
    last_step: int | None
    nodes: frozenset[str]


class EventFacts(NamedTuple):
    """An event of a run, with the attempt that was under way; times on the server's clock."""

    type: str
    attempt: int | None
    rank: int | None
    step: int | None
    started_us: int
    ended_us: int | None
    data: dict[str, Any]


class RunFacts(msgspec.Struct, frozen=True):
    """What a ledger needs of the catalog, events aside.

    Attributes:
        offsets: (attempt key, rank) -> the server's clock minus its own, µs; 0 where it is no more than the network.
    """

    attempts: list[AttemptFacts]
    offsets: dict[tuple[str, int], int]
    user: dict[str, Any]
    system: dict[str, Any]


class Ledgers:
    """Reads what goodput is computed from, and keeps what was computed."""

    def __init__(self, database: Database, version: int) -> None:
        self._database = database
        self._version = version

    def heads(
        self, projects: Projects, *, project: str | None = None, since_us: int | None = None, limit: int
    ) -> tuple[list[tuple[LedgerHead, bytes | None, bool]], int]:
        """The newest runs with their kept share, and how many there are: all, or those alive at ``since_us`` or later.

        The third of each says whether a ledger is kept; its share is None where there is nothing to account for.

        Raises:
            NotFound: ``no_such_project``.
        """
        where: list[sa.ColumnElement[bool]] = [visible(projects)]
        # Runs of nodes have nothing to account for.
        where.append(runs.c.project != NODES_PROJECT if project is None else runs.c.project == project)
        if since_us is not None:
            alive = sa.func.coalesce(runs.c.ended_at, runs.c.last_seen_at, runs.c.started_at)
            where.append(sa.or_(runs.c.live.is_(True), alive >= since_us))
        query = sa.select(*_HEAD, ledgers.c.share, ledgers.c.run.is_not(None).label("kept"))
        query = query.select_from(runs.outerjoin(ledgers, self._good())).where(*where)
        query = query.order_by(runs.c.started_at.desc(), runs.c.id).limit(limit)
        with self._database.read() as connection:
            if project is not None:
                check_project(connection, project)
            total = connection.execute(sa.select(sa.func.count()).select_from(runs).where(*where)).scalar_one()
            found = connection.execute(query).fetchall()
        return [(LedgerHead(*row[: len(_HEAD)]), row.share, bool(row.kept)) for row in found], total

    def head(self, projects: Projects, named: str) -> LedgerHead:
        """A run by id or unique name; raises as ``Runs.get``."""
        with self._database.read() as connection:
            row = find(connection, projects, named)
        return LedgerHead(*(row[column.name] for column in _HEAD))

    def due(self, limit: int) -> list[LedgerHead]:
        """Runs that have ended and whose ledger is not kept as they are now; the newest end first."""
        query = sa.select(*_HEAD).select_from(runs.outerjoin(ledgers, self._good()))
        query = query.where(runs.c.live.is_(False), runs.c.project != NODES_PROJECT, ledgers.c.run.is_(None))
        query = query.order_by(runs.c.ended_at.desc())
        with self._database.read() as connection:
            return [LedgerHead(*row) for row in connection.execute(query.limit(limit))]

    def kept(self, run: str) -> bytes | None:
        """The kept answer of a run as it is now."""
        query = sa.select(ledgers.c.answer).select_from(runs.join(ledgers, self._good())).where(runs.c.id == run)
        with self._database.read() as connection:
            found: bytes | None = connection.execute(query).scalar_one_or_none()
        return found

    def keep(self, head: LedgerHead, share: bytes | None, answer: bytes | None) -> None:
        """Keep what was computed from a run as ``head`` tells it; nothing happens where it has changed or lives."""
        row = {"run": head.id, "version": self._version, "changes": head.changes, "state": head.state}
        row |= {"ended_at": head.ended_at, "share": share, "answer": answer}
        same = sa.and_(runs.c.id == head.id, runs.c.changes == head.changes, runs.c.live.is_(False))
        with self._database.write() as connection:
            if connection.execute(sa.select(runs.c.id).where(same)).first() is not None:
                upsert(connection, ledgers, [row])

    def facts(self, run: str) -> RunFacts:
        """What a ledger needs of a run."""
        of_source = sa.select(sources.c.attempt, sources.c.kind, sources.c.rank, sources.c.node, sources.c.offset_us)
        with self._database.read() as connection:
            written = connection.execute(of_source.where(sources.c.run == run)).fetchall()
            rows = connection.execute(sa.select(attempts).where(attempts.c.run == run).order_by(attempts.c.number))
            told = [dict(row) for row in rows.mappings()]
            launched = nodes_of(connection.execute(sa.select(launches).where(launches.c.run == run)).mappings())
            trees = connection.execute(sa.select(configs).where(configs.c.run == run)).mappings().first()
        nodes: dict[str, set[str]] = {}
        ranks: dict[str, set[int]] = {}
        offsets: dict[tuple[str, int], int] = {}
        for source in written:
            nodes.setdefault(source.attempt, set()).update([source.node] if source.node else [])
            if source.kind == SourceKind.RANK:
                ranks.setdefault(source.attempt, set()).add(source.rank or 0)
                offsets[source.attempt, source.rank or 0] = corrected(0, source.offset_us)
        for (_, key), given in launched.items():
            nodes.setdefault(key, set()).update(given)
        found = [
            AttemptFacts(
                row["key"],
                row["number"],
                row["state"],
                max(len(ranks.get(row["key"], ())), row["world"] or 0),
                row["started_at"],
                row["ended_at"],
                row["key"] in ranks,
                row["last_step"],
                frozenset().union(*(nodes.get(key, ()) for key in (row["key"], *outer_keys(row["key"])))),
            )
            for row in told
        ]
        system = {} if trees is None else {**trees["system"], **({"job": trees["job"]} if trees["job"] else {})}
        return RunFacts(found, offsets, {} if trees is None else trees["user"], system)

    def events(self, run: str, types: Collection[str], since_us: int | None = None) -> list[EventFacts]:
        """All events of these types, oldest first: those that last, or lasted until ``since_us`` or later."""
        columns = (
            events.c.type,
            events.c.attempt,
            events.c.rank,
            events.c.step,
            events.c.started_at,
            events.c.ended_at,
        )
        query = sa.select(*columns, events.c.data).where(events.c.run == run, events.c.type.in_(sorted(types)))
        if since_us is not None:
            query = query.where(sa.or_(events.c.started_at >= since_us, events.c.ended_at >= since_us, _LASTING))
        of_run = sa.select(attempts.c.key, attempts.c.number, attempts.c.started_at).where(attempts.c.run == run)
        with self._database.read() as connection:
            rows = connection.execute(query.order_by(events.c.started_at, events.c.id)).fetchall()
            inside = Inside([dict(row) for row in connection.execute(of_run).mappings()])
        return [EventFacts(row[0], inside.number_at(row[1], row[4]), *row[2:]) for row in rows]

    def _good(self) -> sa.ColumnElement[bool]:
        """Whether a kept ledger is that of the run as it is now."""
        return sa.and_(
            ledgers.c.run == runs.c.id,
            ledgers.c.version == self._version,
            ledgers.c.changes == runs.c.changes,
            ledgers.c.state == runs.c.state,
            ledgers.c.ended_at.is_not_distinct_from(runs.c.ended_at),
            runs.c.live.is_(False),
        )


_LASTING = sa.and_(events.c.ended_at.is_(None), events.c.type == "hang")
_HEAD = (
    runs.c.id,
    runs.c.name,
    runs.c.project,
    runs.c.state,
    runs.c.live,
    runs.c.changes,
    runs.c.started_at,
    runs.c.ended_at,
    runs.c.last_seen_at,
)
