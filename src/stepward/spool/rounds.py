"""All writers of one run's folder, delivered round robin by the holder of the folder's lock.

One transport, one frame of a writer in flight. A server that is away stops the round; a writer that is stuck only itself.
"""

import time
from collections.abc import Callable

from stepward.client.transport import Transport
from stepward.settings import Settings
from stepward.spool import writers
from stepward.spool.delivery import Delivery, Outcome

STUCK_PAUSE_S = 60.0


class Rounds:
    """Deliveries of one run.

    Attributes:
        folder: the run's folder.
        problem: why the last round ended with LATER, STUCK or DENIED.
        retry_after_s: what the server asked for, None where it did not.
        frames, bytes, gaps, refused: sums over all writers.
    """

    def __init__(self, folder: str, run: str, breathe: Callable[[], None] = lambda: None) -> None:
        self.folder, self.run = folder, run
        self.problem = ""
        self.retry_after_s: float | None = None
        self.frames = self.bytes = self.gaps = self.refused = 0
        self._breathe = breathe
        self._transport: Transport | None = None
        self._deliveries: dict[str, Delivery] = {}
        self._parked: dict[str, float] = {}

    def connect(self, settings: Settings) -> None:
        """Deliver to the server of ``settings`` from now on; to none where it has none."""
        self.close()
        self._transport = Transport(settings.server, settings.token) if settings.server else None
        self._parked.clear()
        for delivery in self._deliveries.values():
            delivery.new_server()

    def unpark(self) -> None:
        """Try stuck writers again now."""
        self._parked.clear()

    def close(self) -> None:
        """Close the connection."""
        if self._transport is not None:
            self._transport.close()

    def round(self) -> Outcome:
        """One turn for each writer: SENT when there may be more, LATER or DENIED as soon as the server says so."""
        if self._transport is None:
            return Outcome.LATER
        result, now = Outcome.IDLE, time.monotonic()
        for name in writers.folders(self.folder):
            if self._parked.get(name, 0.0) > now:
                result = Outcome.STUCK if result is Outcome.IDLE else result
                continue
            outcome = self._turn(name, self._transport)
            if outcome in (Outcome.LATER, Outcome.DENIED):
                return outcome
            if outcome is Outcome.STUCK:
                self._parked[name] = now + STUCK_PAUSE_S
            if outcome is Outcome.SENT or result is Outcome.IDLE:
                result = outcome
        return result

    def left(self) -> int:
        """Bytes of all writers that are not acknowledged."""
        return sum(self._delivery(name).left() for name in writers.folders(self.folder))

    def deleted(self) -> list[str]:
        """Names of the writers that the server refused because their run was deleted there."""
        return [name for name, delivery in self._deliveries.items() if delivery.deleted]

    def _turn(self, name: str, transport: Transport) -> Outcome:
        delivery = self._delivery(name)
        before = delivery.frames, delivery.bytes, delivery.gaps, delivery.refused
        outcome = delivery.turn(transport)
        self.frames += delivery.frames - before[0]
        self.bytes += delivery.bytes - before[1]
        self.gaps += delivery.gaps - before[2]
        self.refused += delivery.refused - before[3]
        if outcome is Outcome.IDLE and delivery.done():
            writers.remove_writer(delivery.folder)
            del self._deliveries[name]
        elif delivery.problem:
            self.problem, self.retry_after_s = delivery.problem, delivery.retry_after_s
        return outcome

    def _delivery(self, name: str) -> Delivery:
        delivery = self._deliveries.get(name)
        if delivery is None:
            delivery = Delivery(f"{self.folder}/{name}", self.run, _now_us, self._breathe)
            self._deliveries[name] = delivery
        return delivery


def _now_us() -> int:
    return time.time_ns() // 1000
