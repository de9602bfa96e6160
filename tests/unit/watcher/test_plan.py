"""``watcher.toml``: which project a job belongs to."""

import pytest

from stepward.agent.watcher.plan import WatcherFile, read_file
from stepward.errors import UsageError
from stepward.model.states import State
from stepward.orchestrators.slurm.records import SlurmJob
from stepward.settings import Settings


def project(file, user="u", account="a"):
    job = SlurmJob(id="1", number=1, state=State.RUNNING, slurm_state="RUNNING", user=user, account=account)
    return file.project_of(job, Settings())


def test_without_a_file_all_jobs_are_of_the_default_project(tmp_path):
    assert project(read_file(str(tmp_path / "none"))) == "default"


def test_a_user_outranks_an_account_and_both_outrank_the_rest(tmp_path, monkeypatch):
    path = tmp_path / "watcher.toml"
    path.write_text('project = "rest"\nmove = false\n[users]\nalice = "llm"\n[accounts]\nvision = "v"\n')
    file = read_file(str(path))
    assert [project(file, "alice", "vision"), project(file, "bob", "vision"), project(file)] == ["llm", "v", "rest"]
    monkeypatch.setenv("STEPWARD_PROJECT", "named")
    assert file.project_of(
        SlurmJob(id="1", number=1, state=State.RUNNING, slurm_state="RUNNING"), Settings(project="named")
    ) == ("named")
    assert not file.move
    assert WatcherFile().move


@pytest.mark.parametrize("text", ["project = 1", "projcet = 'x'", "= x", "[users]\nalice = ''", b"\xff"])
def test_a_wrong_file_is_refused_by_name(tmp_path, text):
    path = tmp_path / "watcher.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(UsageError) as refused:
        read_file(str(path))
    assert refused.value.code == "bad_watcher_file"
    assert str(path) in refused.value.message
