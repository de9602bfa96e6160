"""What a notice says of a run: its name, and the diagnosis in brief."""

import msgspec

from stepward.diagnose.document import Document
from stepward.diagnose.export import brief
from stepward.errors import NotFound
from stepward.store.catalog import Runs
from stepward.store.catalog.detected import PREFIX
from stepward.store.catalog.diagnoses import Diagnoses


class Describing:
    """Describes runs from the catalog."""

    def __init__(self, runs: Runs, diagnoses: Diagnoses) -> None:
        self._runs, self._diagnoses = runs, diagnoses

    def __call__(self, run: str, event: str) -> tuple[str, list[str]]:
        """Name of a run and, in lines, the diagnosis of one of its events, or its newest one for the end of an attempt."""
        try:
            name = self._runs.get(None, run).name
            kept = self._diagnoses.newest(None, run, event if event.startswith(PREFIX) else None)
        except NotFound as error:
            return (run if error.code == "no_such_run" else name), []
        document = msgspec.json.decode(kept.document, type=Document)
        return name, [f"{what}: {words}" for what, words in brief(document)]
