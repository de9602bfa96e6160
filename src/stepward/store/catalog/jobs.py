"""Which runs belong to a scheduler's jobs."""

from collections.abc import Iterable, Iterator, Sequence

import sqlalchemy as sa

from stepward.store.catalog.database import Database
from stepward.store.catalog.schema import claims, runs

_CHUNK = 500
"""Names in one statement: databases have a limit of parameters."""


def runs_of_jobs(
    database: Database, projects: Sequence[str] | None, cluster: str, jobs: Iterable[str]
) -> dict[str, str]:
    """Job -> id of the run that has claimed it, else of the newest run whose key names it.

    Args:
        projects: those that the caller may see, None for all.
        cluster: as in run keys.
        jobs: as in run keys: ``42``, ``40_3``.
    """
    found: dict[str, str] = {}
    visible = sa.true() if projects is None else runs.c.project.in_(projects)
    with database.read() as connection:
        for some in _chunks(jobs):
            keys = {f"slurm:{cluster}:{job}": job for job in some}
            named = sa.select(runs.c.key, runs.c.id).where(runs.c.key.in_(keys), visible).order_by(runs.c.started_at)
            found |= {keys[row.key]: row.id for row in connection.execute(named)}
            claimed = (
                sa.select(claims.c.job, claims.c.run)
                .join(runs, runs.c.id == claims.c.run)
                .where(claims.c.cluster == cluster, claims.c.job.in_(some), visible)
            )
            found |= {row.job: row.run for row in connection.execute(claimed)}
    return found


def _chunks(jobs: Iterable[str]) -> Iterator[list[str]]:
    every = list(dict.fromkeys(jobs))
    for start in range(0, len(every), _CHUNK):
        yield every[start : start + _CHUNK]
