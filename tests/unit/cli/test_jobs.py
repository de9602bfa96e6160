"""``stepward jobs`` without a server: what was typed becomes a submission; what comes back is harmless to a terminal."""

import pytest

from stepward.cli import app, jobs
from stepward.cli.job_columns import describe, job_columns
from stepward.cli.job_submission import submission
from stepward.cli.table import write_table
from stepward.errors import UsageError
from stepward.model.jobs import Job, JobAttempt, JobSubmission
from stepward.model.states import State

NOW = 1_800_000_000.0
EVIL = "evil\x1b[2J\u202e模型🚀"


def job(**fields):
    return Job(**({"id": "42", "cluster": "lab", "state": State.QUEUED, "slurm_state": "PENDING"} | fields))


@pytest.fixture
def script(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "train.sh"
    path.write_text("#!/bin/sh\ntrue\n")
    return path


def test_a_file_with_an_interpreter_is_a_script(script, tmp_path):
    found = submission(["train.sh"], [], JobSubmission())
    assert (found.script, found.command, found.name) == ("#!/bin/sh\ntrue\n", None, "train.sh")
    assert found.workdir == str(tmp_path)
    script.write_text("#!/bin/sh\n#SBATCH -J theirs\n")
    assert submission(["./train.sh"], [], JobSubmission()).name is None
    assert submission(["./train.sh"], [], JobSubmission(name="ours")).name == "ours"


def test_anything_else_is_a_command(script, tmp_path):
    found = submission(["train.sh", "--epochs", "3"], [], JobSubmission(workdir="below"))
    assert (found.script, found.command) == (None, ["train.sh", "--epochs", "3"])
    assert found.workdir == str(tmp_path / "below")
    assert submission(["hostname"], [], JobSubmission()).command == ["hostname"]
    with pytest.raises(UsageError) as caught:
        submission(["missing.sh"], [], JobSubmission())
    assert caught.value.code == "bad_script"


def test_the_environment_is_what_is_named(monkeypatch):
    monkeypatch.setenv("KEPT", "here")
    assert submission(["x"], ["KEPT", "A=b=c", "E="], JobSubmission()).env == {"KEPT": "here", "A": "b=c", "E": ""}
    with pytest.raises(UsageError) as caught:
        submission(["x"], ["STEPWARD_NO_SUCH"], JobSubmission())
    assert caught.value.code == "bad_env"


def test_a_hostile_job_is_harmless_to_the_terminal(capsys):
    evil = {"name": EVIL, "user": EVIL, "comment": EVIL, "reason": EVIL, "reason_words": EVIL, "workdir": EVIL}
    attempts = [JobAttempt(number=n, state=State.LOST, slurm_state="NODE_FAIL", nodes=["n1", "n2"]) for n in (1, 2)]
    one = job(**evil, advice=EVIL, nodes=["n1", "n2", "n3"], tres=EVIL, stdout=EVIL, attempts=attempts)
    write_table(job_columns(NOW), [one])
    describe(one, NOW)
    out = capsys.readouterr().out
    assert "\x1b" not in out and "\u202e" not in out
    assert "n[1-3]" in out and "n[1-2]" in out and "lost (NODE_FAIL)" in out


def test_states_say_what_hinders(capsys):
    held, suspended = job(held=True), job(id="43", state=State.RUNNING, slurm_state="SUSPENDED")
    write_table(job_columns(NOW), [held, suspended, job(id="44", node_count=4)])
    out = capsys.readouterr().out
    assert "queued, held" in out and "running, suspended" in out and "(4)" in out


def test_a_list_asks_page_by_page_and_says_what_is_missing(recorded, monkeypatch, capsys):
    items = [{"id": str(n), "cluster": "host", "state": "running", "slurm_state": "RUNNING"} for n in range(3)]
    page = {"items": items, "total": 9, "history_missing": "this Slurm keeps no accounting"}
    client = recorded({("GET", "/api/v1/clusters/host/jobs"): (200, page)})
    monkeypatch.setattr(jobs, "connect", lambda: client)
    assert app.outcome(["jobs", "ls", "--limit", "3"]) == 0
    said = capsys.readouterr().err
    assert "keeps no accounting" in said and "the first 3 of 9" in said
