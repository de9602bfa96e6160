"""A diagnosis as text that is read in ten seconds: what, where, the line that proves it, what to do.

Everything that came from an input passes ``safe``. The document itself is the matter of ``stepward.diagnose``.
"""

from typing import TYPE_CHECKING

from stepward.cli.table import Column, terminal
from stepward.cli.text import cut_middle, safe
from stepward.diagnose.document import Cause, Document, Evidence

if TYPE_CHECKING:
    from rich.console import Console

_STYLES = {"failed": "bold red", "degraded": "bold yellow", "healthy": "bold green", "unknown": "bold"}
_INDENT = 12
_LINES = {"evidence": 4, "do": 3, "symptoms": 3, "ruled out": 4, "unknown": 4}
"""How many of each are shown; JSON has all."""

CSV: list[Column[Cause]] = [
    Column("label", lambda cause: cause.label),
    Column("layer", lambda cause: cause.layer),
    Column("confidence", lambda cause: cause.confidence),
    Column("decided_by", lambda cause: cause.decided_by),
    Column("nodes", lambda cause: cause.suspects.nodes),
    Column("ranks", lambda cause: cause.suspects.ranks),
    Column("summary", lambda cause: cause.summary),
]


def print_diagnosis(document: Document) -> None:
    """Print the answer first, then what proves it, then what to do, then what is not known."""
    out = terminal()
    if not document.causes:
        _line(out, document.outcome.upper(), _no_cause(document), _STYLES[document.outcome])
    for cause in document.causes:
        _print_cause(out, cause, document)
    if not document.causes:
        for candidate in document.candidates[:2]:
            said = f"{candidate.label}: {candidate.summary}" if candidate.label else candidate.summary
            _part(out, "perhaps", [said, *(_proof(one) for one in candidate.evidence[:2])])
    _part(out, "ruled out", [f"{one.label}: {one.why}" for one in document.ruled_out])
    _part(out, "unknown", [f"{one.analyzer}: {one.why}" for one in document.unknown])
    lines = sum(note.lines for note in document.inputs)
    kinds = ", ".join(f"{note.source} ({note.kind})" for note in document.inputs[:4])
    more = f" and {len(document.inputs) - 4} more" if len(document.inputs) > 4 else ""
    _part(out, "read", [f"{lines} lines: {kinds}{more}" if document.inputs else "nothing"])


def _print_cause(out: "Console", cause: Cause, document: Document) -> None:
    where = [f"node {', '.join(cause.suspects.nodes[:6])}"] if cause.suspects.nodes else []
    where += [f"rank {', '.join(map(str, cause.suspects.ranks[:8]))}"] if cause.suspects.ranks else []
    where += [f"device {', '.join(cause.suspects.devices[:4])}"] if cause.suspects.devices else []
    head = " · ".join([f"{cause.label} {cause.confidence:.0%}", cause.layer or "", *where])
    _line(out, document.outcome.upper(), head, _STYLES[document.outcome])
    _part(out, "", [f"{cause.summary} (decided by {cause.decided_by})"])
    _part(out, "evidence", [_proof(one) for one in cause.evidence])
    _part(out, "do", cause.remediation)
    _part(out, "symptoms", [f"{one.text} ({one.ranks} rank{'s' * (one.ranks != 1)})" for one in cause.secondary])


def _no_cause(document: Document) -> str:
    return {
        "healthy": "a normal end" if document.ended else "it makes progress, and nothing hurts it",
        "degraded": "it is slower than it was, for no known reason",
        "failed": "it failed, and no cause is proven",
        "unknown": "not enough to say",
    }[document.outcome]


def _proof(one: Evidence) -> str:
    rank = f" rank {one.rank}" if one.rank is not None else ""
    count = f" ×{one.count}" if one.count > 1 else ""
    return f"{one.source}:{one.line}{rank}{count}  {one.text}"


def _part(out: "Console", name: str, lines: list[str]) -> None:
    most = _LINES.get(name, 4)
    for at, line in enumerate(lines[:most]):
        _line(out, name if at == 0 else "", line)
    if len(lines) > most:
        _line(out, "", f"and {len(lines) - most} more (--format json)")


def _line(out: "Console", name: str, text: str, style: str = "") -> None:
    from rich.text import Text

    shown = safe(text)
    if out.is_terminal:
        shown = cut_middle(shown, max(20, out.width - _INDENT))
    out.print(
        Text(name.ljust(_INDENT), style=style or "dim").append(shown, style="bold" if style else ""), soft_wrap=True
    )
