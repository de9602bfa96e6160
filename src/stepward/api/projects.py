"""Projects, as far as the caller may see them."""

from litestar import get

from stepward.api.parts import Parts
from stepward.model.resources import Project
from stepward.store.catalog import Principal


@get("/api/v1/projects", operation_id="list_projects", sync_to_thread=True)
def list_projects(parts: Parts, who: Principal) -> list[Project]:
    """The projects, by name, with the number of their runs."""
    return parts.runs.projects(who.projects)


ROUTES = [list_projects]
