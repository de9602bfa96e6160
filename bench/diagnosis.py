"""Accuracy and speed of the offline diagnosis.

``python bench/diagnosis.py cases FILE...`` scores case files of schema v2: only log, scheduler, metrics, kernel and stacks
are fed. ``speed [--mb N]`` times the matcher on a synthetic log. A grep for the first error is scored beside it.
"""

import argparse
import json
import math
import re
import resource
import sys
import tempfile
import time
from pathlib import Path

import yaml

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


def wilson(right: int, total: int, z: float = 1.96) -> tuple[float, float]:
    """Interval of a proportion."""
    if not total:
        return math.nan, math.nan
    p = right / total
    centre, spread = p + z * z / (2 * total), z * math.sqrt(p * (1 - p) / total + z * z / (4 * total * total))
    return (centre - spread) / (1 + z * z / total), (centre + spread) / (1 + z * z / total)


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
        right = sum(bool(row[key]) for row in some)
        low, high = wilson(right, len(some))
        return {
            "right": right,
            "of": len(some),
            "share": round(right / max(1, len(some)), 3),
            "wilson95": [round(low, 3), round(high, 3)],
        }

    labelled = [row for row in rows if row["expected"] not in NO_CAUSE]
    healthy = [row for row in rows if row["expected"] == "healthy"]
    answered = [row for row in labelled if row["top"]]
    bins = [[row for row in answered if low <= row["confidence"] < low + 0.2] for low in (0.2, 0.4, 0.6, 0.8)]
    error = sum(
        abs(sum(row["accepted"] for row in some) - sum(row["confidence"] for row in some)) for some in bins
    ) / max(1, len(answered))
    grep = sum(grep_first(case) == case["expected_label"] for case in cases if case["expected_label"] not in NO_CAUSE)
    return {
        **{key: part(key, rows) for key in ("top1", "accepted", "top3")},
        "top1_labelled": part("top1", labelled), "layer": part("layer", [row for row in rows if row["layer"] is not None]),
        "ranks": part("ranks", labelled), "nodes": part("nodes", labelled),
        "refusals": sum(row["top"] is None for row in labelled),
        "false_alarms_on_healthy": sum(row["top"] is not None for row in healthy), "healthy": len(healthy),
        "unknown_right": part("top1", [row for row in rows if row["expected"] == "unknown"]),
        "calibration_error": round(error, 3),
        "grep_first_match": {"right": grep, "of": len(labelled)},
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
    chosen = parser.parse_args()
    if chosen.part == "cases":
        result: dict = {
            Path(path).name: run_cases(path, only=chosen.only, verbose=chosen.verbose) for path in chosen.files
        }
    else:
        result = run_speed(chosen.mb, chosen.every)
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
