"""A simulated run towards a live server: the frames of all its sources over HTTP, at a multiple of its own speed.

Times keep their distances, so that time-outs and thresholds mean what they say; all of them lie in the past until the
run's last one, which is now.
"""

import threading
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import msgspec

from stepward.client.problems import error_of
from stepward.client.transport import Transport
from stepward.model import frames
from stepward.model.identity import derived_run_id
from stepward.testing.simulator.simulation import Item, Simulation
from stepward.testing.simulator.truth import Fault
from stepward.testing.simulator.wire import Source, source_of

TICK_S = 0.5
"""Wall seconds between two rounds of frames."""
CONNECTIONS = 16
"""The server commits the frames of active writers together, and waits for each a little: they have to come side by side."""

Key = tuple[str, int | None, str]


class Driven(NamedTuple):
    """What came of it: the run, its truth on the server's clock, and how much was sent."""

    run: str
    faults: list[Fault]
    frames: int
    bytes: int


def drive(
    simulation: Simulation,
    connect: Callable[[], Transport],
    *,
    speed: float = 20.0,
    project: str = "default",
    key: str | None = None,
    until: Callable[[float], bool] = lambda seconds: False,
) -> Driven:
    """Send a whole run.

    Args:
        connect: makes a connection to the server, with a token that may write.
        speed: seconds of the run a second.
        key: run key; another one makes another run of the same simulation.
        until: asked at every round with the seconds of the run so far; True ends it there, as if all had fallen silent.

    Raises:
        StepwardError: what the server answered, or that it did not.
    """
    length_s = [segment.end for segment in simulation.course()[0].segments()][-1]
    start_s = int(time.time() - length_s + length_s / speed)
    # Lines carry their clocks in their text, so that the run itself must lie in time where it is sent.
    moved = Simulation(msgspec.structs.replace(simulation.plan, start_s=start_s), simulation.placed)
    run = derived_run_id(
        project, key or f"simulated:{moved.plan.split}:{moved.plan.seed}:{'+'.join(simulation.kinds)}:{start_s}"
    )
    sending = _Sending(moved, run, project, connect)
    begun, passed = time.monotonic(), 0.0
    with ThreadPoolExecutor(CONNECTIONS) as pool:
        while passed < length_s + TICK_S * speed and not until(passed):
            passed = (time.monotonic() - begun) * speed
            due = sending.due(start_s * 1_000_000 + round(passed * 1e6))
            for _ in pool.map(lambda one: sending.send(*one), due.items()):
                pass
            rest = begun + passed / speed + TICK_S - time.monotonic()
            if rest > 0:
                time.sleep(rest)
    return Driven(run, moved.faults(), sending.frames, sending.bytes)


class _Sending:
    """The sources of a run and what they have still to say."""

    def __init__(self, simulation: Simulation, run: str, project: str, connect: Callable[[], Transport]) -> None:
        self.frames = self.bytes = 0
        self._plan, self._run, self._project = simulation.plan, run, project
        self._items = simulation.items()
        self._held: Item | None = None
        self._sources: dict[Key, Source] = {}
        self._connect, self._own, self._lock = connect, threading.local(), threading.Lock()

    def due(self, limit: int) -> dict[Key, list[Item]]:
        """What is said up to an instant, by source."""
        due: dict[Key, list[Item]] = defaultdict(list)
        while (item := self._held or next(self._items, None)) is not None:
            self._held = item if item[0] > limit else None
            if self._held is not None:
                break
            if (who := source_of(item, self._plan)) is not None:
                due[who].append(item)
                self._sources.setdefault(who, Source(self._run, self._project, self._plan, who))
        return due

    def send(self, who: Key, items: list[Item]) -> None:
        """Send a frame of one source, which has no other on its way."""
        transport: Transport | None = getattr(self._own, "transport", None)
        if transport is None:
            transport = self._own.transport = self._connect()
        data = frames.encode(self._sources[who].frame(items, now=time.time_ns() // 1000))
        answer = transport.request(
            "POST", "/api/v1/ingest", body=data, headers={"content-type": "application/vnd.stepward.frame"}
        )
        if answer.status != 200:
            raise error_of("the frames of a simulated run", answer.status, answer.headers, answer.body)
        with self._lock:
            self.frames, self.bytes = self.frames + 1, self.bytes + len(data)
