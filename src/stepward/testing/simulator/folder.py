"""A simulated run as the folder in which a person would have collected it: output of ranks, kernel and scheduler, metrics."""

import json
import os
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from stepward.detect.signals import RankEnded, Sample, Step
from stepward.testing.simulator.course import Course
from stepward.testing.simulator.noise import stream
from stepward.testing.simulator.truth import Fault
from stepward.testing.simulator.voice import Text

if TYPE_CHECKING:
    from stepward.testing.simulator.simulation import Item, Simulation

TRUTH = ".truth.json"
"""A hidden file: who reads the folder as a diagnosis does never sees it."""
MOST_VALUES = 60
_STATES = {
    "finished": ("COMPLETED", "0:0"),
    "failed": ("FAILED", "1:0"),
    "crashed": ("FAILED", "134:0"),
    "oom": ("OUT_OF_MEMORY", "0:125"),
    "timeout": ("TIMEOUT", "0:0"),
    "preempted": ("PREEMPTED", "0:15"),
    "cancelled": ("CANCELLED by 1000", "0:15"),
    "lost": ("NODE_FAIL", "0:0"),
}


def write(simulation: "Simulation", folder: str, *, metrics: bool = True) -> list[Fault]:
    """Write the folder; the faults that stand in its truth.

    It is collected when the last attempt that a fault ended is over, or at the end of the run.
    """
    course, troubles = simulation.course()
    for _ in course.segments():
        pass
    faults = [fault for trouble in troubles if (fault := trouble.fault(course.voice)) is not None]
    last = [fault.t1 for trouble, fault in zip(troubles, faults, strict=False) if trouble.stops and fault.t1]
    end = max(last) + 20_000_000 if last else None
    os.makedirs(folder, exist_ok=True)
    items = [item for item in simulation.items() if end is None or item[0] <= end]
    texts = [item for item in items if isinstance(item, Text)]
    _logs(simulation, folder, [text for text in texts if text.source == "log"])
    kernel: dict[str, list[str]] = defaultdict(list)
    for text in texts:
        if text.source == "kernel":
            kernel[f"kernel-{text.node}.log" if course.voice.kernel_form == 2 else "kernel.log"].append(text.text)
    for name, lines in kernel.items():
        _save(f"{folder}/{name}", lines)
    _save(f"{folder}/scheduler.txt", _scheduler(course, [t.text for t in texts if t.source == "scheduler"], end))
    if metrics:
        _save(f"{folder}/metrics.jsonl", _metrics(items))
    with open(f"{folder}/{TRUTH}", "wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode({"faults": faults, "exits": exits(items)}), indent=1))
    return faults


def exits(items: Sequence["Item"]) -> list[tuple[int, int]]:
    """(rank, exit code) in order of time, a signal as its negative number."""
    numbers = {"SIGABRT": -6, "SIGKILL": -9, "SIGSEGV": -11, "SIGTERM": -15, "SIGBUS": -7}
    ended = [item for item in items if isinstance(item, RankEnded)]
    return [(e.rank, e.exit_code if e.exit_code is not None else numbers.get(e.signal or "", 1)) for e in ended]


def _logs(simulation: "Simulation", folder: str, texts: Sequence[Text]) -> None:
    form = int(stream(simulation.plan.seed, "folder").integers(3))
    files: dict[str, list[str]] = defaultdict(list)
    for text in texts:
        if form == 0:
            files["job.log"].append(_prefixed(text))
        elif text.rank is None:
            files["launcher.log"].append(text.text)
        elif form == 1:
            files[f"rank{text.rank:04d}.log"].append(text.text)
        else:
            files[f"{text.node}/rank{text.rank}.log"].append(text.text)
    for name, lines in files.items():
        os.makedirs(os.path.dirname(f"{folder}/{name}"), exist_ok=True)
        _save(f"{folder}/{name}", lines)


def _prefixed(text: Text) -> str:
    if text.rank is None or text.text.startswith("[rank"):
        return text.text
    return f"[rank{text.rank}]: {text.text}"


def _scheduler(course: Course, said: list[str], end: int | None) -> list[str]:
    if any("kubelet" in line for line in said):
        return said
    plan, rows = course.plan, ["JobID|JobName|State|ExitCode|Elapsed|Timelimit|NodeList|Start|End"]
    nodes = ",".join(plan.layout.node(number) for number in range(plan.layout.nodes))
    for _, begun, ended, state, _reason in course.ends:
        if end is not None and course.voice.at(begun) > end:
            break
        word, code = _STATES[state]
        length = int(ended - begun)
        elapsed = f"{length // 3600:02d}:{length % 3600 // 60:02d}:{length % 60:02d}"
        limit = elapsed if state == "timeout" else "2-00:00:00"
        times = [f"{course.voice.clock(seconds):%Y-%m-%dT%H:%M:%S}" for seconds in (begun, ended)]
        rows.append("|".join([plan.job, "train", word, code, elapsed, limit, nodes, *times]))
    return [*rows, *said]


def _metrics(items: Sequence["Item"]) -> list[str]:
    series: dict[tuple[str, int | None, str, int | None], list[float]] = defaultdict(list)
    for item in items:
        if isinstance(item, Sample):
            series[item.metric, item.rank, item.node, item.device].append(item.value)
        elif isinstance(item, Step):
            series["step_time", item.rank, "", None].append(item.duration_s)
            for phase in ("data_wait", "collective"):
                if phase in item.phases:
                    series[f"{phase}_time", item.rank, "", None].append(item.phases[phase])
    lines = []
    for (name, rank, node, device), values in series.items():
        row: dict[str, object] = {"name": name}
        row |= {
            key: value for key, value in (("rank", rank), ("node", node), ("device", device)) if value not in (None, "")
        }
        every = -(-len(values) // MOST_VALUES)
        row["values"] = [round(value, 6) for value in values[::every]]
        lines.append(json.dumps(row))
    return lines


def _save(path: str, lines: Sequence[str]) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)
