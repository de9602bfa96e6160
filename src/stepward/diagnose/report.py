"""From ranked causes to the document: words, evidence, suspects, symptoms, remedies, what is unknown."""

from stepward.diagnose.cascade import LASTED, PERSISTENT, ended_badly, ended_well
from stepward.diagnose.clocks import shown
from stepward.diagnose.clues import Clue, Kind, Role
from stepward.diagnose.document import (
    Cause,
    Document,
    Episode,
    EventNote,
    Evidence,
    Finding,
    InputNote,
    Outcome,
    RuledOut,
    Secondary,
    Suspects,
    Unknown,
    Verdict,
)  # fmt: skip
from stepward.diagnose.peers import PREFIX
from stepward.diagnose.ranking import Ranked
from stepward.diagnose.reading import Reading, speaker
from stepward.diagnose.suspects import suspects
from stepward.diagnose.tables import table
from stepward.model.taxonomy import LABELS, Layer

MOST_EVIDENCE = 5
MOST_CANDIDATES = 5


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
    if outcome == "failed" and not causes and reading.first_error is not None:
        made.candidates.append(_first_error(reading))
    return made


def _outcome(reading: Reading, strong: list[Ranked]) -> Outcome:
    bad = ended_badly(reading)
    if not strong and reading.scheduler.end == "pending":
        return "unknown"
    if strong:
        waits = reading.scheduler.end == "pending" and not reading.progress.rows
        hurts_only = all(
            one.label in PERSISTENT or one.anchor.rule in LASTED or one.anchor.rule.startswith(PREFIX) for one in strong
        )
        return "degraded" if waits or (hurts_only and not bad) else "failed"
    if ended_well(reading):
        return "degraded" if reading.hurt else "healthy"
    if bad:
        return "failed"
    if reading.hurt:
        return "degraded"
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
        time=shown(clue.time), rank=clue.rank if clue.writer is None else clue.writer, node=clue.node, text=clue.text[:500],
    )  # fmt: skip


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
        "gpu_oom": "oom", "host_oom": "oom", "numerics_nan": "non_finite", "preemption": "preemption",
        "input_bound": "input_bound",
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
    label = speaker(line.body)
    layer = LABELS[label].layer.value if label else None
    return Cause(label, layer, 0.0, "log", "the first error", [evidence], Suspects())


def nothing(why: str, notes: list[InputNote]) -> Document:
    """The document of a diagnosis that could not be made."""
    return Document(inputs=notes, unknown=[Unknown("diagnosis", why)])
