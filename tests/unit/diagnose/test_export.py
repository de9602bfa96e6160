"""Markdown, HTML and three lines: what a log holds stays text."""

import re

from stepward.diagnose.document import Cause, Document, Evidence, Suspects
from stepward.diagnose.export import brief, html, markdown

NASTY = "<script>alert(1)</script> \x1b[31m`x` [a](javascript:b) \u202eevil &amp;"


def document(**other):
    evidence = Evidence("log", NASTY, 7, 7, 3, "2026-12-01T10:00:00Z", 3, NASTY, NASTY, "12")
    cause = Cause("gpu_oom", "framework", 0.9, "log", NASTY, [evidence], Suspects([NASTY], [3], [NASTY]), [], [NASTY])
    return Document(outcome="failed", **{"causes": [cause], **other})


def test_html_has_no_markup_but_its_own_and_needs_nothing_from_elsewhere():
    page = html(document(), NASTY)
    assert "<script" not in page and "\x1b" not in page and "\u202e" not in page
    assert "&lt;script&gt;" in page
    assert "src=" not in page and "href=" not in page and "default-src 'none'" in page


def test_markdown_has_no_markup_but_its_own():
    page = markdown(document(), NASTY)
    assert "\x1b" not in page and "\u202e" not in page
    # Lines of logs stand in code; elsewhere every mark is escaped.
    prose = [line for line in page.splitlines() if not line.startswith("    ")]
    assert not any(re.search(r"(?<!\\)[<`\[]", line) for line in prose)


def test_a_line_of_evidence_cannot_leave_its_block():
    found = document()
    found.causes[0].evidence[0].text = "first\n# a heading"
    assert "\n    first # a heading\n" in markdown(found, "t")


def test_three_lines_say_cause_proof_and_what_to_do():
    assert [name for name, _ in brief(document())] == ["cause", "evidence", "do"]
    assert brief(document())[0][1].startswith("gpu_oom 90% · framework · rank 3")


def test_a_healthy_run_needs_no_lines():
    assert brief(Document(outcome="healthy")) == []
