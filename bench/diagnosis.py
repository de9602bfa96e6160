"""Accuracy and speed of the offline diagnosis.

``python bench/diagnosis.py cases FILE...`` scores case files of schema v2: only log, scheduler, metrics, kernel and stacks
are fed. ``speed [--mb N]`` times the matcher on a synthetic log. A grep for the first error is scored beside it.
``healthy DIR`` reads every file of a folder of healthy logs by itself and counts the causes that it is given for nothing.
``simulator`` runs simulated jobs through the detectors, ``folders`` through the diagnosis of the folder that a person
would have collected of them (``docs/simulator.md``).
"""

import argparse
import json
import re
import resource
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import yaml

from scores import calibration, proportion
from stepward.diagnose.clues import Role
from stepward.diagnose.document import Document
from stepward.diagnose.engine import diagnose
from stepward.diagnose.signatures import catalogue
from stepward.diagnose.sources import Source, discover
from stepward.model.taxonomy import LABELS

FIELDS = {
    "log": "job.log",
    "scheduler": "scheduler.txt",
    "kernel": "kernel.log",
    "stacks": "stacks.txt",
    "metrics": "metrics.txt",
}
NO_CAUSE = {"healthy", "unknown"}
GREP = re.compile(r"error|exception|fatal|fail|killed|timed? ?out|abort|xid|panic", re.IGNORECASE)


def write_case(case: dict, folder: Path) -> None:
    """A case as the folder in which a person would collect it."""
    folder.mkdir(parents=True)
    for field, name in FIELDS.items():
        if case.get(field):
            text = (
                case[field]
                if isinstance(case[field], str)
                else yaml.safe_dump(case[field], sort_keys=False, allow_unicode=True)
            )
            (folder / name).write_text(text)


def grep_first(case: dict) -> str | None:
    """Baseline: the first line that a grep for trouble finds, by the first signature that matches it."""
    text = "\n".join(str(case.get(field) or "") for field in FIELDS)
    for line in text.splitlines():
        if GREP.search(line):
            for signature in catalogue():
                if signature.label and signature.role is not Role.CONTEXT and signature.pattern.search(line):
                    return signature.label
            return None
    return None


def score(case: dict, found: Document) -> dict:
    """How one answer compares with the truth."""
    expected = case["expected_label"]
    accepted, layer = (
        set(case.get("accepted_labels") or [expected]),
        LABELS[expected].layer.value if expected in LABELS else None,
    )
    labels = [one.label for one in found.causes]
    three = [label for label in labels + [one.label for one in found.candidates] if label][:3]
    top = labels[0] if labels else None
    right = not labels if expected in NO_CAUSE else top == expected
    who = found.causes[0].suspects if found.causes else None
    return {
        "id": case["id"], "expected": expected, "top": top, "three": three, "outcome": found.outcome,
        "top1": right, "accepted": right if expected in NO_CAUSE else top in accepted,
        "top3": right if expected in NO_CAUSE else expected in three,
        "layer": None if layer is None else bool(top) and LABELS[top].layer.value == layer,
        "ranks": "expected_ranks" not in case or sorted(case["expected_ranks"]) == (who.ranks if who else []),
        "nodes": "expected_nodes" not in case or sorted(case["expected_nodes"]) == (who.nodes if who else []),
        "confidence": found.causes[0].confidence if found.causes else 0.0,
    }  # fmt: skip


def summary(rows: list[dict], cases: list[dict]) -> dict:
    """The figures of a case file."""

    def part(key: str, some: list[dict]) -> dict:
        return proportion(sum(bool(row[key]) for row in some), len(some))

    labelled = [row for row in rows if row["expected"] not in NO_CAUSE]
    healthy = [row for row in rows if row["expected"] == "healthy"]
    answered = [row for row in labelled if row["top"]]
    grep = sum(grep_first(case) == case["expected_label"] for case in cases if case["expected_label"] not in NO_CAUSE)
    return {
        **{key: part(key, rows) for key in ("top1", "accepted", "top3")},
        "top1_labelled": part("top1", labelled), "layer": part("layer", [row for row in rows if row["layer"] is not None]),
        "ranks": part("ranks", labelled), "nodes": part("nodes", labelled),
        "refusals": sum(row["top"] is None for row in labelled),
        "false_alarms_on_healthy": sum(row["top"] is not None for row in healthy), "healthy": len(healthy),
        "unknown_right": part("top1", [row for row in rows if row["expected"] == "unknown"]),
        **calibration([(row["confidence"], row["accepted"]) for row in answered]),
        "grep_first_match": proportion(grep, len(labelled)),
    }  # fmt: skip


def run_cases(path: str, *, only: str | None, verbose: bool) -> dict:
    """Score every case of a file."""
    cases = yaml.load(Path(path).read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))["cases"]
    rows = []
    with tempfile.TemporaryDirectory() as root:
        for at, case in enumerate(cases):
            if only and only not in case["id"]:
                continue
            folder = Path(root) / str(at)
            write_case(case, folder)
            row = score(case, diagnose(discover([str(folder)])))
            rows.append(row)
            if verbose and not (row["top1"] and row["ranks"] and row["nodes"]):
                mark = "ok  " if row["top1"] else "acc " if row["accepted"] else "MISS"
                print(f"{mark} {row['id']:38} {row['expected']:20} -> {row['top']!s:20} {row['confidence']:.2f} {row['three']}"
                      f"{'' if row['ranks'] else ' ranks'}{'' if row['nodes'] else ' nodes'}", file=sys.stderr)  # fmt: skip
    return summary(rows, [case for case in cases if not only or only in case["id"]])


def run_speed(megabytes: int, every: int) -> dict:
    """Time and memory for a synthetic log with one hit in ``every`` lines."""
    ordinary = (
        "2026-05-06 10:02:11,123 INFO trainer: step {at} loss {loss:.4f} lr 3.0e-04 grad_norm 0.41 tokens/s 181223\n"
    )
    hit = "[rank{rank}]: 2026-05-06 10:02:11 NCCL WARN NET/IB : Got completion from peer node-{rank}<51234> with error 12\n"
    with tempfile.TemporaryDirectory() as root:
        path, size, at = Path(root) / "job.log", 0, 0
        with path.open("w") as file:
            while size < megabytes << 20:
                at += 1
                size += file.write(
                    hit.format(rank=at % 64) if every and at % every == 0 else ordinary.format(at=at, loss=2 + 1 / at)
                )
        before, cpu = time.perf_counter(), time.process_time()
        found = diagnose([Source(str(path), "job.log")])
        took, cpu = time.perf_counter() - before, time.process_time() - cpu
    rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"mb": megabytes, "lines": at, "seconds": round(took, 2), "mb_per_s": round(megabytes / took, 1),
            "seconds_per_gb": round(took * 1024 / megabytes, 1),
            "cpu_seconds_per_gb": round(cpu * 1024 / megabytes, 1), "peak_rss_mb": round(rss),
            "lines_read": found.inputs[0].lines}  # fmt: skip


def run_healthy(root: str, *, verbose: bool) -> dict:
    """Every file of a folder is a log of something healthy: what is found in it is false."""
    causes: Counter[str] = Counter()
    files = lines = candidates = 0
    for source in discover([root]):
        found = diagnose([Source(source.path, source.name)])
        files, lines = files + 1, lines + sum(note.lines for note in found.inputs)
        causes.update(one.label for one in found.causes)
        candidates += len(found.candidates)
        if verbose and found.causes:
            print(f"{source.name}: {[(one.label, round(one.confidence, 2)) for one in found.causes]}", file=sys.stderr)
    return {
        "files": files, "lines": lines, "false_causes": sum(causes.values()), "by_label": dict(causes),
        "per_100k_lines": round(sum(causes.values()) / lines * 1e5, 3) if lines else None, "candidates": candidates,
    }  # fmt: skip


def run_simulator(chosen: argparse.Namespace) -> dict:
    """Parts of the simulator's benchmark; the detectors are only needed here."""
    import simulated

    parts = {
        "set": lambda: simulated.run_set(chosen.split, chosen.runs, chosen.first, verbose=chosen.verbose),
        "slowdown": lambda: simulated.run_slowdown(chosen.runs, chosen.first),
        "straggler": lambda: simulated.run_straggler(
            chosen.runs,
            chosen.first,
            [int(n) for n in chosen.ranks.split(",")],
            [float(factor) for factor in chosen.factors.split(",")],
        ),
        "hang": lambda: simulated.run_hang(
            chosen.split, chosen.runs, chosen.first, step_s=chosen.step_s, clocking=chosen.clocking
        ),
        "clean": lambda: simulated.run_clean(chosen.days, chosen.first, chosen.step_s or 4.0),
        "cost": simulated.run_cost,
    }
    return {name: parts[name]() for name in (parts if chosen.only == "all" else chosen.only.split(","))}


def main() -> None:
    """Run a part and print its figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parts = parser.add_subparsers(dest="part", required=True)
    cases = parts.add_parser("cases")
    cases.add_argument("files", nargs="+")
    cases.add_argument("--only")
    cases.add_argument("-v", "--verbose", action="store_true")
    speed = parts.add_parser("speed")
    speed.add_argument("--mb", type=int, default=200)
    speed.add_argument("--every", type=int, default=100, help="one hit in so many lines; 1 is an all-hit log")
    healthy = parts.add_parser("healthy")
    healthy.add_argument("folder")
    healthy.add_argument("-v", "--verbose", action="store_true")
    simulator = parts.add_parser("simulator")
    simulator.add_argument(
        "--only", default="set", help="set, slowdown, straggler, hang, clean, cost; all; or some of them"
    )
    simulator.add_argument("--split", choices=["train", "test"], default="test")
    simulator.add_argument("--runs", type=int, default=60, help="runs of the set, and of each row of a curve")
    simulator.add_argument("--first", type=int, default=1, help="the first seed")
    simulator.add_argument("--days", type=float, default=1, help="run-days of each row of clean noise")
    simulator.add_argument("--ranks", default="8,64,256,1024", help="sizes of the straggler's rows")
    simulator.add_argument("--factors", default="1.10,1.15", help="factors of the straggler's rows")
    simulator.add_argument("--step-s", type=float, help="seconds a step of hangs and clean runs; default: drawn, 4")
    simulator.add_argument(
        "--clocking", choices=["none", "host", "host_async", "device"], help="of hangs; default: drawn"
    )
    simulator.add_argument("-v", "--verbose", action="store_true")
    folders = parts.add_parser("folders")
    folders.add_argument("--split", choices=["train", "test"], default="test")
    folders.add_argument("--runs", type=int, default=60)
    folders.add_argument("--first", type=int, default=1)
    folders.add_argument("-v", "--verbose", action="store_true")
    chosen = parser.parse_args()
    if chosen.part == "cases":
        result: dict = {
            Path(path).name: run_cases(path, only=chosen.only, verbose=chosen.verbose) for path in chosen.files
        }
    elif chosen.part == "speed":
        result = run_speed(chosen.mb, chosen.every)
    elif chosen.part == "healthy":
        result = run_healthy(chosen.folder, verbose=chosen.verbose)
    elif chosen.part == "simulator":
        result = run_simulator(chosen)
    else:
        from folders import run_folders

        result = run_folders(chosen.split, chosen.runs, chosen.first, verbose=chosen.verbose)
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
