"""Projects, as far as the caller may see them."""

from litestar import get

from stepward.api.auth import Who
from stepward.api.parts import Given
from stepward.model.resources import Project


@get("/api/v1/projects", operation_id="list_projects", sync_to_thread=True)
def list_projects(parts: Given, who: Who) -> list[Project]:
    """The projects, by name, with the number of their runs."""
    return parts.runs.projects(who.projects)


ROUTES = [list_projects]
