"""From ranked causes to the document: words, evidence, suspects, symptoms, remedies, what is unknown."""

from collections.abc import Iterable

from stepward.diagnose.cascade import PERSISTENT, ended_badly, ended_well
from stepward.diagnose.clocks import shown
from stepward.diagnose.clues import Clue, Kind, Role
from stepward.diagnose.document import (
    Cause,
    Document,
    Episode,
    EventNote,
    Evidence,
    Finding,
    Outcome,
    RuledOut,
    Secondary,
    Suspects,
    Unknown,
    Verdict,
)  # fmt: skip
from stepward.diagnose.ranking import Ranked
from stepward.diagnose.reading import Reading
from stepward.diagnose.tables import table
from stepward.model.taxonomy import LABELS, Layer

MOST_EVIDENCE = 5
MOST_CANDIDATES = 5
_OF_ONE_PART = frozenset(
    [
        "gpu_memory_ecc",
        "gpu_off_bus",
        "gpu_driver_firmware",
        "nvlink_fabric",
        "network_link",
        "node_failure",
        "thermal_power",
        "host_contention",
        "storage_io",
    ]
)
"""Labels whose cause sits in a part that can be named and exchanged."""
_OF_NOBODY = frozenset(
    [
        "external_service",
        "checkpoint_corrupt",
        "timeout_budget",
        "scheduler_limit",
        "preemption",
        "user_cancelled",
        "unschedulable",
        "storage_full",
        "recompilation",
        "input_bound",
    ]
)
"""Labels for which no rank is to blame."""


def document(reading: Reading, ranked: list[Ranked]) -> Document:
    """The whole answer."""
    strong = [one for one in ranked if one.may_be_cause]
    causes = [_cause(one, ranked, reading) for one in strong]
    outcome = _outcome(reading, strong)
    made = Document(
        outcome=outcome,
        ended=_ended(reading, outcome),
        inputs=reading.notes,
        causes=causes,
        candidates=[_cause(one, ranked, reading) for one in ranked if one not in strong][:MOST_CANDIDATES]
        if outcome != "healthy"
        else [],
        events=_events(reading, strong),
        ruled_out=_ruled_out(reading, ranked, {one.label for one in strong}),
        unknown=_unknown(reading, outcome),
        findings=_findings(reading, strong),
        episodes=_episodes(reading),
    )
    if outcome == "failed" and not causes and not made.candidates and reading.first_error is not None:
        made.candidates = [_first_error(reading)]
    return made


def _outcome(reading: Reading, strong: list[Ranked]) -> Outcome:
    bad = ended_badly(reading)
    if strong:
        hurts_only = all(one.label in PERSISTENT for one in strong)
        return "degraded" if hurts_only and not bad else "failed"
    if ended_well(reading):
        return "healthy"
    if bad:
        return "failed"
    return "healthy" if reading.progress.rows and not reading.metrics.flat else "unknown"


def _ended(reading: Reading, outcome: Outcome) -> bool | None:
    if ended_well(reading):
        return True
    if reading.scheduler.end in {"running", "pending"}:
        return False
    if reading.scheduler.end is not None or ended_badly(reading):
        return True
    return False if outcome in {"healthy", "degraded"} else None


def _cause(one: Ranked, ranked: list[Ranked], reading: Reading) -> Cause:
    anchor = one.anchor
    lines: dict[tuple[str, int, str], Clue] = {}
    for clue in one.clues:
        if clue.role is not Role.CONTEXT:
            lines.setdefault((clue.source, clue.line, clue.text), clue)
    shown_clues = list(lines.values())[:MOST_EVIDENCE]
    own = [clue.do for clue in one.clues if clue.do]
    who = suspects(one, ranked, reading)
    where = [*(f"rank {rank}" for rank in who.ranks[:4]), *who.nodes[:4]]
    return Cause(
        label=one.label,
        layer=LABELS[one.label].layer.value,
        confidence=one.confidence,
        decided_by=anchor.kind.value,
        summary=anchor.says + (f" ({', '.join(where)})" if where else ""),
        evidence=[_evidence(clue) for clue in shown_clues],
        suspects=who,
        secondary=_secondary(one, ranked, reading),
        remediation=list(dict.fromkeys([*own, *table("remedies").get(one.label, [])])),
    )


def _evidence(clue: Clue) -> Evidence:
    return Evidence(
        kind=clue.kind.value, source=clue.source, line=clue.line, last_line=clue.last_line, count=clue.count,
        time=shown(clue.time), rank=clue.rank, node=clue.node, text=clue.text[:500],
    )  # fmt: skip


def suspects(one: Ranked, ranked: list[Ranked], reading: Reading) -> Suspects:
    """Ranks, nodes and devices that the anchors name; nobody where all of them say the same."""
    anchors = [clue for clue in one.clues if clue.anchors]
    devices = sorted({clue.device for clue in anchors if clue.device}) if one.label in _OF_ONE_PART else []
    return Suspects(_nodes(one, anchors, reading), _ranks(one, anchors, ranked, reading), devices)


def _ranks(one: Ranked, anchors: list[Clue], ranked: list[Ranked], reading: Reading) -> list[int]:
    known = reading.launcher.ranks
    if one.label in _OF_NOBODY:
        return []
    own = {clue.rank for clue in anchors if clue.rank is not None}
    stacks = {clue.rank for clue in anchors if clue.kind is Kind.STACKS and clue.rank is not None}
    if one.label in {"collective_desync", "hang_in_user_code"} and not stacks and (silent := reading.launcher.silent()):
        return silent
    if stacks and one.anchor.kind is Kind.STACKS:
        return sorted(stacks)
    if one.label in _OF_ONE_PART:
        # The rank on a broken part sees another error of it than the part's own log.
        seen = {
            clue.rank
            for other in ranked
            if other.explained_by == one.label
            for clue in other.clues
            if (clue.anchors and clue.rank is not None)
            and other.label in {"cuda_kernel_fault", "input_bound", "workload_imbalance", "user_code_index"}
        }
        seen |= {clue.rank for clue in reading.clues if clue.rule == "waits_least" and clue.rank is not None}
        return sorted(own | seen) if len(own | seen) < max(2, len(known)) or own else []
    if len(own) > 1 and one.label != "hang_in_user_code":
        return []
    return [] if own == known == {0} else sorted(own)


def _nodes(one: Ranked, anchors: list[Clue], reading: Reading) -> list[str]:
    """Nodes that a part's own words name, else those whose lines say it, else the only node that there is."""
    if one.label in _OF_NOBODY - {"preemption"}:
        return []
    part = one.label in _OF_ONE_PART
    named = {clue.node for clue in anchors if clue.node and clue.names_node}
    own = named or {
        clue.node
        for clue in anchors
        if clue.node and (part or clue.rank is not None or clue.kind is not Kind.LOG or len(reading.nodes) > 1)
    }
    peers = {clue.peer for clue in anchors if clue.peer and clue.rule in {"ib_retry", "efa"}}
    if peers and not named:
        own = set(peers)
    if not own and part and len(reading.nodes) == 1:
        own = set(reading.nodes)
    pods = reading.scheduler.pod_nodes
    placed = {pods.get(name, name) for name in own if name}
    everyone = {pods.get(name, name) for name in reading.nodes | set(reading.scheduler.nodes)}
    return [] if len(placed) > 1 and (not part or placed >= everyone) else sorted(placed)


def _secondary(one: Ranked, ranked: list[Ranked], reading: Reading) -> list[Secondary]:
    explained = {other.label for other in ranked if other.explained_by == one.label}
    found: dict[str, set[int]] = {}
    for clue in reading.clues:
        symptom = clue.role is Role.CASCADE and clue.dismissed is None
        if symptom or (clue.label in explained and clue.dismissed is None and clue.role is not Role.CONTEXT):
            found.setdefault(clue.says, set()).update({clue.rank} if clue.rank is not None else set())
    return [Secondary(text, max(1, len(ranks))) for text, ranks in found.items()][:8]


def _events(reading: Reading, strong: list[Ranked]) -> list[EventNote]:
    kinds = {
        "gpu_oom": "oom", "host_oom": "oom", "numerics_nan": "non_finite", "preemption": "preemption", "input_bound": "input_bound",
        "hang_in_user_code": "hang", "checkpoint_stall": "checkpoint_stall", "recompilation": "recompilation_storm",
        "workload_imbalance": "straggler", "host_contention": "slowdown", "thermal_power": "straggler",
        "unschedulable": "scheduling_delay", "storage_full": "disk_filling",
    }  # fmt: skip
    found = [
        EventNote(kinds.get(one.label, "crash"), one.anchor.says, one.anchor.rank, one.anchor.node) for one in strong
    ]
    if any(clue.rule in {"watchdog", "hang_monitor"} for clue in reading.clues) or reading.metrics.flat:
        start = [watch.line.time - watch.timeout_s for watch in reading.launcher.watches if watch.line.time is not None]
        since = f", since {shown(min(start))}" if start and shown(min(start)) else ""
        found.append(EventNote("hang", f"a collective did not complete{since}"))
    if (slower := reading.progress.slowed()) is not None:
        found.append(EventNote("slowdown", f"steps became {slower.ratio:.2f} times as long"))
    if len(reading.attempts) > 1:
        found.append(EventNote("restart", f"{len(reading.attempts)} attempts"))
    return found


def _ruled_out(reading: Reading, ranked: list[Ranked], causes: set[str]) -> list[RuledOut]:
    found = {one.label: RuledOut(one.label, f"{one.explained_by} explains it") for one in ranked if one.explained_by}
    for clue in reading.clues:
        if clue.dismissed and clue.label and clue.label not in causes | found.keys():
            found[clue.label] = RuledOut(clue.label, f"{clue.says}, but {clue.dismissed}")
    for label, text in reading.metrics.denied().items():
        if label not in causes:
            found.setdefault(label, RuledOut(label, " ".join(text.split())[:120]))
    return list(found.values())


def _unknown(reading: Reading, outcome: Outcome) -> list[Unknown]:
    found = [Unknown("input", f"{note.source}: {note.why}") for note in reading.notes if note.why]
    if outcome == "healthy":
        return found
    lacks = {
        Kind.SCHEDULER: ("scheduler", "no scheduler state given"),
        Kind.KERNEL: ("kernel", "no kernel log given"),
        Kind.METRICS: ("metrics", "no metrics given"),
    }
    found += [Unknown(*lack) for kind, lack in lacks.items() if kind not in reading.kinds]
    hung = any(clue.rule == "watchdog" for clue in reading.clues)
    if hung and not reading.stacks:
        found.append(Unknown("stacks", "a collective timed out and no stacks were given"))
    return found


def _findings(reading: Reading, strong: list[Ranked]) -> list[Finding]:
    found = []
    needs = {Layer.INFRASTRUCTURE: Kind.KERNEL, Layer.ORCHESTRATOR: Kind.SCHEDULER}
    for layer in Layer:
        labels = [one.label for one in strong if LABELS[one.label].layer is layer]
        verdict: Verdict = "bad" if labels else "ok"
        why = ", ".join(labels) if labels else "nothing in the inputs speaks against it"
        lacking = needs.get(layer, Kind.LOG)
        if not labels and lacking not in reading.kinds:
            verdict, why = "unknown", f"no {lacking.value} input given"
        found.append(Finding(layer.value, layer.value, verdict, why))
    return found


def _episodes(reading: Reading) -> list[Episode]:
    found = []
    for number, line in reading.attempts:
        clues = [
            one for one in reading.clues if one.episode == number and one.label and one.role in (Role.ROOT, Role.EITHER)
        ]
        top = max(clues, key=lambda one: one.strength, default=None)
        found.append(
            Episode(number, line.source, line.number, top.label if top else None, top.says if top else line.text[:120])
        )
    return found


def _first_error(reading: Reading) -> Cause:
    line = reading.first_error
    assert line is not None
    evidence = Evidence(
        "log", line.source, line.number, line.number, 1, shown(line.time), line.rank, line.node, line.text.strip()[:500]
    )
    return Cause(None, None, 0.0, "log", "the first error", [evidence], Suspects())


def nothing(why: str, notes: Iterable[tuple[str, str]] = ()) -> Document:
    """The document of a diagnosis that could not be made."""
    return Document(unknown=[Unknown("diagnosis", why), *(Unknown("input", f"{name}: {text}") for name, text in notes)])
