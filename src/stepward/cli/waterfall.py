"""The ledger of a run as a waterfall: the answer in the first line, then each loss where the one before it ended.

The largest loss comes first, because that is the one to work on. Bars share one scale, the wall time.
"""

from collections.abc import Iterator
from typing import NamedTuple

from stepward.cli.figures import lasting
from stepward.cli.table import Column, Format, show, terminal, write_table
from stepward.cli.text import safe
from stepward.goodput.answers import FleetGoodput, RunGoodput, RunShare
from stepward.goodput.report import Report

BAR_CELLS = 32
SHOWN_REJECTIONS = 5

MEANINGS = {
    "productive": "moved the run forward",
    "queue_wait": "waited in the queue",
    "provision": "machines, images and data were made ready",
    "init": "the program started",
    "restore": "a checkpoint was loaded",
    "compile": "the program was compiled",
    "data_wait": "steps waited for data",
    "checkpoint_save": "a checkpoint held the loop up",
    "evaluation": "evaluation",
    "recompute": "work that was lost and done again, or is missing",
    "hang": "nothing moved",
    "slow_steps": "steps beyond the ideal",
    "wait_for_nodes": "waited for nodes after a loss",
    "down": "nobody ran it",
    "idle": "idle",
    "other": "not covered by steps or phases",
}


class Row(NamedTuple):
    """A bucket: its seconds, device seconds, share of the wall, and where its bar begins as a share of the wall."""

    bucket: str
    seconds: float
    device_seconds: float
    share: float
    begins: float


def rows(report: Report, *, empty: bool = False) -> list[Row]:
    """The buckets: what was productive, then the losses by size; ``empty`` keeps those without a second."""
    wall = report.wall_s or 1.0
    losses = sorted((b for b in report.buckets_s if b != "productive"), key=lambda b: -report.buckets_s[b])
    told, begins = [], 0.0
    for bucket in ("productive", *losses):
        seconds = report.buckets_s[bucket]
        if seconds or empty or bucket == "productive":
            told.append(Row(bucket, seconds, report.buckets_device_s[bucket], seconds / wall, begins))
            begins += seconds / wall
    return told


def print_waterfall(report: Report) -> None:
    """Print the ledger for people."""
    from rich.text import Text

    out = terminal()
    out.print(Text.assemble((headline(report), "bold")), soft_wrap=True)
    out.print(factors(report), soft_wrap=True)
    out.print()
    write_table(_COLUMNS, rows(report))
    notes = list(_notes(report))
    if notes:
        out.print()
    for note in notes:
        out.print(Text(safe(note)), soft_wrap=True)


def print_reliability(found: RunGoodput) -> None:
    """Print windows, interruptions and advice below a waterfall."""
    notes = [f"last {w.window}: goodput {percent(w.overall)} of {lasting(w.wall_s)}" for w in found.windows]
    failures = found.reliability
    if failures and failures.interruptions:
        causes = ", ".join(f"{count} {cause}" for cause, count in sorted(failures.interruptions.items()))
        notes.append(f"interruptions: {causes}; {_spans(failures.mttf_s, failures.mttr_s, failures.ettr)}")
    if found.advice is not None and found.advice.gain > 0:
        a = found.advice
        notes.append(
            f"advice: a checkpoint every {lasting(a.best_interval_s)} instead of {lasting(a.interval_s)} "
            f"would give back about {percent(a.gain)} of the time (save {_duration(a.save_s)})"
        )
    if notes:
        print()
        print("\n".join(safe(note) for note in notes))


def print_fleet(found: FleetGoodput, output: Format) -> None:
    """Print runs side by side."""
    if output is Format.TABLE and found.runs:
        hours = f"{found.device_s / 3600:,.1f} device hours"
        terminal().print(f"goodput {percent(found.overall_device)} of {hours} in {len(found.runs)} runs\n")
    show(output, _FLEET, found.runs, document=found, empty="no run has anything to account for")
    if output is Format.TABLE and found.left_out:
        print(f"\n{found.left_out} runs were left out: without an attempt, or beyond the first {len(found.runs)}")
    if output is Format.TABLE and found.pending:
        print(f"\n{found.pending} runs are still being computed: ask again in a moment")


def largest_loss(share: RunShare) -> str:
    """The bucket that took most device time without moving the run forward, with its share."""
    losses = {bucket: s for bucket, s in share.buckets_device_s.items() if bucket != "productive" and s > 0}
    if not losses or not share.device_s:
        return "-"
    bucket = max(losses, key=losses.__getitem__)
    return f"{bucket} {percent(losses[bucket] / share.device_s)}"


def _spans(mttf: float | None, mttr: float | None, ettr: float | None) -> str:
    spans = [("mean time to failure", mttf), ("to repair", mttr)]
    told = [f"{name} {lasting(value)}" for name, value in spans if value is not None]
    return ", ".join([*told, f"ready to train {percent(ettr)}"])


def headline(report: Report) -> str:
    """The answer: the share that was productive, of how much, in how many attempts."""
    attempts = f"{report.attempts} attempt{'s' * (report.attempts != 1)}"
    devices = f", {report.device_s / 3600:,.1f} device hours" if report.device_s else ""
    lost = f", {report.lost_steps:,} steps lost" if report.lost_steps else ""
    state = ", still open" if report.open else ""
    return f"goodput {percent(report.overall)} of {lasting(report.wall_s)} ({attempts}{devices}{lost}{state})"


def factors(report: Report) -> str:
    """The factors that multiply to the answer."""
    ideal = "no ideal step" if report.ideal_step_s is None else f"ideal step {_duration(report.ideal_step_s)}"
    parts = [("scheduling", report.scheduling), ("runtime", report.runtime), ("program", report.program)]
    return "= " + " x ".join(f"{name} {percent(value)}" for name, value in parts) + f"; {ideal}"


def percent(share: float | None) -> str:
    """A share in per cent, ``-`` where it has no meaning."""
    return "-" if share is None else f"{100 * share:.2f} %"


def bar(row: Row) -> str:
    """The bar of a row: at least one cell for anything that took time, in its place."""
    if not row.seconds:
        return ""
    start = min(int(row.begins * BAR_CELLS), BAR_CELLS - 1)
    cells = max(round((row.begins + row.share) * BAR_CELLS) - start, 1)
    return " " * start + "█" * min(cells, BAR_CELLS - start)


def _duration(seconds: float) -> str:
    return f"{seconds:.3g} s" if 1 <= seconds < 100 else lasting(seconds)


def _notes(report: Report) -> Iterator[str]:
    if report.overall_device is not None and report.overall_device != report.overall:
        yield f"In device hours the goodput is {percent(report.overall_device)}: attempts had different numbers of devices."
    if report.provisional_s:
        yield f"{lasting(report.provisional_s)} of it would be lost if the run died now."
    if report.overlap_device_s:
        yield f"{report.overlap_device_s / 3600:,.2f} device hours went to attempts beside the newest one."
    for assumption in report.assumptions:
        yield f"Assumed: {assumption}."
    if report.rejected:
        yield f"{report.rejected} lines were rejected:"
        for rejection in report.rejected_lines[:SHOWN_REJECTIONS]:
            yield f"  line {rejection.line}: {rejection.reason}"


CSV: list[Column[Row]] = [
    Column("bucket", lambda row: row.bucket),
    Column("seconds", lambda row: row.seconds),
    Column("device_seconds", lambda row: row.device_seconds),
    Column("share", lambda row: row.share),
]
_COLUMNS: list[Column[Row]] = [
    Column("bucket", lambda row: row.bucket, style=lambda row: "green" if row.bucket == "productive" else ""),
    Column("bar", bar, bar, style=lambda row: "green" if row.bucket == "productive" else "red", title=""),
    Column("time", lambda row: row.seconds, lambda row: _duration(row.seconds), right=True),
    Column("share", lambda row: row.share, lambda row: percent(row.share), right=True),
    Column("meaning", lambda row: MEANINGS[row.bucket], flexible=True, spare=True),
]
_FLEET: list[Column[RunShare]] = [
    Column("run", lambda row: row.run, lambda row: row.run[:18]),
    Column("name", lambda row: row.name, flexible=True),
    Column("project", lambda row: row.project, flexible=True, spare=True),
    Column("user", lambda row: row.user, spare=True),
    Column("state", lambda row: row.state),
    Column("device_hours", lambda row: row.device_s / 3600, lambda row: f"{row.device_s / 3600:,.1f}", right=True),
    Column("goodput", lambda row: row.overall, lambda row: percent(row.overall), right=True),
    Column("largest_loss", largest_loss),
    Column("interruptions", lambda row: row.interruptions, right=True, spare=True),
]
