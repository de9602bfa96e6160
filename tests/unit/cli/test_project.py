import json

import pytest

from stepward.cli import app, project

LLM = {
    "name": "llm",
    "runs": 7,
    "live": 1,
    "created_at": "2026-12-01T00:00:00Z",
    "retention_s": 7776000.0,
    "expired": 1,
}


@pytest.fixture
def stepward(recorded, monkeypatch, capsys):
    def call(*argv):
        answers = {("GET", "/api/v1/projects"): (200, [LLM]), ("PATCH", "/api/v1/projects/llm"): (200, LLM)}
        client = recorded(answers)
        monkeypatch.setattr(project, "connect", lambda: client)
        code = app.outcome(argv)
        return code, *capsys.readouterr(), client

    return call


def test_projects_are_listed_with_what_they_keep(stepward):
    code, out, _, _ = stepward("project", "ls")
    assert code == 0 and "90 d" in out and "llm" in out
    assert json.loads(stepward("project", "ls", "--format", "json")[1]) == [LLM]


def test_a_dry_run_says_would(stepward):
    assert stepward("project", "set", "llm", "--retention", "90d", "--dry-run")[1] == (
        "llm would keep ended runs 90 d 00 h; that would delete 1 run now\n"
    )
    assert "keeps ended runs" in stepward("project", "set", "llm", "--retention", "90d")[1]


def test_a_retention_that_is_no_duration_is_refused(stepward):
    code, _, err, _ = stepward("project", "set", "llm", "--retention", "soon")
    assert code == 2 and "bad_duration" in err
