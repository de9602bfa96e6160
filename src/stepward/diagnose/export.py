"""A diagnosis as one file for people who have no server: Markdown, or HTML without anything from elsewhere.

Text of logs is data: it is cleaned of steering characters, and escaped for the place where it stands.
"""

import re
from collections.abc import Iterator
from html import escape

from stepward.diagnose.document import Cause, Document, Evidence
from stepward.diagnose.lines import clean

_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1c2430;background:#fff}
h1{font-size:1.4rem}h2{font-size:1.1rem;margin-top:2rem}
pre{background:#f3f5f8;padding:.6rem .8rem;overflow-x:auto;font-size:13px;white-space:pre-wrap;overflow-wrap:anywhere}
.where{color:#5b6675;font-size:13px}
@media(prefers-color-scheme:dark){body{color:#dde3ea;background:#14181d}pre{background:#1f252c}.where{color:#93a0b0}}
"""
_MARKS = re.compile(r"([\\`*_{}\[\]()#+!|<>~&-])")


def markdown(document: Document, title: str) -> str:
    """The diagnosis as Markdown."""
    lines = [f"# {_plain(title)}", "", f"Outcome: **{document.outcome}**", ""]
    for cause in document.causes:
        lines += _cause_lines(cause)
    if not document.causes:
        lines += ["No cause is proven.", ""]
        for cause in document.candidates:
            lines += _cause_lines(cause)
    for heading, rows in _rest(document):
        lines += [f"## {heading}", "", *(f"- {_plain(row)}" for row in rows), ""]
    return "\n".join(lines)


def html(document: Document, title: str) -> str:
    """The diagnosis as one HTML page."""
    causes = document.causes or document.candidates
    body = [f"<h1>{_safe(title)}</h1>", f"<p>Outcome: <strong>{document.outcome}</strong></p>"]
    if not document.causes:
        body.append("<p>No cause is proven.</p>")
    for cause in causes:
        body.append(f"<h2>{_safe(_head(cause))}</h2><p>{_safe(cause.summary)}</p>")
        body += [f'<p class="where">{_safe(_where(one))}</p><pre>{_safe(one.text)}</pre>' for one in cause.evidence]
        body += _listed("What to do", cause.remediation)
        body += _listed("Symptoms", [_symptom(one.text, one.ranks) for one in cause.secondary])
    for heading, rows in _rest(document):
        body += _listed(heading, rows)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>{_safe(title)}</title><style>{_STYLE}</style></head><body>\n" + "\n".join(body) + "\n</body></html>\n"
    )


def brief(document: Document) -> list[tuple[str, str]]:
    """The diagnosis in at most three lines, each with its name: the cause, what proves it, what to do."""
    causes = document.causes or document.candidates
    if not causes:
        return []
    first = causes[0]
    said = _head(first) if document.causes else f"no cause is proven; perhaps {_head(first)}"
    lines = [("cause", f"{said}: {first.summary}")]
    lines += [("evidence", f"{_where(one)}  {one.text}") for one in first.evidence[:1]]
    return lines + [("do", text) for text in first.remediation[:1]]


def _cause_lines(cause: Cause) -> list[str]:
    lines = [f"## {_plain(_head(cause))}", "", _plain(cause.summary), ""]
    for one in cause.evidence:
        lines += [_plain(_where(one)), "", f"    {_line(one.text)}", ""]
    if cause.remediation:
        lines += ["What to do:", "", *(f"- {_plain(text)}" for text in cause.remediation), ""]
    if cause.secondary:
        lines += ["Symptoms:", "", *(f"- {_plain(_symptom(one.text, one.ranks))}" for one in cause.secondary), ""]
    return lines


def _rest(document: Document) -> Iterator[tuple[str, list[str]]]:
    """Headings with their rows, without those that are empty."""
    parts = [
        ("Ruled out", [f"{one.label}: {one.why}" for one in document.ruled_out]),
        ("Unknown", [f"{one.analyzer}: {one.why}" for one in document.unknown]),
        ("Inputs", [f"{one.source} ({one.kind}, {one.lines} lines)" for one in document.inputs]),
    ]
    yield from ((heading, rows) for heading, rows in parts if rows)


def _head(cause: Cause) -> str:
    if cause.label is None:
        return "first error"
    where = [
        *(f"rank {rank}" for rank in cause.suspects.ranks[:8]),
        *(f"node {one}" for one in cause.suspects.nodes[:8]),
    ]
    return " · ".join([f"{cause.label} {cause.confidence:.0%}", cause.layer or "", *where, *cause.suspects.devices[:4]])


def _where(one: Evidence) -> str:
    who = [f"rank {one.rank}"] if one.rank is not None else []
    times = [f"{one.count} times"] if one.count > 1 else []
    return ", ".join(
        [f"{one.source}:{one.line}", *who, *([one.node] if one.node else []), *times, *filter(None, [one.time])]
    )


def _symptom(text: str, ranks: int) -> str:
    return f"{text} ({ranks} rank{'s' * (ranks != 1)})"


def _listed(heading: str, rows: list[str]) -> list[str]:
    if not rows:
        return []
    return [f"<h3>{_safe(heading)}</h3><ul>", *(f"<li>{_safe(row)}</li>" for row in rows), "</ul>"]


def _line(text: str) -> str:
    """A text on one line, which so stays in the place that it was given."""
    return clean(text).replace("\n", " ")


def _safe(text: str) -> str:
    return escape(_line(text))


def _plain(text: str) -> str:
    return _MARKS.sub(r"\\\1", _line(text))
