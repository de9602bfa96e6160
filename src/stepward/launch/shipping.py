"""Sends what is in the run's spool folder while the wrapper lives, and says what is left when it ends.

The shipper holds the folder's lock, so SDK processes below leave the sending to it. Without a server everything waits in
the spool; the job does not notice.
"""

import time
from typing import Any

from stepward import settings as configured
from stepward.launch.notes import guarded, say
from stepward.settings import Settings

FINISH_S = 10.0
"""Longest wait at the end for a server that is slow or away; one that takes record after record is waited for on."""
LONGEST_S = 600.0
"""Longest wait at the end for any server."""
UNHEARD_S = 2.0
"""Longest wait at the end for a server that has acknowledged nothing of the run."""
STOP_S = 1.0
"""Longest wait for the shipper's thread to let the folder go."""


class Shipping:
    """The shipper of one run's folder.

    Args:
        settings: of this process; loaded where None.
    """

    def __init__(self, settings: Settings | None, root: str, run: str) -> None:
        self._settings, self._root, self._run = settings, root, run
        self._shipper: Any = None

    def start(self) -> None:
        """Begin to send."""
        guarded("sending records", self._start, None)

    def _start(self) -> None:
        # Imported on use: the HTTP client, and the command starts before it.
        from stepward.spool.shipper import Shipper

        shipper = Shipper(self._settings or configured.load(), self._root, self._run)
        shipper.start()
        self._shipper = shipper

    def finish(self) -> bool:
        """Send the rest, for ``FINISH_S`` and on while it gets on; False when something stays in the spool, which is said."""
        shipper, wait_s = self._shipper, FINISH_S if self._has_server() else 0.0
        sent = shipper is not None and guarded("sending records", lambda: _flush(shipper, wait_s), False)
        if shipper is not None:
            guarded("ending the sending", lambda: shipper.stop(STOP_S), None)
        if not sent:
            say(f"records of {self._run} wait in {self._root}; send them with: stepward sync --run {self._run}")
        return sent

    def _has_server(self) -> bool:
        """Whether a server is known, now: one may have come up while the command ran."""
        known = self._settings is not None and self._settings.server is not None
        return known or guarded("looking for a server", lambda: configured.load().server is not None, False)


def _flush(shipper: Any, wait_s: float) -> bool:
    end = time.monotonic() + LONGEST_S
    while True:
        before = shipper.delivered_bytes
        if shipper.flush(wait_s, unheard_s=UNHEARD_S):
            return True
        if shipper.delivered_bytes == before or time.monotonic() > end:
            return False
