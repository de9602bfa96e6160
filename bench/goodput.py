"""Truth, the reference library's answer and ours for the cases A-G, and the time that a million steps take.

    python bench/goodput.py [--peer-python PATH] [--steps N] [--peer-steps N] [--out FILE]

``--peer-python`` is the interpreter of an environment of its own with ``ml-goodput-measurement``; it gets the same facts
through an in-memory logger, as far as its log has a place for them (job starts, step starts, start-up phases, job end).
Without it only truth and ours are shown. Times are CPU seconds of one process; memory is the growth of its peak.
"""

import argparse
import json
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from stepward.goodput import history
from stepward.goodput.answers import of_live
from stepward.goodput.events import Event
from stepward.goodput.ledger import account
from stepward.goodput.live import LiveLedger
from stepward.goodput.report import replay
from stepward.testing.goodput.cases import shipped

CASES = ("A", "A2", "B", "C", "D", "E", "F", "G", "oracle")
NS = 1_000_000_000
GOALS = {"recompute_s": 2.0, "live_us_an_event": 20.0, "live_windows_ms": 100.0}
ANSWERS = 20
"""Answers with 1 h, 24 h, all and the attempts, whose mean is told."""

PEER = """
import json, sys, tempfile, time, logging
logging.disable(logging.CRITICAL)
from ml_goodput_measurement import goodput
class Memory:
    def __init__(self): self.entries = []
    def write_cloud_logging_entry(self, entry): self.entries.append(entry)
    def read_cloud_logging_entries(self, *args, **kwargs): return self.entries, None
answers = {}
for name, entries in json.load(sys.stdin).items():
    memory = Memory()
    memory.entries = [{"job_name": name, **entry} for entry in entries]
    began = time.process_time()
    folder = tempfile.TemporaryDirectory()
    calculator = goodput.GoodputCalculator(name, "log", cloud_logger=memory, cache_dir=folder.name)
    share, bad, last = calculator.get_job_goodput(include_badput_breakdown=True)
    took = time.process_time() - began
    told = {kind.name: value for kind, value in bad.items() if isinstance(value, (int, float)) and value}
    answers[name] = {"goodput": share / 100, "badput_percent": told, "cpu_s": took}
print(json.dumps(answers))
"""


def entries(lines: list[bytes], base: float) -> Iterator[dict[str, Any]]:
    """A timeline as the reference library's log would hold it."""
    for event in sorted((json.loads(line) for line in lines), key=lambda event: event["t"]):
        t, kind = base + event["t"], event["kind"]
        if kind == "attempt_started":
            yield {"job_start_time": t}
        elif kind == "job_ended":
            yield {"job_end_time": t}
        elif kind == "step_started":
            yield {"step_count": event["step"], "step_start_time": t}
        elif kind.startswith("phase_") and event["phase"] == "init":
            yield {f"tpu_init_{'start' if kind == 'phase_started' else 'end'}_time": t}


def peer(python: str, asked: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """What the reference library answers."""
    done = subprocess.run([python, "-c", PEER], input=json.dumps(asked), capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"the reference library failed: {done.stderr[-2000:]}")
    answers: dict[str, Any] = json.loads(done.stdout)
    return answers


def million(steps: int) -> Iterator[Event]:
    """Steps of a second each, a checkpoint every thousand."""
    yield Event(0, "attempt_started", 1, devices=8)
    for step in range(steps):
        t = (60 + step) * NS
        yield Event(t, "step_started", 1, step=step)
        yield Event(t + NS, "step_ended", 1, step=step)
        if step % 1000 == 999:
            yield Event(t + NS, "checkpoint_durable", step=step)
    yield Event((60 + steps) * NS, "job_ended", reason="finished")


def peak_mib() -> float:
    """Peak of this process's memory, MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def live(steps: int) -> dict[str, float]:
    """The live ledger, fed one event after the other."""
    ledger, before, events = LiveLedger(), peak_mib(), 0
    began = time.process_time()
    for event in million(steps):
        if event.kind == "job_ended":
            break
        ledger.feed(event)
        events += 1
    took = time.process_time() - began
    began = time.process_time()
    ledger.ledger()
    answered = time.process_time() - began
    now = (60 + steps) * NS
    began = time.process_time()
    for _ in range(ANSWERS):
        found = of_live(ledger, now, run="run_bench", name="bench", project="bench")
    assert found is not None
    print(
        "live, of the last "
        + ", ".join(f"{cut.window}: {100 * (cut.overall or 0):.2f} %" for cut in found.windows)
        + f"; of all: {100 * (found.report.overall or 0):.2f} %"
    )
    return {
        "live_us_an_event": 1e6 * took / events,
        "live_answer_ms": 1e3 * answered,
        "live_windows_ms": 1e3 * (time.process_time() - began) / ANSWERS,
        "live_memory_mib": peak_mib() - before,
    }


def recompute(steps: int) -> dict[str, float]:
    """Both passes over events that are in memory."""
    events = list(million(steps))
    began = time.process_time()
    told = history.build(events, [])
    built = time.process_time() - began
    assert told is not None
    account(told)
    return {
        "build_s": built,
        "account_s": time.process_time() - began - built,
        "recompute_s": time.process_time() - began,
    }


def compare(python: str | None) -> list[dict[str, Any]]:
    """A row a case: truth, theirs, ours."""
    known = {case.name: case for case in shipped() if case.name in CASES}
    base = float(int(time.time()) - 86_400)
    theirs = peer(python, {name: list(entries(known[name].lines, base)) for name in CASES}) if python else {}
    rows = []
    for name in CASES:
        ours = replay(known[name].lines)
        row = {"case": name, "truth": known[name].truth["overall"], "ours": ours.overall, "theirs": None}
        rows.append(
            row
            | ({"theirs": theirs[name]["goodput"], "their_badput": theirs[name]["badput_percent"]} if theirs else {})
        )
    return rows


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer-python", help="interpreter that has ml-goodput-measurement")
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument(
        "--peer-steps", type=int, default=100_000, help="its time grows with the steps; 100,000 take seconds"
    )
    parser.add_argument("--out", help="write the report as JSON")
    options = parser.parse_args()
    # First, while nothing else has raised the peak of memory.
    times: dict[str, Any] = {"steps": options.steps} | live(options.steps)
    rows = compare(options.peer_python)
    print(f"{'case':<8}{'truth':>9}{'theirs':>9}{'ours':>9}")
    for row in rows:
        theirs = "-" if row["theirs"] is None else f"{100 * row['theirs']:.2f}"
        print(f"{row['case']:<8}{100 * row['truth']:>9.2f}{theirs:>9}{100 * row['ours']:>9.2f}")
    times |= recompute(options.steps)
    if options.peer_python:
        base = float(int(time.time()) - options.peer_steps - 100)
        log = [{"job_start_time": base}]
        log += [{"step_count": step, "step_start_time": base + 60 + step} for step in range(options.peer_steps)]
        answer = peer(options.peer_python, {"long": [*log, {"job_end_time": base + 60 + options.peer_steps}]})
        times |= {"peer_steps": options.peer_steps, "peer_recompute_s": answer["long"]["cpu_s"]}
    for name, value in times.items():
        goal = f"  (goal: at most {GOALS[name]:g})" if name in GOALS else ""
        print(f"{name:<18} {value:,.3f}{goal}")
    if options.out:
        report = {
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "python": platform.python_version(),
            "cases": rows,
            "times": times,
            "goals": GOALS,
        }
        with open(options.out, "w", encoding="utf-8") as file:
            json.dump(report, file, indent=1)
            file.write("\n")


if __name__ == "__main__":
    main()
