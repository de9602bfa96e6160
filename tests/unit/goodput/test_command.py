"""``stepward goodput replay``: formats, sources, and what is refused."""

import csv
import io
import json

import pytest

from stepward.cli.app import outcome
from stepward.testing.goodput.cases import shipped

B = next(case for case in shipped() if case.name == "B")


@pytest.fixture
def timeline(tmp_path):
    path = tmp_path / "b.jsonl"
    path.write_bytes(b"\n".join(B.lines))
    return str(path)


def test_the_table_says_the_answer_first(timeline, capsys):
    assert outcome(["goodput", "replay", timeline]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "goodput 32.15 % of 1 h 43 min (2 attempts, 13.8 device hours, 50 steps lost)"
    assert lines[1] == "= scheduling 100.00 % x runtime 32.15 % x program 100.00 %; ideal step 10 s"
    rows = [line.split()[0] for line in lines[4:8]]
    assert rows == ["productive", "down", "recompute", "other"]
    # Each bar begins where the one before it ended.
    starts = [line.index("█") for line in lines[4:8]]
    assert starts == sorted(starts)


def test_csv_adds_up(timeline, capsys):
    assert outcome(["goodput", "replay", timeline, "--format", "csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert len(rows) == 16
    assert sum(float(row["seconds"]) for row in rows) == 6220
    assert sum(float(row["device_seconds"]) for row in rows) == 49760


def test_now_ends_an_open_wall(tmp_path, capfdbinary):
    path = tmp_path / "open.jsonl"
    path.write_text('{"t": 0, "kind": "attempt_started", "attempt": 1}\n')
    assert outcome(["goodput", "replay", str(path), "--now", "90", "--format", "json"]) == 0
    found = json.loads(capfdbinary.readouterr().out)
    assert found["open"] and found["wall_s"] == 90 and found["schema"] == "stepward.goodput/1"


@pytest.mark.parametrize(
    ("content", "code"),
    [("", "no_events"), ("\n\n", "no_events"), ("nonsense\n", "no_events"), ('{"t": 1, "kind": "stall"}', "no_events")],
)
def test_nothing_to_account_for_prints_nothing(content, code, tmp_path, capfd):
    path = tmp_path / "empty.jsonl"
    path.write_text(content)
    assert outcome(["goodput", "replay", str(path), "--format", "json"]) == 2
    said = capfd.readouterr()
    assert said.out == "" and f"[{code}]" in said.err


@pytest.mark.parametrize("arguments", [["/no/such/file"], ["/"], ["x", "--now", "nan"], ["x", "--now", "inf"], []])
def test_usage_errors_print_nothing(arguments, capfd):
    assert outcome(["goodput", "replay", *arguments]) == 2
    assert capfd.readouterr().out == ""


def test_a_log_of_the_reference_library(tmp_path, capfdbinary):
    log = [{"job_start_time": 0}, *({"step_count": n, "step_start_time": 10.0 * n} for n in range(9))]
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join(json.dumps(entry) for entry in [*log, {"job_end_time": 90}]) + "\nnot an entry\n")
    command = ["goodput", "replay", str(path), "--source", "reference", "--devices", "4", "--format", "json"]
    assert outcome(command) == 0
    found = json.loads(capfdbinary.readouterr().out)
    assert found["overall"] == 1 and found["device_s"] == 360


def test_what_a_timeline_says_never_steers_the_terminal(tmp_path, capfd):
    path = tmp_path / "evil.jsonl"
    lines = [{"t": 0, "kind": "attempt_started", "attempt": 1}, {"t": 1, "kind": "\x1b[2J"}]
    path.write_text("\n".join(json.dumps(line) for line in lines))
    assert outcome(["goodput", "replay", str(path)]) == 0
    assert "\x1b" not in capfd.readouterr().out
