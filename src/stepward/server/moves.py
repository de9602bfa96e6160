"""The worker that removes the runs that stood for jobs whose watcher has found their run elsewhere."""

from collections import deque

from stepward.api.deletion import delete_run
from stepward.api.parts import Parts
from stepward.errors import NotFound
from stepward.store.catalog.claims import only_watched


class Moves:
    """Runs that have moved, each deleted once nobody but watchers has written to it."""

    def __init__(self) -> None:
        self._due: deque[str] = deque()

    def note(self, run: str) -> None:
        """A watcher writes elsewhere than to this run; any thread may say so."""
        self._due.append(run)

    def resume(self, parts: Parts) -> None:
        """Note what a crash has left."""
        self._due.extend(parts.claims.superseded())

    def clear(self, parts: Parts) -> int:
        """Delete what is due; returns how many runs."""
        deleted = 0
        for _ in range(len(self._due)):
            run = self._due.popleft()
            try:
                head = parts.runs.head(None, run)
            except NotFound:
                continue
            deleted += delete_run(parts, head, by="its watcher: the job's run is elsewhere", only_if=only_watched)
        return deleted
