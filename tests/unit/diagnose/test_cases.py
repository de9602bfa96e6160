"""The rules on labelled cases: our made-up ones, and those of a file that STEPWARD_CASES names."""

import os
from pathlib import Path

import pytest
import yaml

from stepward.diagnose.engine import diagnose
from stepward.diagnose.sources import discover

DATA = Path(__file__).parents[2] / "data" / "diagnosis"
UNREAD = DATA / "cases-fresh-unread.yaml"
OWN = sorted(path for path in DATA.glob("*.yaml") if path != UNREAD)
FOREIGN = os.environ.get("STEPWARD_CASES")
"""Read here, as tests inherit no variable of ours."""
FIELDS = {
    "log": "job.log",
    "scheduler": "scheduler.txt",
    "kernel": "kernel.log",
    "stacks": "stacks.txt",
    "metrics": "metrics.txt",
}
NO_CAUSE = {"healthy", "unknown"}
LEAST = 0.85
"""Share of the cases of a foreign file that must be right; our own must all be accepted."""


def answer(case, folder):
    folder.mkdir()
    for field, name in FIELDS.items():
        if case.get(field):
            text = case[field] if isinstance(case[field], str) else yaml.safe_dump(case[field], allow_unicode=True)
            (folder / name).write_text(text)
    return diagnose(discover([str(folder)]))


def right(case, document):
    if case["expected_label"] in NO_CAUSE:
        return not document.causes
    return bool(document.causes) and document.causes[0].label in (
        case.get("accepted_labels") or [case["expected_label"]]
    )


@pytest.mark.parametrize(
    "case", [case for path in OWN for case in yaml.safe_load(path.read_text())["cases"]], ids=lambda case: case["id"]
)
def test_our_own_cases(case, tmp_path):
    document = answer(case, tmp_path / "case")
    assert right(case, document), [(one.label, one.confidence) for one in document.causes]
    if case["expected_label"] == "healthy":
        assert document.outcome == "healthy"
    for kind in ("ranks", "nodes"):
        if f"expected_{kind}" in case:
            assert getattr(document.causes[0].suspects, kind) == case[f"expected_{kind}"]


def answers(path, folder):
    cases = yaml.safe_load(path.read_text())["cases"]
    return [(case, answer(case, folder / str(at))) for at, case in enumerate(cases)]


def test_cases_of_a_file(tmp_path):
    if not FOREIGN:
        pytest.skip("STEPWARD_CASES names no case file")
    given = answers(Path(FOREIGN), tmp_path)
    wrong = [case["id"] for case, document in given if not right(case, document)]
    alarms = [case["id"] for case, document in given if case["expected_label"] == "healthy" and document.causes]
    assert alarms == []
    assert len(wrong) <= (1 - LEAST) * len(given), wrong


def test_cases_that_no_rule_was_made_for(tmp_path):
    """Says how many are wrong and never which: a rule made for one of them would end their use."""
    given = answers(UNREAD, tmp_path)
    wrong = sum(not right(case, document) for case, document in given)
    alarms = sum(bool(document.causes) for case, document in given if case["expected_label"] == "healthy")
    assert (len(given), alarms) == (32, 0)
    assert wrong <= 4
