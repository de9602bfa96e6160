"""Small runs for the detectors' tests: signals of synchronous ranks, with whatever a test makes of them."""

import math
import random
from collections.abc import Callable, Iterable, Sequence

from stepward.detect.engine import Detection
from stepward.detect.signals import (
    AttemptStarted,
    Certainty,
    Detected,
    Heartbeat,
    Hit,
    Sample,
    Signal,
    Step,
    Tick,
)

S = 1_000_000
T0 = 1_800_000_000 * S


def at(seconds: float) -> int:
    """An instant of a test, in µs."""
    return T0 + round(seconds * S)


def start(ranks: int, per_node: int = 4, seconds: float = -30.0, attempt: str = "a", **more: object) -> AttemptStarted:
    """The launcher's word."""
    nodes = {
        f"n{first // per_node:02d}": tuple(range(first, min(ranks, first + per_node)))
        for first in range(0, ranks, per_node)
    }
    return AttemptStarted(at(seconds), attempt, ranks, nodes, **more)  # type: ignore[arg-type]


def times(seed: int, count: int, cv: float = 0.02, rho: float = 0.3, step_s: float = 1.0) -> list[float]:
    """Log-normal AR(1) step times."""
    dice = random.Random(seed)
    sigma, state = math.sqrt(math.log1p(cv * cv)), dice.gauss(0, 1)
    found = []
    for _ in range(count):
        state = rho * state + math.sqrt(1 - rho * rho) * dice.gauss(0, 1)
        found.append(step_s * math.exp(sigma * state))
    return found


def steps(
    durations: Sequence[float],
    ranks: int = 1,
    own: Callable[[int, int], float] | None = None,
    attempt: str = "a",
    begin: float = 0.0,
    first: int = 0,
) -> list[Signal]:
    """Steps of synchronous ranks: ``own`` gives a rank's part of a step's time, the rest is its wait for the slowest."""
    found: list[Signal] = []
    now = begin
    for number, seconds in enumerate(durations, first):
        shares = [own(rank, number) if own else 0.9 for rank in range(ranks)]
        whole = seconds * max(*shares, 0.9) / 0.9
        now += whole
        for rank, share in enumerate(shares):
            wait = whole - seconds * share
            phases = {"collective": wait, "forward": seconds * share} if own else {}
            found.append(Step(at(now), attempt, rank, number, whole, phases, frozenset(phases)))
    return found


def beats(
    begin: float, end: float, ranks: int, phase: Callable[[int], str | None], step: int, moved: float
) -> list[Signal]:
    """Heartbeats of ranks that stand at a step."""
    found: list[Signal] = []
    now = begin
    while now < end:
        found += [
            Heartbeat(at(now + 0.1 * rank / ranks), "a", rank, step, at(moved), phase(rank)) for rank in range(ranks)
        ]
        now += 4.0
    return found


def hit(seconds: float, label: str | None, role: str = "root", **more: object) -> Hit:
    """A known line."""
    where: dict[str, object] = {"source": "log", "line": int(seconds * 1000) % 100_000_007, "text": f"{label} happened"}
    return Hit(at(seconds), "a", f"{label}_{role}", label, role, severity="error", **{**where, **more})  # type: ignore[arg-type]


def sample(seconds: float, metric: str, value: float, **more: object) -> Sample:
    """One point."""
    return Sample(at(seconds), "a", metric, value, **more)  # type: ignore[arg-type]


def detect(signals: Iterable[Signal], until: float | None = None, **more: object) -> list[Detected]:
    """Everything that is said of signals, which are put in order first."""
    detection = Detection("run", **more)  # type: ignore[arg-type]
    said = [event for signal in sorted(signals, key=lambda one: one[0]) for event in detection.take(signal)]
    if until is not None:
        said += detection.take(Tick(at(until)))
    return said + detection.drain()


def last(said: Iterable[Detected], kind: str | None = None) -> list[Detected]:
    """The newest version of each event, of one type."""
    newest = {event.id: event for event in said}
    return [event for event in newest.values() if kind is None or event.type == kind]


def confirmed(said: Iterable[Detected], kind: str | None = None) -> list[Detected]:
    """Events that are sure at the end."""
    return [event for event in last(said, kind) if event.certainty is Certainty.CONFIRMED]
