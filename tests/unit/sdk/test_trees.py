"""The automatic trees: what is read, and that secrets and other people's variables stay behind."""

import subprocess
import sys

import pytest

from stepward.sdk import trees
from stepward.sdk.git import MAX_DIFF_BYTES, read_git


def test_only_listed_variables_are_kept_and_masked():
    environ = {"XLA_FLAGS": "--a=b", "NCCL_DEBUG": "INFO", "HOME": "/root", "OPENAI_API_KEY": "x", "TORCH_TOKEN": "t"}
    assert trees.flags(environ) == {"XLA_FLAGS": "--a=b", "NCCL_DEBUG": "INFO", "TORCH_TOKEN": "***"}


def test_packages_come_from_names_and_the_first_on_the_path_wins(tmp_path):
    for folder, names in {
        "a": ["x_y-1.2.dist-info", "z-3.egg-info"],
        "b": ["x_y-9.dist-info", "q-1-py3.11.egg-info"],
    }.items():
        for name in names:
            (tmp_path / folder / name).mkdir(parents=True)
    assert trees.packages([str(tmp_path / "a"), str(tmp_path / "b"), "/nowhere"]) == {"q": "1", "x_y": "1.2", "z": "3"}


def test_software_tree_masks_the_command_line(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["train.py", "--token", "abcdefgh"])
    monkeypatch.setattr(sys, "orig_argv", ["python", "train.py", "--token", "abcdefgh"])
    monkeypatch.setattr(trees, "read_git", lambda folder: None)  # any text may be in the difference
    tree = trees.software({})
    assert tree["argv"] == ["train.py", "--token", "***"]
    assert "abcdefgh" not in str(tree)
    assert tree["packages"]["msgspec"]


def test_system_tree_stands_under_the_node():
    tree = trees.system("n7", {"SLURM_JOB_ID": "3", "SLURM_JWT": "x", "APPTAINER_CONTAINER": "/img.sif"})
    facts = tree["n7"]
    assert facts["cpu"]["cores"] >= 1
    assert facts["scheduler"] == {"SLURM_JOB_ID": "3", "SLURM_JWT": "***"}
    assert facts["image"] == "/img.sif"


@pytest.fixture
def repository(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")

    def git(*arguments):
        identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run(["git", "-C", str(tmp_path), *identity, *arguments], check=True, capture_output=True)

    git("init", "-q", "-b", "trunk")
    (tmp_path / "train.py").write_text("lr = 1\n")
    git("add", ".")
    git("commit", "-q", "-m", "a")
    git("remote", "add", "origin", "https://ann:pass1234@host/team/repo.git")
    return tmp_path


def test_git_facts_without_credentials(repository):
    (repository / "train.py").write_text("lr = 2\npassword = 'hunter22'\n")
    facts = read_git(str(repository))
    assert len(facts["commit"]) == 40
    assert (facts["branch"], facts["remote"], facts["dirty"]) == ("trunk", "https://***@host/team/repo.git", True)
    assert "+lr = 2" in facts["diff"]
    assert "hunter22" not in facts["diff"]


def test_a_large_difference_is_cut_and_says_so(repository):
    (repository / "train.py").write_text("x = 1\n" * 200_000)
    facts = read_git(str(repository))
    assert facts["diff_cut"]
    assert len(facts["diff"]) <= MAX_DIFF_BYTES


def test_a_clean_repository_and_no_repository(repository, tmp_path_factory):
    assert "diff" not in read_git(str(repository))
    assert read_git(str(tmp_path_factory.mktemp("plain"))) is None
