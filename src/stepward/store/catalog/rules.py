"""The rules of people: a text a project, as they wrote it. Whoever puts it here has found it to be right."""

from typing import NamedTuple

import sqlalchemy as sa

from stepward.store.catalog.bounds import text as bounded
from stepward.store.catalog.database import Database, upsert
from stepward.store.catalog.schema import rules


class RulesText(NamedTuple):
    """The rules of one project; ``changed_at`` in µs since the epoch."""

    text: str
    changed_at: int
    changed_by: str


class StoredRules:
    """The rules of all projects."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def get(self, project: str) -> RulesText | None:
        """The rules of a project, if it has any."""
        with self._database.read() as connection:
            row = connection.execute(sa.select(rules).where(rules.c.project == project)).first()
        return None if row is None else RulesText(row.text, row.changed_at, row.changed_by)

    def put(self, project: str, new: RulesText) -> None:
        """Put rules in place of all that there were."""
        row = {**new._asdict(), "project": project, "changed_by": bounded(new.changed_by)}
        with self._database.write() as connection:
            upsert(connection, rules, [row])
