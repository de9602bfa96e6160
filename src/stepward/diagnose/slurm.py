"""Slurm's own words: ``sacct -P`` tables, ``scontrol show job|node``, ``squeue``.

The job's row outranks its steps' rows: a step that was cancelled at the end of a completed job is no failure.
"""

import re
from collections.abc import Iterable, Iterator

from stepward.diagnose.clues import Clue, Kind, Role, clue
from stepward.diagnose.lines import Line
from stepward.diagnose.verdicts import End, SchedulerVerdict
from stepward.model.slurm_text import duration_s, expand_nodes

_ENDS: dict[str, End] = {
    "COMPLETED": "completed", "FAILED": "failed", "TIMEOUT": "taken", "DEADLINE": "taken", "NODE_FAIL": "taken",
    "BOOT_FAIL": "taken", "PREEMPTED": "taken", "OUT_OF_MEMORY": "failed", "CANCELLED": "taken", "REVOKED": "taken",
    "PENDING": "pending", "REQUEUE_HOLD": "pending", "SPECIAL_EXIT": "pending", "CONFIGURING": "running",
    "RUNNING": "running", "COMPLETING": "running", "SUSPENDED": "running", "REQUEUED": "taken",
    "PD": "pending", "R": "running", "CG": "running", "CF": "running",
}  # fmt: skip
_CAUSES = {
    "TIMEOUT": ("scheduler_limit", Role.ROOT, 1.5, "the job ran into its time limit"),
    "DEADLINE": ("scheduler_limit", Role.ROOT, 1.5, "the job ran into its deadline"),
    "PREEMPTED": ("preemption", Role.ROOT, 1.5, "the scheduler preempted the job"),
    "OUT_OF_MEMORY": ("host_oom", Role.ROOT, 1.0, "the job exceeded its memory"),
    "NODE_FAIL": ("node_failure", Role.ROOT, 1.5, "a node of the job failed"),
    "BOOT_FAIL": ("node_failure", Role.ROOT, 1.5, "a node of the job did not boot"),
}
_STUCK = re.compile(
    r"QOS|Assoc|ReqNode|Partition|BadConstraints|Invalid|NeverSatisfied|Reservation|Nodes?_?required|MaxGRES|"
    r"JobHoldMaxRequeue|BadAccount|Account(?:ing)?Policy",
    re.I,
)
"""Reasons that pass only when somebody changes the job, its limits or the nodes."""
_WAITS = re.compile(r"Resources|Priority|Licenses|JobArrayTaskLimit", re.I)
"""Reasons that pass by themselves: others are served first."""
_QUEUED = re.compile(r"\s(PD)\s+[\d:-]+\s+\d+\s+\((\w+)\)")
"""A pending job's row as squeue prints it."""
_FIELD = re.compile(r"(\w[\w:/]*)=(\S+)")
_SIDE_STEPS = re.compile(r"monitor|dcgm|exporter|telemetry|profil|extern|interactive|watch", re.I)
_NEAR_LIMIT = 0.97


def read_slurm(lines: Iterable[Line]) -> SchedulerVerdict:
    """What Slurm's text says of the job."""
    verdict = SchedulerVerdict()
    header: list[str] = []
    rows: list[tuple[dict[str, str], Line]] = []
    node = None
    for line in lines:
        text = line.text
        if "|" in text and re.search(r"\bState\b", text):
            header = [name.strip() for name in text.split("|")]
        elif header and text.count("|") >= len(header) - 2 and "|" in text:
            rows.append((dict(zip(header, (value.strip() for value in text.split("|")), strict=False)), line))
        elif queued := _QUEUED.search(text):
            _state(verdict, queued[1], line, queued[2])
        elif text.lstrip().startswith("NodeName="):
            node = text.split("=", 1)[1].split()[0]
        if node and not text.lstrip().startswith("JobId="):
            line.node = line.node or node
        if re.search(r"^\s*(?:JobId|JobState|RunTime|NodeList|ExitCode)=", text):
            _job(verdict, dict(_FIELD.findall(text)), line)
    _table(verdict, rows)
    return verdict


def verdict_of(state: str, reason: str, line: Line) -> SchedulerVerdict:
    """What one state in Slurm's words says, where somebody has asked the scheduler already; ``line`` tells people so."""
    verdict = SchedulerVerdict()
    _state(verdict, state, line, reason)
    return verdict


def _table(verdict: SchedulerVerdict, rows: list[tuple[dict[str, str], Line]]) -> None:
    jobs = [(row, line) for row, line in rows if "." not in row.get("JobID", row.get("JobIDRaw", ""))] or rows
    # Several rows of one job are its attempts (sacct -D): the last one is how it stands.
    for row, line in jobs[-1:]:
        _state(verdict, row.get("State", ""), line)
        verdict.nodes += expand(row.get("NodeList", ""))
        verdict.elapsed_s = duration_s(row.get("Elapsed", "")) or 0.0
        verdict.clues += list(_limits(row.get("Elapsed", ""), row.get("Timelimit", ""), line, row.get("State", "")))
    if verdict.end == "completed":
        return
    for row, line in rows:
        if row.get("State", "").startswith("OUT_OF_ME") and not _SIDE_STEPS.search(row.get("JobName", "")):
            _state(verdict, "OUT_OF_MEMORY", line)
        used, asked = size(row.get("MaxRSS", "")), size(row.get("ReqMem", "") or jobs[-1][0].get("ReqMem", ""))
        if used and asked and used >= _NEAR_LIMIT * asked:
            verdict.clues.append(
                _clue("slurm_rss", "host_oom", line, "memory use reached the request", role=Role.CONFIRM)
            )


def _job(verdict: SchedulerVerdict, fields: dict[str, str], line: Line) -> None:
    if "JobState" in fields:
        reason = fields.get("Reason", "")
        _state(verdict, fields["JobState"], line, reason)
        if reason in {"TimeLimit", "TimeOut"}:
            _state(verdict, "TIMEOUT", line)
        if reason in {"OutOfMemory"}:
            _state(verdict, "OUT_OF_MEMORY", line)
    if "NodeList" in fields and fields["NodeList"] != "(null)":
        verdict.nodes += expand(fields["NodeList"])
    if fields.get("RunTime") and fields.get("TimeLimit"):
        verdict.clues += list(_limits(fields["RunTime"], fields["TimeLimit"], line, fields.get("JobState", "")))


def _state(verdict: SchedulerVerdict, text: str, line: Line, reason: str = "") -> None:
    word = (text.split() or [""])[0].rstrip("+").upper()
    if word not in _ENDS:
        return
    verdict.settle(_ENDS[word])
    verdict.knows_exits = True
    if word in _CAUSES:
        label, role, more, says = _CAUSES[word]
        verdict.says_oom = verdict.says_oom or word == "OUT_OF_MEMORY"
        verdict.clues.append(_clue(f"slurm_{word.lower()}", label, line, says, role=role, more=more))
    elif word == "CANCELLED":
        person = re.search(r"CANCELLED by (\S+)", text)
        more = 0.9 if person and person[1] != "0" else 0.3
        says = f"the job was cancelled by {person[1]}" if person else "the job was cancelled"
        verdict.clues.append(_clue("slurm_cancelled_state", "user_cancelled", line, says, role=Role.EITHER, more=more))
    elif word in {"PENDING", "PD"} and _STUCK.search(reason):
        says = f"the job cannot start: {reason}"
        verdict.clues.append(_clue("slurm_pending", "unschedulable", line, says, role=Role.ROOT, more=0.5))
    elif word in {"PENDING", "PD"} and _WAITS.search(reason):
        says = f"the job waits for its turn: {reason}"
        verdict.clues.append(_clue("slurm_queued", "unschedulable", line, says, role=Role.CONFIRM))


def _limits(elapsed: str, limit: str, line: Line, state: str) -> Iterator[Clue]:
    ran, allowed = duration_s(elapsed), duration_s(limit)
    if ran and allowed and ran >= 0.995 * allowed and not state.startswith(("COMPLETED", "RUNNING", "TIMEOUT")):
        yield _clue(
            "slurm_at_limit", "scheduler_limit", line, "the job ended at its time limit", role=Role.CONFIRM, more=1.0
        )


def _clue(rule: str, label: str, line: Line, says: str, *, role: Role = Role.ROOT, more: float = 0.0) -> Clue:
    return clue(rule, label, Kind.SCHEDULER, line, says, role=role, more=more)


def size(text: str) -> float | None:
    """Slurm's sizes (``256G``, ``262114212K``) in bytes."""
    found = re.match(r"([\d.]+)([KMGTP])", text.strip())
    return float(found[1]) * 1024.0 ** (" KMGTP".index(found[2])) if found and found[1].count(".") < 2 else None


def expand(text: str) -> list[str]:
    """Names of a node list (``gpu-[01-03,7],x1``); none where it is no list."""
    try:
        return expand_nodes(text)
    except ValueError:
        return []
