"""Simulated folders through the offline diagnosis: used by ``bench/diagnosis.py folders``."""

import sys
import tempfile
from pathlib import Path
from typing import Any

from scores import calibration, proportion
from stepward.diagnose.document import Document
from stepward.diagnose.engine import diagnose
from stepward.diagnose.sources import discover
from stepward.model.taxonomy import LABELS
from stepward.testing.simulator import Fault, simulate


def run_folders(split: str, runs: int, first: int, *, verbose: bool) -> dict[str, Any]:
    """Label, layer and suspects of the folders that some runs leave behind; every kind comes in turn, clean ones between."""
    rows = []
    with tempfile.TemporaryDirectory() as root:
        for seed in range(first, first + runs):
            folder = f"{root}/{seed}"
            simulation = simulate(seed, split=split)  # type: ignore[arg-type]
            faults = simulation.write(folder)
            found = diagnose(discover([folder]))
            ended = "user_cancelled" if simulation.plan.ending == "cancelled" else None
            rows.append(score(faults[:1], found, simulation.plan.layout.ranks, ended))
            if verbose:
                row = rows[-1]
                mark = "ok  " if row["top1"] else "MISS"
                print(f"{mark} {seed:5} {row['kind']:18} {row['expected']:20} -> {row['top']} {found.outcome} {row['three']}"
                      f"{'' if row['rank'] in (None, True) else ' rank'}{'' if row['node'] in (None, True) else ' node'}",
                      file=sys.stderr)  # fmt: skip
            for path in Path(folder).rglob("*"):
                if path.is_file():
                    path.unlink()
    faulty, clean = [row for row in rows if row["kind"] != "clean"], [row for row in rows if row["kind"] == "clean"]

    def part(key: str) -> dict[str, Any]:
        known = [row[key] for row in faulty if row[key] is not None]
        return proportion(sum(known), len(known))

    kinds = sorted({row["kind"] for row in faulty})
    return {
        "runs": runs, **{key: part(key) for key in ("top1", "top3", "layer", "rank", "node")},
        **calibration([(row["confidence"], row["top1"]) for row in rows if row["top"]]),
        "refusals": sum(row["top"] is None for row in faulty),
        "clean": len(clean), "false_on_clean": sum(not row["top1"] for row in clean),
        "kinds": {
            kind: f"{sum(row['top1'] for row in faulty if row['kind'] == kind)}/{sum(r['kind'] == kind for r in faulty)}"
            for kind in kinds
        },
    }  # fmt: skip


def score(faults: list[Fault], found: Document, ranks: int, ended: str | None) -> dict[str, Any]:
    """One folder: is the first cause the fault's, does it name who was struck."""
    labels = [one.label for one in found.causes]
    three = [label for label in labels + [one.label for one in found.candidates] if label][:3]
    top, sure = labels[0] if labels else None, found.causes[0].confidence if found.causes else 0.0
    if not faults:
        right = top in (None, ended)
        return {"kind": "clean", "confidence": sure, "expected": ended or "healthy", "top": top, "three": three,
                "rank": None, "node": None, "top1": right, "top3": right, "layer": None}  # fmt: skip
    fault, who = faults[0], found.causes[0].suspects if found.causes else None
    some = fault.ranks and len(fault.ranks) < ranks
    return {
        "kind": fault.kind, "confidence": sure, "expected": fault.label, "top": top, "three": three,
        "top1": top == fault.label, "top3": fault.label in three,
        "layer": top is not None and LABELS[top].layer.value == fault.layer,
        "rank": bool(who and who.ranks and who.ranks[0] in fault.ranks) if some else None,
        "node": bool(who and who.nodes and who.nodes[0] in fault.nodes) if fault.nodes else None,
    }  # fmt: skip
