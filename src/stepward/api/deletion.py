"""Deleting a run with everything of it: the one way, whoever asks for it."""

import sqlalchemy as sa

from stepward.api.audit import audit
from stepward.api.parts import Parts
from stepward.store.catalog import RunHead


def delete_run(parts: Parts, head: RunHead, *, by: str, only_if: sa.ColumnElement[bool] | None = None) -> bool:
    """Delete a run and say in the log on whose word.

    Args:
        by: who wants it.
        only_if: see ``Edits.delete``.

    Returns:
        Whether it was deleted.
    """
    # The catalog first: from then on frames of its writers are refused. The points last: as long as they are there, the
    # server knows that the deletion is half done, and finishes it.
    if not parts.edits.delete(head, only_if):
        return False
    audit.info("run %s of project %r is deleted by %s", head.id, head.project, by)
    parts.logs.delete_run(head.project, head.id)
    parts.points.delete_run(head.project, head.id)
    return True
