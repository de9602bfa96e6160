"""How long a source has been silent *towards a server that could hear*: leases that the server's own outages never expire.

A source is lost after ``MISSED_HEARTBEATS`` heartbeats did not come. Time in which the server was down, suspended, stuck
or refusing frames does not count, nor does the time that shippers then need to come back (their back-off grows with the
outage, up to ``LONGEST_BACKOFF_S`` of ``docs/wire.md``). Pure: the clock is passed in, µs since the epoch.
"""

from stepward.model.words import HEARTBEAT_S, MISSED_HEARTBEATS

LEASE_US = int(HEARTBEAT_S * MISSED_HEARTBEATS * 1e6)
LATE_TICK_US = 3_000_000
"""The clock is looked at every second; when it was not for this long, the process or the machine stood still."""
LONGEST_BACKOFF_S = 60
_KEPT_US = 3_600_000_000


class Hearing:
    """The stretches of time in which this server could not hear.

    Args:
        started_at: when this server started.
        heard_until: when the server before it heard its last frame; None where there was none.
    """

    def __init__(self, started_at: int, heard_until: int | None = None) -> None:
        self._deaf: list[tuple[int, int]] = []
        self._ticked_at = self._set_at = started_at
        if heard_until is not None:
            self.outage(heard_until, started_at)

    def tick(self, now: int, *, waiting_since: int | None = None) -> None:
        """Look at the clock, every second. ``waiting_since``: arrival of the oldest frame that is not committed yet."""
        if now < self._ticked_at:
            self._set_at = now
        elif now - self._ticked_at > LATE_TICK_US:
            self.outage(self._ticked_at, now)
        if waiting_since is not None and now - waiting_since > LATE_TICK_US:
            self.deaf(waiting_since, now)
        self._ticked_at = now
        self._deaf = [(start, end) for start, end in self._deaf if end > now - _KEPT_US]

    def outage(self, start: int, end: int) -> None:
        """Nothing was heard from ``start`` to ``end``; shippers come back within their back-off after it."""
        self.deaf(start, end + min(max(end - start, 0), LONGEST_BACKOFF_S * 1_000_000))

    def deaf(self, start: int, end: int) -> None:
        """What is said from ``start`` to ``end`` may come later than its lease."""
        merged = []
        for known_start, known_end in self._deaf:
            if known_end < start or known_start > end:
                merged.append((known_start, known_end))
            else:
                start, end = min(start, known_start), max(end, known_end)
        self._deaf = sorted([*merged, (start, end)])

    def silence(self, heard_at: int, now: int) -> int:
        """µs of silence that count: from ``heard_at`` to ``now`` without the stretches in which nothing was heard."""
        if heard_at > now:  # the clock was set back since
            heard_at = min(self._set_at, now)
        deaf = sum(max(0, min(end, now) - max(start, heard_at)) for start, end in self._deaf)
        return now - heard_at - deaf

    def holds(self, heard_at: int, now: int) -> bool:
        """Whether the lease of a source heard at ``heard_at`` still holds."""
        return self.silence(heard_at, now) <= LEASE_US
