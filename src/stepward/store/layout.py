"""Where a project's files rest in the data folder: ``<data>/projects/<project>/``.

A project's name is any text; its folder's name is the name with every byte but letters, digits, ``_`` and ``-`` written as
``%XX``, so that names map to folders one to one and none leaves the data folder.
"""

import os
from urllib.parse import quote, unquote

from stepward.errors import Unavailable, UsageError
from stepward.model.identity import MAX_PROJECT_BYTES, is_project_name


def project_folder(data: str, project: str) -> str:
    """Folder of a project; it need not exist.

    Raises:
        UsageError: ``bad_project_name`` (empty, or too long as a folder's name).
    """
    if not is_project_name(project):
        raise UsageError(
            f"{project[:80]!r} can't name a project",
            code="bad_project_name",
            hint=f"1 to {MAX_PROJECT_BYTES} letters, digits, _ and -; others count three a byte",
        )
    name = quote(project, safe="").replace(".", "%2E").replace("~", "%7E")
    return f"{data}/projects/{name}"


def damaged(path: str, why: str, *, away: str, content: str) -> Unavailable:
    """What is said of a damaged file in a project's folder, of which nothing is touched: whose it is, and the two ways out.

    Args:
        away: what must be moved, as a shell names it, to begin anew without the project's ``content``.
    """
    project = unquote(path.rpartition("/projects/")[2].partition("/")[0])
    return Unavailable(
        f"{path}, the {content} of project {project!r}, is damaged: {why}",
        code="store_corrupt",
        hint="it was left as it is. Stop the server, then restore a backup (stepward restore BACKUP --data NEW), "
        f"or move {away} away: the project then begins anew without its {content}, the others are not affected",
        retry_after_s=60.0,
    )


def project_names(data: str) -> list[str]:
    """Projects that have a folder, sorted."""
    try:
        return sorted(unquote(entry.name) for entry in os.scandir(f"{data}/projects") if entry.is_dir())
    except FileNotFoundError:
        return []
