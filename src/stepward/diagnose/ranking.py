"""From clues to ranked causes with a confidence that means what it says.

The score of a label is log-odds: its strongest anchor, what independent inputs add, what speaks against it, and whether
another cause explains it. Confidence weighs every label's score against each other and against "none of these".
"""

import math
from collections import defaultdict

import msgspec
from msgspec import structs

from stepward.diagnose.cascade import EXPLAINS
from stepward.diagnose.clues import Clue, Kind, Role
from stepward.diagnose.reading import Reading
from stepward.diagnose.tables import table
from stepward.model.taxonomy import LABELS, Layer

NONE_SCORE = 1.3
"""Log-odds of no known cause: a score below it is insufficient evidence. Fitted to how often answers on our own lines and
cases were right (``bench/diagnosis.py cases``: calibration error and Brier score)."""
CAUSE = 0.3
"""Confidence from which a candidate is called a cause."""
EXPLAINED = 2.5
"""Taken from a label that a stronger cause explains."""
EXPLAINER = 2.3
"""A label explains others from this score on."""
WEAK = 1.0
"""Taken from a label that nothing names as a cause."""
AGREES = 0.8
CONFIRMS = 0.4
FIRST = 0.5
ALONE = 0.4
MISTAKEN: dict[str, dict[str, str]] = table("mistaken")["mistaken"]
"""Label -> what it is mistaken for -> what would tell the two apart."""
LEFT_TO_EACH = 0.3
DECIDED = 0.95
"""From this confidence on, what the scheduler says of a job's end is not mistaken for another word of its own."""
_OUTRANKS = {Kind.SCHEDULER: 1.0, Kind.KERNEL: 0.7, Kind.STACKS: 0.7, Kind.EXIT: 0.3, Kind.LOG: 0.0, Kind.METRICS: 0.0}


class Ranked(msgspec.Struct):
    """A label with its score, its clues (strongest first) and the labels that it explains."""

    label: str
    score: float
    clues: list[Clue]
    explained_by: str | None = None
    confidence: float = 0.0

    @property
    def may_be_cause(self) -> bool:
        """Whether something names it, and no stronger cause explains it."""
        return self.clues[0].anchors and self.explained_by is None and self.confidence >= CAUSE

    @property
    def anchor(self) -> Clue:
        """The clue that decides."""
        return self.clues[0]


def rank(reading: Reading) -> list[Ranked]:
    """Every label that something speaks for, the most likely first; one without an anchor is never a cause."""
    groups: dict[str, list[Clue]] = defaultdict(list)
    for one in reading.clues:
        if one.label is not None and one.dismissed is None and one.role is not Role.CONTEXT:
            groups[one.label].append(one)
    first = _first(groups)
    found = []
    for label, clues in groups.items():
        clues.sort(key=lambda one: (-one.anchors, -one.strength - _OUTRANKS[one.kind], one.line))
        score = _score(clues, first, reading) if clues[0].anchors else clues[0].strength - WEAK
        found.append(Ranked(label, score, clues))
    _explain(found)
    total = math.exp(NONE_SCORE) + sum(math.exp(ranked.score) for ranked in found)
    for ranked in found:
        ranked.confidence = round(math.exp(ranked.score) / total, 3)
    found.sort(key=lambda ranked: -ranked.score)
    return [*found, *_mistaken(found)]


def _mistaken(found: list[Ranked]) -> list[Ranked]:
    """Labels that the cause is most often mistaken for, with what is left of the confidence; candidates, never causes."""
    cause = next((ranked for ranked in found if ranked.may_be_cause), None)
    if cause is None:
        return []
    left = max(0.0, 1 - sum(ranked.confidence for ranked in found))
    known = {ranked.label for ranked in found}
    if cause.anchor.kind is Kind.SCHEDULER and cause.confidence >= DECIDED:
        known |= {label for label, (layer, _) in LABELS.items() if layer is Layer.ORCHESTRATOR}
    return [
        Ranked(label, -math.inf, [structs.replace(cause.anchor, label=label, role=Role.CONFIRM, says=tells)],
               confidence=round(min(left * LEFT_TO_EACH, CAUSE / 2), 3))
        for label, tells in MISTAKEN[cause.label].items()
        if label not in known
    ]  # fmt: skip


def _first(groups: dict[str, list[Clue]]) -> dict[str, int]:
    """Line of the first root of each log."""
    first: dict[str, int] = {}
    for clues in groups.values():
        for one in clues:
            if one.kind is Kind.LOG and one.role is Role.ROOT:
                first[one.source] = min(one.line, first.get(one.source, one.line))
    return first


def _score(clues: list[Clue], first: dict[str, int], reading: Reading) -> float:
    anchors = [one for one in clues if one.anchors]
    best = max(one.strength + _OUTRANKS[one.kind] for one in anchors)
    kinds = {one.kind for one in clues if one.role is not Role.CONTEXT}
    confirmed = min(2, len({one.rule for one in clues if one.role is Role.CONFIRM}))
    several = min(2, len({one.rule for one in anchors}) - 1)
    score = best + AGREES * (len(kinds) - 1) + CONFIRMS * confirmed + 0.3 * several
    if any(one.kind is Kind.LOG and one.role is Role.ROOT and first.get(one.source) == one.line for one in anchors):
        score += FIRST
    ranks = {one.rank for one in anchors if one.rank is not None}
    if len(ranks) == 1 and len(reading.launcher.ranks) > 1:
        score += ALONE
    return score


def _explain(found: list[Ranked]) -> None:
    scores = {one.label: one.score for one in found}
    for one in found:
        explainers = [
            label for label, score in scores.items()
            if one.label in EXPLAINS.get(label, ()) and score >= EXPLAINER
            and (score >= one.score - 1.0 or one.label not in EXPLAINS or label not in EXPLAINS[one.label])
            and not (label in EXPLAINS.get(one.label, ()) and score < one.score)
        ]  # fmt: skip
        if explainers:
            one.explained_by = max(explainers, key=lambda label: scores[label])
            one.score -= EXPLAINED
