"""Notebooks: a cell that failed is how its run ended, though the kernel lives on.

IPython shows an exception itself and goes on, so no hook of the interpreter sees it. The last cell decides: a run that is
finished by the next ``init`` or by the kernel's shutdown after a failed cell has failed, after an interrupt is cancelled.
"""

import sys
from typing import Any


class Cells:
    """Remembers how the last cell ended."""

    def __init__(self, shell: Any) -> None:
        self.error: BaseException | None = None
        self._shell = shell
        shell.events.register("post_run_cell", self._ended)

    def close(self) -> None:
        """Watch no more."""
        try:
            self._shell.events.unregister("post_run_cell", self._ended)
        except ValueError:  # unregistered by a reset of the shell
            return

    def _ended(self, result: Any) -> None:
        self.error = getattr(result, "error_before_exec", None) or getattr(result, "error_in_exec", None)


def watch_cells() -> Cells | None:
    """The cells of this kernel or IPython shell; None in a plain process."""
    ipython = sys.modules.get("IPython")
    try:
        shell = ipython.get_ipython() if ipython is not None else None
        return Cells(shell) if shell is not None else None
    except Exception:  # a shell without events
        return None
