"""The document of ``stepward diagnose --format json``: its shape is a contract with programs."""

import json
import subprocess
import sys

import pytest

LOG = (
    "2026-05-06 10:00:00 [rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
    "2026-05-06 10:00:01 [rank0]: ncclRemoteError: A call failed possibly due to a network error or a remote process exiting.\n"
)
KEYS = {
    "schema", "outcome", "ended", "inputs", "causes", "candidates", "events", "ruled_out", "unknown", "findings", "episodes",
}  # fmt: skip


def stepward(*args, stdin=""):
    return subprocess.run(
        [sys.executable, "-m", "stepward", "diagnose", *args], input=stdin, capture_output=True, text=True, timeout=120
    )


def test_a_failure_as_programs_see_it(tmp_path):
    (tmp_path / "job.log").write_text(LOG)
    done = stepward(str(tmp_path), "--format", "json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document.keys() == KEYS
    assert (document["schema"], document["outcome"], document["ended"]) == ("stepward.diagnosis/1", "failed", True)
    assert document["inputs"] == [
        {
            "source": "job.log", "kind": "log", "rank": None, "node": None, "lines": 2,
            "first_t": "2026-05-06T10:00:00.000000Z", "last_t": "2026-05-06T10:00:01.000000Z",
            "encoding": "utf-8", "truncated": False, "why": None,
        }
    ]  # fmt: skip
    (cause,) = document["causes"]
    assert {key: cause[key] for key in ("label", "layer", "decided_by", "suspects", "secondary")} == {
        "label": "gpu_oom",
        "layer": "framework",
        "decided_by": "log",
        "suspects": {"nodes": [], "ranks": [3], "devices": []},
        "secondary": [{"text": "a peer went away", "ranks": 1}],
    }
    assert 0.3 <= cause["confidence"] <= 1
    assert cause["summary"]
    assert cause["remediation"]
    (evidence,) = cause["evidence"]
    assert evidence == {
        "kind": "log", "source": "job.log", "line": 1, "last_line": 1, "count": 1, "time": "2026-05-06T10:00:00.000000Z",
        "rank": 3, "node": None, "text": LOG.splitlines()[0],
        "chart": None, "event": None, "stream": None, "stream_run": None,
    }  # fmt: skip
    assert all(one.keys() == {"analyzer", "why"} for one in document["unknown"])
    assert all(one.keys() == {"label", "why"} for one in document["ruled_out"])
    assert {one["layer"] for one in document["findings"]} == {
        "infrastructure",
        "orchestrator",
        "framework",
        "user_code",
    }
    assert {one["verdict"] for one in document["findings"]} <= {"bad", "ok", "unknown"}


@pytest.mark.parametrize(
    ("args", "stdin", "outcome", "code"),
    [
        (["-", "--exit-code"], LOG, "failed", 1),
        (["-", "--exit-code"], "training finished, exit code 0\n", "healthy", 0),
        (["-"], "", "unknown", 0),
        (["/nowhere/at/all.log"], "", "unknown", 0),
        (["--exit", "3=0"], "", "unknown", 0),
        (["-", "--tz", "+02:00", "--rank-pattern", r"r(\d+)\|"], LOG, "failed", 0),
    ],
)
def test_a_document_always_comes(args, stdin, outcome, code):
    done = stepward(*args, "--format", "json", stdin=stdin)
    assert (json.loads(done.stdout)["outcome"], done.returncode) == (outcome, code), done.stderr


@pytest.mark.parametrize(
    ("args", "code"),
    [
        ([], "no_input"),
        (["-", "--exit", "x"], "bad_exit"),
        (["-", "--tz", "Mars/Base"], "bad_zone"),
        (["-", "--rank-pattern", "("], "bad_pattern"),
        (["-", "--rank-pattern", "rank"], "bad_pattern"),
        (["--slurm", "; rm"], "bad_job"),
        (["-", "--format", "xml"], "usage"),
    ],
)
def test_wrong_usage_is_an_error_and_nothing_on_stdout(args, code):
    done = stepward(*args)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"[{code}]" in done.stderr


def test_people_get_the_answer_first_and_no_control_characters(tmp_path):
    (tmp_path / "job.log").write_text("\x1b]0;owned\x07\x1b[2J" + LOG)
    done = stepward(str(tmp_path))
    assert done.stdout.startswith("FAILED      gpu_oom ")
    assert "\x1b" not in done.stdout
    assert "\x07" not in done.stdout


def test_csv_has_a_line_a_cause(tmp_path):
    (tmp_path / "job.log").write_text(LOG)
    head, row = stepward(str(tmp_path), "--format", "csv").stdout.splitlines()
    assert head == "label,layer,confidence,decided_by,nodes,ranks,summary"
    assert row.startswith("gpu_oom,framework,0.")


def test_slurm_that_cannot_be_asked_is_an_error_by_name(monkeypatch, tmp_path):
    monkeypatch.setenv("SLURM_CONF", str(tmp_path / "none"))
    done = stepward("--slurm", "7")
    said = {1: "[slurm_missing]", 75: "[slurm_unreachable]"}  # its commands may be on this host
    assert done.stdout == ""
    assert said[done.returncode] in done.stderr
