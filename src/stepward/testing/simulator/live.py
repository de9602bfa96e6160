"""A simulated run towards a live server: the frames of all its sources over HTTP, at a multiple of its own speed.

Times keep their distances, so that time-outs and thresholds mean what they say; all of them lie in the past until the
run's last one, which is now.
"""

import time
from collections import defaultdict
from collections.abc import Callable
from typing import NamedTuple

from stepward.client.problems import error_of
from stepward.client.transport import Transport
from stepward.model import frames
from stepward.model.identity import derived_run_id
from stepward.testing.simulator.simulation import Item, Simulation
from stepward.testing.simulator.truth import Fault
from stepward.testing.simulator.wire import Source, source_of

TICK_S = 0.5
"""Wall seconds between two rounds of frames."""


class Driven(NamedTuple):
    """What came of it: the run, its truth on the server's clock, and how much was sent."""

    run: str
    faults: list[Fault]
    frames: int
    bytes: int


def drive(
    simulation: Simulation,
    transport: Transport,
    *,
    speed: float = 20.0,
    project: str = "default",
    key: str | None = None,
    until: Callable[[float], bool] = lambda seconds: False,
) -> Driven:
    """Send a whole run.

    Args:
        transport: to the server, with a token that may write.
        speed: seconds of the run a second.
        key: run key; another one makes another run of the same simulation.
        until: asked at every round with the seconds of the run so far; True ends it there, as if all had fallen silent.

    Raises:
        StepwardError: what the server answered, or that it did not.
    """
    plan = simulation.plan
    course, _ = simulation.course()
    length_s = [segment.end for segment in course.segments()][-1]
    run = derived_run_id(project, key or f"simulated:{plan.split}:{plan.seed}:{'+'.join(simulation.kinds)}")
    begun = time.monotonic()
    shift = time.time_ns() // 1000 + round((length_s / speed - length_s) * 1e6) - plan.start_s * 1_000_000
    sources: dict[tuple[str, int | None, str], Source] = {}
    items = simulation.items()
    held: Item | None = None
    sent = size = 0
    passed = 0.0
    while passed < length_s + TICK_S * speed and not until(passed):
        passed = (time.monotonic() - begun) * speed
        due: dict[tuple[str, int | None, str], list[Item]] = defaultdict(list)
        limit = plan.start_s * 1_000_000 + round(passed * 1e6)
        while (item := held or next(items, None)) is not None:
            held = None
            if item[0] > limit:
                held = item
                break
            if (who := source_of(item, plan)) is not None:
                due[who].append(item)
        for who, some in due.items():
            source = sources.setdefault(who, Source(run, project, plan, who, shift))
            size += _send(transport, frames.encode(source.frame(some, now=time.time_ns() // 1000)))
            sent += 1
        rest = begun + (passed / speed) + TICK_S - time.monotonic()
        if rest > 0:
            time.sleep(rest)
    faults = simulation.faults()
    for fault in faults:
        fault.t0 += shift
        fault.t1 = None if fault.t1 is None else fault.t1 + shift
    return Driven(run, faults, sent, size)


def _send(transport: Transport, data: bytes) -> int:
    answer = transport.request(
        "POST", "/api/v1/ingest", body=data, headers={"content-type": "application/vnd.stepward.frame"}
    )
    if answer.status != 200:
        raise error_of("the simulation's frames", answer.status, answer.headers, answer.body)
    return len(data)
