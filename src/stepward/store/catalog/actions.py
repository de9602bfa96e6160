"""The audit: what was done to clusters, nodes, jobs and runs, by whom, allowed by what, with which outcome.

A record is written before the action, as ``begun``, so that one that a crash interrupts is seen; its outcome follows.
Records are never changed otherwise and never deleted.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

import sqlalchemy as sa

from stepward.errors import StepwardError, UsageError
from stepward.model.identity import ulid
from stepward.model.jobs import Action, ActionPage
from stepward.model.resources import instant
from stepward.store.catalog.bounds import MAX_LONG_TEXT, text, tree
from stepward.store.catalog.database import Database
from stepward.store.catalog.schema import actions, runs

MAX_PAGE = 500
STEPWARD = "stepward"
"""The actor of what a policy does by itself."""
Outcome = Literal["begun", "done", "refused", "failed"]


class Actions:
    """The audit of a server.

    Args:
        clock: µs since the epoch.
    """

    def __init__(self, database: Database, clock: Callable[[], int]) -> None:
        self._database = database
        self._clock = clock

    def begin(
        self,
        *,
        actor: str,
        kind: str,
        cluster: str = "",
        node: str = "",
        job: str = "",
        run: str | None = None,
        reason: str = "",
        policy: str = "",
        dry_run: bool = False,
        data: Mapping[str, Any] | None = None,
        outcome: Outcome = "begun",
    ) -> str:
        """Write a record, and give its id; with another ``outcome`` than ``begun`` it is complete.

        ``data`` must hold no secrets: whoever reads the audit sees it.
        """
        id_ = ulid()
        row = {
            "id": id_,
            "at": self._clock(),
            "actor": text(actor),
            "kind": text(kind, 64),
            "cluster": text(cluster),
            "node": text(node),
            "job": text(job),
            "run": run,
            "reason": text(reason, MAX_LONG_TEXT),
            "policy": text(policy),
            "dry_run": dry_run,
            "outcome": outcome,
            "data": tree(dict(data or {})),
        }
        with self._database.write() as connection:
            connection.execute(sa.insert(actions).values(row))
        return id_

    def end(self, action: str, outcome: Outcome, **data: Any) -> None:
        """Write the outcome of an action; ``data`` is added to its record."""
        with self._database.write() as connection:
            known = connection.execute(sa.select(actions.c.data).where(actions.c.id == action)).scalar_one()
            merged = {**known, **tree(data)}
            connection.execute(sa.update(actions).where(actions.c.id == action).values(outcome=outcome, data=merged))

    @contextlib.contextmanager
    def recorded(self, **what: Any) -> Iterator[tuple[str, dict[str, Any]]]:
        """Around an action: its id, and a dictionary for what becomes known of it.

        The outcome is ``done`` at the end of the block, ``refused`` where one of our errors leaves it, else ``failed``.
        The keywords are those of ``begin``.
        """
        action, known = self.begin(**what), dict[str, Any]()
        try:
            yield action, known
        except BaseException as error:
            ours = isinstance(error, StepwardError)
            told = {"error": error.message, "code": error.code} if isinstance(error, StepwardError) else {}
            self.end(action, "refused" if ours else "failed", **known, **told)
            raise
        self.end(action, "done", **known)

    def page(
        self,
        projects: Sequence[str] | None,
        *,
        cluster: str | None = None,
        node: str | None = None,
        job: str | None = None,
        run: str | None = None,
        kind: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> ActionPage:
        """A page of records, the newest first; ``cursor`` is ``next`` of the page before.

        Args:
            projects: those that the caller may see: only records of their runs are shown; None for all records.

        Raises:
            UsageError: ``bad_limit``.
        """
        if not 1 <= limit <= MAX_PAGE:
            raise UsageError(f"limit is 1 to {MAX_PAGE}, not {limit}", code="bad_limit")
        query = sa.select(actions).order_by(actions.c.id.desc()).limit(limit + 1)
        asked = {"cluster": cluster, "node": node, "job": job, "run": run, "kind": kind}
        for column, value in asked.items():
            if value is not None:
                query = query.where(actions.c[column] == value)
        if projects is not None:
            query = query.where(actions.c.run.in_(sa.select(runs.c.id).where(runs.c.project.in_(projects))))
        if cursor is not None:
            query = query.where(actions.c.id < cursor)
        with self._database.read() as connection:
            rows = connection.execute(query).mappings().all()
        items = [_resource(dict(row)) for row in rows[:limit]]
        return ActionPage(items, items[-1].id if len(rows) > limit else None)


def _resource(row: Mapping[str, Any]) -> Action:
    return Action(**{**row, "at": instant(row["at"])})
