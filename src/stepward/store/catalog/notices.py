"""The outbox of notices: what is to be told, to whom, whether it was; routes made by the API; silences.

An item is kept once for each route, event and phase: that is the deduplication. Items gather in a message of their route
until it is due. A message is marked as sent after it was, so that a crash between the two tells it twice, never not.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
import sqlalchemy as sa

from stepward.errors import NotFound
from stepward.model.identity import ulid
from stepward.model.notices import NewSilence, Notice, NoticeItem, NoticeRoute, Silence
from stepward.model.resources import instant, microseconds
from stepward.store.catalog.bounds import text, tree
from stepward.store.catalog.database import Database, upsert
from stepward.store.catalog.reading import maybe_instant
from stepward.store.catalog.runs import Projects
from stepward.store.catalog.schema import notice_items, notice_routes, notices, silences

WAITING, SENT, FAILED, SILENCED = "waiting", "sent", "failed", "silenced"
KEPT_US = 30 * 86_400_000_000
"""Messages that are done are forgotten after a month."""


class Waiting(NamedTuple):
    """A message that is due; times in µs."""

    id: str
    route: str
    made_at: int
    tries: int
    items: list[NoticeItem]


class Outbox:
    """Messages, API routes and silences."""

    def __init__(self, database: Database) -> None:
        self._database = database

    # ── messages ──

    def add(self, route: str, item: NoticeItem, *, now: int, due_at: int) -> bool:
        """Have an item told, unless it was already; what is over is told only where its beginning was."""
        with self._database.write() as connection:
            known = _of_event(connection, route, item)
            if item.phase in known or (item.phase == "ended" and "began" not in known):
                return False
            gathering = sa.select(notices.c.id).where(
                notices.c.route == route, notices.c.state == WAITING, notices.c.tries == 0, notices.c.due_at > now
            )
            notice = connection.execute(gathering.order_by(notices.c.due_at).limit(1)).scalar()
            if notice is None:
                notice = ulid()
                row = {"id": notice, "route": route, "state": WAITING, "made_at": now, "due_at": due_at, "tries": 0}
                connection.execute(sa.insert(notices).values(row))
            connection.execute(sa.insert(notice_items).values(_item_row(route, notice, item)))
        return True

    def take_back(self, run: str, event: str) -> None:
        """Forget what was not told yet of an event that was none."""
        with self._database.write() as connection:
            untold = sa.select(notices.c.id).where(notices.c.state == WAITING, notices.c.tries == 0)
            mine = sa.and_(notice_items.c.run == run, notice_items.c.event == event, notice_items.c.notice.in_(untold))
            connection.execute(sa.delete(notice_items).where(mine))
            empty = ~sa.exists().where(notice_items.c.notice == notices.c.id)
            connection.execute(sa.delete(notices).where(notices.c.state == WAITING, notices.c.tries == 0, empty))

    def due(self, now: int, limit: int = 20) -> list[Waiting]:
        """Messages whose time has come, the oldest first."""
        query = sa.select(notices).where(notices.c.state == WAITING, notices.c.due_at <= now)
        with self._database.read() as connection:
            rows = connection.execute(query.order_by(notices.c.due_at).limit(limit)).mappings().all()
            items = _items(connection, [row["id"] for row in rows])
        return [
            Waiting(row["id"], row["route"], row["made_at"], row["tries"], items.get(row["id"], [])) for row in rows
        ]

    def sent_since(self, route: str, since: int) -> list[int]:
        """When the messages of a route were sent from an instant on, ascending."""
        query = sa.select(notices.c.sent_at).where(notices.c.route == route, notices.c.sent_at >= since)
        with self._database.read() as connection:
            return sorted(connection.execute(query).scalars())

    def done(self, id: str, state: str, now: int) -> None:
        """A message was sent, or will not be."""
        values = {"state": state, "sent_at": now if state == SENT else None, "error": None}
        self._change(id, values)

    def later(self, id: str, due_at: int) -> None:
        """Wait with a message; nobody tried."""
        self._change(id, {"due_at": due_at})

    def missed(self, id: str, error: str, due_at: int | None) -> None:
        """An attempt failed; None: there is none after it."""
        more = {"state": FAILED} if due_at is None else {"due_at": due_at}
        self._change(id, {"error": text(error), "tries": notices.c.tries + 1, **more})

    def forget(self, now: int) -> None:
        """Delete what is long done, and silences that are over."""
        with self._database.write() as connection:
            old = sa.and_(notices.c.state != WAITING, notices.c.made_at < now - KEPT_US)
            gone = sa.select(notices.c.id).where(old)
            connection.execute(sa.delete(notice_items).where(notice_items.c.notice.in_(gone)))
            connection.execute(sa.delete(notices).where(old))
            connection.execute(sa.delete(silences).where(silences.c.until < now))

    def newest(self, limit: int) -> list[Notice]:
        """The newest messages."""
        with self._database.read() as connection:
            rows = connection.execute(sa.select(notices).order_by(notices.c.id.desc()).limit(limit)).mappings().all()
            items = _items(connection, [row["id"] for row in rows])
        return [
            Notice(
                id=row["id"],
                route=row["route"],
                state=row["state"],
                made_at=instant(row["made_at"]),
                due_at=instant(row["due_at"]),
                sent_at=maybe_instant(row["sent_at"]),
                tries=row["tries"],
                error=row["error"],
                items=items.get(row["id"], []),
            )
            for row in rows
        ]

    def _change(self, id: str, values: dict[str, Any]) -> None:
        with self._database.write() as connection:
            connection.execute(sa.update(notices).where(notices.c.id == id).values(values))

    # ── routes ──

    def routes(self) -> list[tuple[NoticeRoute, int]]:
        """The routes made by the API, each with when it was changed, µs."""
        with self._database.read() as connection:
            rows = connection.execute(sa.select(notice_routes).order_by(notice_routes.c.name)).all()
        return [(msgspec.json.decode(row.route, type=NoticeRoute), row.changed_at) for row in rows]

    def put_route(self, route: NoticeRoute, now: int) -> None:
        """Make or change a route."""
        row = {"name": route.name, "route": msgspec.json.encode(route), "changed_at": now}
        with self._database.write() as connection:
            upsert(connection, notice_routes, [row])

    def delete_route(self, name: str) -> None:
        """Forget a route.

        Raises:
            NotFound: ``no_such_notice_route``.
        """
        with self._database.write() as connection:
            if not connection.execute(sa.delete(notice_routes).where(notice_routes.c.name == name)).rowcount:
                raise NotFound(f"no route {name!r} was made by the API", code="no_such_notice_route")

    # ── silences ──

    def silence(self, asked: NewSilence, *, by: str, now: int) -> Silence:
        """Begin a silence."""
        row = {
            "id": ulid(),
            "project": asked.project,
            "run": asked.run,
            "type": asked.type,
            "reason": text(asked.reason),
            "until": now + round(asked.for_s * 1e6),
            "made_by": text(by),
        }
        with self._database.write() as connection:
            connection.execute(sa.insert(silences).values(row))
        return _silence(row)

    def silences(self, now: int, projects: Projects = None) -> list[Silence]:
        """Silences that are not over; of some projects, or all."""
        query = sa.select(silences).where(silences.c.until > now).order_by(silences.c.until)
        if projects is not None:
            query = query.where(silences.c.project.in_(projects))
        with self._database.read() as connection:
            return [_silence(dict(row)) for row in connection.execute(query).mappings()]

    def end_silence(self, id: str, projects: Projects) -> None:
        """End a silence.

        Raises:
            NotFound: ``no_such_silence``.
        """
        mine = silences.c.id == id
        if projects is not None:
            mine = sa.and_(mine, silences.c.project.in_(projects))
        with self._database.write() as connection:
            if not connection.execute(sa.delete(silences).where(mine)).rowcount:
                raise NotFound(f"no silence {id!r}", code="no_such_silence", hint="stepward notices ls")


def _of_event(connection: sa.Connection, route: str, item: NoticeItem) -> set[str]:
    mine = sa.and_(notice_items.c.route == route, notice_items.c.run == item.run, notice_items.c.event == item.event)
    return set(connection.execute(sa.select(notice_items.c.phase).where(mine)).scalars())


def _item_row(route: str, notice: str, item: NoticeItem) -> dict[str, Any]:
    return {
        "route": route,
        "run": item.run,
        "event": text(item.event),
        "phase": item.phase,
        "notice": notice,
        "project": text(item.project),
        "type": text(item.type),
        "severity": item.severity,
        "title": text(item.title),
        "at": microseconds(item.at),
        "data": tree(item.data),
    }


def _items(connection: sa.Connection, ids: Sequence[str]) -> dict[str, list[NoticeItem]]:
    found: dict[str, list[NoticeItem]] = {}
    query = sa.select(notice_items).where(notice_items.c.notice.in_(ids)).order_by(notice_items.c.at)
    for row in connection.execute(query).mappings():
        item = NoticeItem(
            run=row["run"],
            project=row["project"],
            event=row["event"],
            phase=row["phase"],
            type=row["type"],
            severity=row["severity"],
            title=row["title"],
            at=instant(row["at"]),
            data=row["data"],
        )
        found.setdefault(row["notice"], []).append(item)
    return found


def _silence(row: dict[str, Any]) -> Silence:
    return Silence(**{**row, "until": instant(row["until"])})
