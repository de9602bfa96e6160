"""Which run a job belongs to: a program that runs inside a job names it, and the job's watcher then writes to its run.

Until a watcher learns of such a claim, a run of its own stands for the job; when it has moved, that run goes.
"""

import sqlalchemy as sa

from stepward.model.resources import JobClaim
from stepward.model.words import SourceKind
from stepward.store.catalog.database import Database
from stepward.store.catalog.runs import Projects
from stepward.store.catalog.schema import claims, events, runs, sources

MOVED = "moved"
"""Event of a watcher that has found the run of its job elsewhere."""
MAX_CLAIMS = 1000

only_watched = ~sa.exists().where(sources.c.run == runs.c.id, sources.c.kind != SourceKind.WATCHER.value)
"""Whether nobody but watchers has written to a run."""


class Claims:
    """The claims of jobs."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def after(self, projects: Projects, cluster: str, seq: int) -> list[JobClaim]:
        """Claims of a cluster's jobs behind ``seq``, oldest first, at most ``MAX_CLAIMS``; of visible projects alone."""
        query = sa.select(claims).where(claims.c.cluster == cluster, claims.c.seq > seq).order_by(claims.c.seq)
        if projects is not None:
            query = query.where(claims.c.project.in_(projects))
        with self._database.read() as connection:
            rows = connection.execute(query.limit(MAX_CLAIMS)).mappings()
            return [
                JobClaim(**{name: row[name] for name in ("seq", "job", "project", "run", "covered")}) for row in rows
            ]

    def superseded(self) -> list[str]:
        """Runs that stood for a job until its watcher moved: what a crash may have left of them."""
        query = sa.select(runs.c.id).join(events, events.c.run == runs.c.id).where(events.c.type == MOVED, only_watched)
        with self._database.read() as connection:
            return list(connection.execute(query.distinct()).scalars())
