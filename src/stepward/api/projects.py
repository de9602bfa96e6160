"""Projects, as far as the caller may see them, and how long they keep their runs."""

from litestar import get, patch
from litestar.params import FromPath, FromQuery, JSONBody

from stepward.api.audit import audit, word_of
from stepward.api.auth import ADMIN, Who, visible_project
from stepward.api.parts import Given
from stepward.model.resources import Project, ProjectChange


@get("/api/v1/projects", operation_id="list_projects", sync_to_thread=True)
def list_projects(parts: Given, who: Who) -> list[Project]:
    """The projects, by name, with the number of their runs."""
    return parts.retention.projects(who.projects)


@get("/api/v1/projects/{name:str}", operation_id="get_project", sync_to_thread=True)
def get_project(parts: Given, who: Who, name: FromPath[str]) -> Project:
    """One project."""
    return parts.retention.get(visible_project(who, name))


@patch("/api/v1/projects/{name:str}", operation_id="change_project", opt=ADMIN, sync_to_thread=True)
def change_project(
    parts: Given, who: Who, name: FromPath[str], data: JSONBody[ProjectChange], dry_run: FromQuery[bool] = False
) -> Project:
    """Change how long ended runs are kept; ``expired`` of the answer says how many runs that deletes now."""
    changed = parts.retention.change(visible_project(who, name), data, dry_run=dry_run)
    if not dry_run:
        kept = "for ever" if changed.retention_s is None else f"for {changed.retention_s:.0f} s"
        by = word_of(who)
        audit.info("project %r keeps ended runs %s, which deletes %d now: by %s", name, kept, changed.expired, by)
    return changed


ROUTES = [list_projects, get_project, change_project]
