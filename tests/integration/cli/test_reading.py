"""Every reading command against a real server, in every format."""

import csv
import io
import json
import re

import pytest

from stepward.model.identity import derived_run_id

pytestmark = pytest.mark.integration

ONE, TWO, BAD = (derived_run_id("llm", key) for key in ("one", "two", "bad"))
STEERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
READING = [
    ("ls",),
    ("ls", "--project", "llm", "--filter", "name = twin", "--sort", "name", "--limit", "2", "--metric", "loss"),
    ("show", ONE),
    ("logs", ONE),
    ("logs", ONE, "--rank", "0", "--stream", "stdout", "--attempt", "1", "-n", "2"),
    ("logs", ONE, "--search", "RED"),
    ("diff", ONE, TWO),
    ("token", "ls"),
    ("doctor",),
    ("sync",),
    ("watch", ONE),
]


@pytest.mark.parametrize("command", READING, ids=" ".join)
def test_every_format(home, command):
    table, document, rows = (home(*command, "--format", name) for name in ("table", "json", "csv"))
    for done in (table, document, rows):
        assert (done.code, done.err) == (0, "")
        assert done.out and not STEERS.search(done.out)
    assert isinstance(document.json, (dict, list))
    lines = list(csv.reader(io.StringIO(rows.out)))
    assert len(lines) > 1 and len({len(line) for line in lines}) == 1


def test_ls_holds_all_projects_newest_first(home):
    home.write("elsewhere", project="other", name="elsewhere")
    assert home("sync").code == 0
    runs = home("ls", "--format", "json").json
    assert {run["project"] for run in runs} == {"llm", "other"}
    assert runs[0]["name"] == "elsewhere"
    assert [run["started_at"] for run in runs] == sorted((run["started_at"] for run in runs), reverse=True)
    assert {run["project"] for run in home("ls", "--project", "llm", "--format", "json").json} == {"llm"}


def test_show_is_the_run_object(home):
    run = home("show", ONE, "--format", "json").json
    assert (run["id"], run["name"], run["state"], run["project"]) == (ONE, "twin", "finished", "llm")
    assert run["latest"]["loss"] == {"step": 2, "value": 0.25}
    assert run["attempts"][0]["exit_code"] == 0 and run["attempts"][0]["number"] == 1


def test_a_name_that_bites_is_harmless_and_whole(home):
    assert "evil\\x1b[2J\\u202e模型🚀" in home("ls").out
    assert home("show", BAD, "--format", "json").json["name"] == "evil\x1b[2J\u202e模型🚀"


def test_runs_are_found_by_beginning_and_told_apart_by_name(home):
    assert home("show", ONE[:14], "--format", "json").json["id"] == ONE
    ambiguous = home("show", "twin")
    assert (ambiguous.code, ambiguous.out) == (1, "")
    assert "[ambiguous_name]" in ambiguous.err and ONE in ambiguous.err and TWO in ambiguous.err
    assert home("show", "elsewhere-not").code == 1


def test_a_bad_filter_names_the_position(home):
    done = home("ls", "--filter", "loss <")
    assert done.code == 2 and "[bad_filter]" in done.err and "position" in done.err


def test_diff_names_the_leaf(home):
    rows = home("diff", ONE, TWO, "--format", "json").json["differences"]
    assert {"kind": "user", "name": "lr", "first": 1, "second": 2} in rows
    assert {"kind": "metric", "name": "loss", "first": 0.25, "second": 0.75} in rows


def test_logs_have_no_teeth(home):
    assert home("logs", ONE).out == "start\nred\nend\n"
    assert home("logs", ONE, "-n", "1").out == "end\n"
    assert [row["text"] for row in home("logs", ONE, "--format", "json").json] == ["start", "red", "end"]


def test_every_point_is_exported(home, tmp_path):
    points = [json.loads(line) for line in home("export", ONE).out.splitlines()]
    assert [(point["metric"], point["step"], point["value"]) for point in points] == [
        ("loss", 0, 0.5),
        ("loss", 1, "NaN"),
        ("loss", 2, 0.25),
    ]
    assert home("export", ONE, "--format", "csv", "-o", str(tmp_path / "points.csv")).out == ""
    rows = list(csv.DictReader((tmp_path / "points.csv").open()))
    assert [row["value"] for row in rows] == ["0.5", "NaN", "0.25"]
    assert [path.name for path in tmp_path.iterdir()] == ["points.csv"]
    assert "[unwritable_file]" in home("export", ONE, "-o", f"{tmp_path}/none/points.csv").err


def test_watch_and_follow_end_with_the_run(home):
    journal = home.journal("live", name="live")
    keyset = journal.define([("loss", "", None)])
    journal.row(keyset, 0, 1_800_000_000_000_000, [1.0])
    assert home("sync").code == 0
    run = derived_run_id("llm", "live")
    watching = home.popen("watch", run, "--format", "json", "--exit-code")
    following = home.popen("logs", run, "--follow")
    first = watching.stdout.readline()
    assert json.loads(first)["id"] == run and not json.loads(first)["ended_at"]
    from stepward.model.frames import LogChunk, Logs
    from stepward.model.states import Exit, Witness

    for number in range(3):
        data = f"line {number}\n".encode()
        journal.emit("logs", Logs([LogChunk("stdout", number * 7, data, [(0, 1_800_000_000_000_000)], rank=0)]))
        assert home("sync").code == 0
    journal.emit("exit", Exit(at=1_800_000_000_000_000, by=Witness.REAPER, exit_code=3, rank=0))
    journal.close()
    assert home("sync").code == 0
    out, err = watching.communicate(timeout=120)
    assert (watching.returncode, err) == (1, "")
    assert json.loads(out.splitlines()[-1])["state"] == "failed"
    out, err = following.communicate(timeout=120)
    assert (following.returncode, err) == (0, "")
    assert out.splitlines() == [f"[rank 0] line {number}" for number in range(3)]
