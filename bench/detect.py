"""Cost of the detectors: CPU time a signal, by kind, and of a thousand live runs.

    python bench/detect.py [--runs 1000] [--seconds 60]

Signals are made before they are timed; figures are CPU time of one core, best of three. The detection of each run is its own.
"""

import argparse
import json
import random
import sys
import time
import tracemalloc
from collections.abc import Callable

from stepward.detect.engine import Detection
from stepward.detect.signals import AttemptStarted, Heartbeat, Sample, Signal, Step

S = 1_000_000
T0 = 1_800_000_000 * S
_HOST = frozenset({"collective", "forward", "backward"})


def steps(ranks: int, count: int, *, phases: bool) -> list[Signal]:
    """Steps of synchronous ranks, one a second."""
    dice = random.Random(1)
    found: list[Signal] = []
    for number in range(count):
        for rank in range(ranks):
            seconds = dice.gauss(1.0, 0.02)
            parts = {"data_wait": 0.02, "forward": 0.3, "backward": 0.5, "collective": seconds - 0.82} if phases else {}
            found.append(
                Step(T0 + number * S + rank, "a", rank, number, seconds, parts, _HOST if phases else frozenset())
            )
    return found


def series(count: int) -> list[Signal]:
    """Twenty series of one rank: loss, gradient norm, step time, throughput and sixteen that no detector knows."""
    dice = random.Random(2)
    names = ["train/loss", "grad_norm", "step_time", "tokens_per_s", *(f"layers/{n}/norm" for n in range(16))]
    return [
        Sample(T0 + number * S + at, "a", name, 2.0 + dice.random(), number, 0)
        for number in range(count)
        for at, name in enumerate(names)
    ]


def system(count: int) -> list[Signal]:
    """Eight devices of a node, each read once a second."""
    dice = random.Random(3)
    names = ["utilization", "memory_used", "memory_total", "power", "temperature", "clock_sm", "ecc_corrected"]
    return [
        Sample(T0 + number * S + at, "a", f"system/device/{name}", 80 + dice.random(), number, None, device, "n0")
        for number in range(count)
        for device in range(8)
        for at, name in enumerate(names)
    ]


def beats(ranks: int, count: int) -> list[Signal]:
    """Heartbeats, one a second."""
    return [
        Heartbeat(T0 + number * S + rank, "a", rank, number, T0 + number * S, "forward")
        for number in range(count)
        for rank in range(ranks)
    ]


def cost_us(signals: list[Signal], ranks: int) -> float:
    """µs of CPU time a signal."""
    best = 1e9
    for _ in range(3):
        detection = Detection("run")
        nodes = {f"n{first // 8}": tuple(range(first, min(first + 8, ranks))) for first in range(0, ranks, 8)}
        detection.take(AttemptStarted(T0 - 30 * S, "a", ranks, nodes))
        begun = time.process_time()
        for signal in signals:
            detection.take(signal)
        detection.drain()
        best = min(best, (time.process_time() - begun) / len(signals) * 1e6)
    return round(best, 2)


def fleet(runs: int, seconds: int) -> dict[str, float]:
    """Share of a core that live runs take, each with one step and twenty series a second."""
    one = sorted([*steps(1, seconds, phases=True), *series(seconds)], key=lambda signal: signal[0])
    detections = [Detection(f"run{number}") for number in range(runs)]
    begun = time.process_time()
    for signal in one:
        for detection in detections:
            detection.take(signal)
    spent = time.process_time() - begun
    return {"runs": runs, "seconds": seconds, "signals_per_s": len(one) * runs / spent, "core_share": spent / seconds}


def memory_mb(make: Callable[[], list[Signal]]) -> float:
    """Megabytes that a detection holds after its signals."""
    signals = make()
    tracemalloc.start()
    detection = Detection("run")
    for signal in signals:
        detection.take(signal)
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return round(held / 1e6, 2)


def main() -> None:
    """Measure and print JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--seconds", type=int, default=30)
    arguments = parser.parse_args()
    figures = {
        "us_a_step": cost_us(steps(8, 1000, phases=False), 8),
        "us_a_step_with_phases": cost_us(steps(8, 1000, phases=True), 8),
        "us_a_step_1024_ranks": cost_us(steps(1024, 60, phases=True), 1024),
        "us_a_point_of_20_series": cost_us(series(1000), 1),
        "us_a_reading_of_8_devices": cost_us(system(200), 8),
        "us_a_heartbeat": cost_us(beats(8, 500), 8),
        "mb_1024_ranks": memory_mb(lambda: steps(1024, 60, phases=True)),
        "fleet": fleet(arguments.runs, arguments.seconds),
    }
    json.dump(figures, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
