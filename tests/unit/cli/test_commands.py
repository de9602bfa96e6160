import csv
import io
import json

import pytest

from stepward.cli import app, connection, diff, logs, ls, show, token
from stepward.cli.connection import find_run
from stepward.errors import Conflict, NotFound, UsageError
from stepward.model.resources import LogLine, LogStream, RunConfig, instant

BAD_NAME = "evil\x1b[2J\u202e模型🚀"


def answers(run_json, *runs):
    found = list(runs) or [run_json(), run_json(id="run_01k0000001bbbbbbbbbbbbbbbb", name=BAD_NAME, state="failed")]
    page = (200, {"items": found, "total": len(found)})
    named = {("GET", f"/api/v1/runs/{run['id']}"): (200, run) for run in found}
    configs = {
        ("GET", f"/api/v1/runs/{run['id']}/config"): (200, {"user": {"lr": place}}) for place, run in enumerate(found)
    }
    return {("GET", "/api/v1/runs"): page, **named, **configs}


@pytest.fixture
def stepward(recorded, run_json, monkeypatch, capsys):
    """Run a command against recorded answers: exit code, stdout, stderr."""

    def call(*argv, more=None):
        client = recorded({**answers(run_json), **(more or {})})
        for module in (ls, show, diff, logs, token):
            monkeypatch.setattr(module, "connect", lambda **_settings: client)
        monkeypatch.setattr(connection, "connect", lambda **_settings: client)
        code = app.outcome(argv)
        return code, *capsys.readouterr()

    return call


def test_ls_as_json_is_an_array_of_the_run_object(stepward):
    code, out, err = stepward("ls", "--format", "json")
    runs = json.loads(out)
    assert (code, err, [run["name"] for run in runs]) == (0, "", ["pretrain", BAD_NAME])
    contract = {"id", "name", "project", "kind", "state", "attempts", "latest", "pending", "dropped"}
    assert contract <= runs[0].keys()
    attempt = {"key", "number", "state", "exit_code", "signal", "reason", "nodes", "ranks", "started_at", "ended_at"}
    assert attempt <= runs[0]["attempts"][0].keys()
    assert runs[0]["latest"]["bad"] == {"step": 3, "value": "NaN"}


def test_ls_as_csv_is_exact(stepward):
    _, out, _ = stepward("ls", "--format", "csv", "--metric", "loss")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert rows[0]["loss"] == "0.25" and rows[0]["started_at"].endswith("Z") and len(rows) == 2
    assert rows[1]["name"] == "evil\\x1b[2J\\u202e模型🚀"


def test_ls_as_a_table_is_harmless_and_straight(stepward):
    _, out, _ = stepward("ls")
    assert "\x1b" not in out and "\u202e" not in out
    head, first, second = out.splitlines()
    from rich.cells import cell_len

    place = head.index("PROJECT")
    assert first[place:].startswith("llm")
    assert cell_len(second[: second.index("llm")]) == place


def test_show_as_json_is_the_run_object(stepward, run_json):
    code, out, _ = stepward("show", run_json()["id"], "--format", "json")
    assert code == 0 and json.loads(out)["name"] == "pretrain" and isinstance(json.loads(out), dict)


def test_show_tells_attempts_and_latest_values(stepward, run_json):
    _, out, _ = stepward("show", run_json()["id"])
    assert "preempted" in out and "SIGTERM" in out and "NaN" in out and "2 pending" not in out


def test_a_bad_end_is_shown_with_its_last_words(stepward):
    path = "/api/v1/runs/run_01k0000001bbbbbbbbbbbbbbbb/sources"
    source = {"kind": "rank", "role": "trainer", "pid": 1, "node": "n1"}
    sources = [
        {**source, "writer": "a", "attempt": 1, "rank": 0, "state": "failed", "tail": ["old"]},
        {
            **source,
            "writer": "b",
            "attempt": 2,
            "rank": 0,
            "state": "failed",
            "traceback": "Trace\n  \x1b[2JValueError: x",
        },
        {**source, "writer": "c", "attempt": 2, "rank": 1, "state": "finished", "tail": ["fine"]},
    ]
    _, out, _ = stepward("show", "run_01k0000001", more={("GET", path): (200, sources)})
    assert out.endswith("last words of rank 0 on n1 (failed)\n  Trace\n    ValueError: x\n")
    assert "old" not in out and "fine" not in out


def test_ls_says_where_it_ends(stepward):
    code, out, err = stepward("ls", "--limit", "1", "--format", "csv")
    assert (code, len(out.splitlines()), err) == (0, 2, "these are the first 1; --limit shows more\n")


def test_diff_shows_what_differs_and_values_beside_each_other(stepward):
    one, two = "run_01k0000000aaaaaaaaaaaaaaaa", "run_01k0000001bbbbbbbbbbbbbbbb"
    code, out, _ = stepward("diff", one, two, "--format", "json")
    found = {(row["kind"], row["name"]): (row["first"], row["second"]) for row in json.loads(out)["differences"]}
    assert code == 0 and found[("user", "lr")] == (0, 1) and found[("metric", "loss")] == (0.25, 0.25)
    _, table, _ = stepward("diff", one, two)
    assert "\x1b" not in table and "evil\\x1b" in table


def test_an_unknown_run(stepward):
    code, out, err = stepward("show", "nope")
    assert (code, out) == (1, "") and "[no_such_run]" in err and "stepward ls" in err


class TestFindRun:
    ONE, TWO = "run_01k0000000aaaaaaaaaaaaaaaa", "run_01k0000001bbbbbbbbbbbbbbbb"

    def test_by_a_unique_beginning(self, recorded, run_json):
        client = recorded(answers(run_json))
        assert find_run(client, "run_01k0000001").id == self.TWO
        assert find_run(client, "01k0000000").id == self.ONE

    def test_a_beginning_of_several(self, recorded, run_json):
        with pytest.raises(Conflict) as raised:
            find_run(recorded(answers(run_json)), "01k0000")
        assert raised.value.code == "ambiguous_name"
        assert self.ONE in raised.value.hint and self.TWO in raised.value.hint

    @pytest.mark.parametrize("named", ["r", "run_", "run_01", 'x" OR id:"', "01k0000009"])
    def test_no_such_beginning(self, recorded, run_json, named):
        with pytest.raises(NotFound) as raised:
            find_run(recorded(answers(run_json)), named)
        assert raised.value.code == "no_such_run"

    def test_a_name_of_several_lists_their_ids(self, recorded, run_json):
        ambiguous = (409, {"code": "ambiguous_name", "detail": "2 runs are called pretrain"})
        client = recorded({**answers(run_json), ("GET", "/api/v1/runs/pretrain"): ambiguous})
        with pytest.raises(Conflict) as raised:
            find_run(client, "pretrain")
        assert self.ONE in raised.value.hint and self.TWO not in raised.value.hint


class TestLogs:
    STREAMS = [
        LogStream(id="a", stream="stdout", attempt=1, rank=0),
        LogStream(id="b", stream="stdout", attempt=2, rank=0),
        LogStream(id="c", stream="stderr", attempt=2, rank=1),
    ]

    def ids(self, *wanted):
        return [one.id for one in logs.choose(self.STREAMS, *wanted)]

    def test_the_newest_attempt_is_meant(self):
        assert self.ids(None, None, None) == ["b", "c"]
        assert self.ids(1, None, None) == self.ids(None, "stderr", None) == ["c"]
        assert self.ids(0, None, 1) == ["a"]
        assert self.ids(7, None, None) == []

    def test_streams_are_merged_by_their_clocks(self):
        def line(stream, n, at):
            return logs.Printed(self.STREAMS[stream], LogLine(n=n, text="", at=None if at is None else instant(at)))

        lines = [line(0, 1, 10), line(0, 2, None), line(0, 3, 30), line(1, 1, 20), line(1, 2, 40)]
        merged = [(one.stream.id, one.line.n) for one in logs.by_time(lines)]
        assert merged == [("a", 1), ("a", 2), ("b", 1), ("a", 3), ("b", 2)]

    def test_what_is_not_in_a_line_is_said(self):
        assert (
            logs.words(LogLine(n=1, text="\x1b[1mx\x07", repeats=3, truncated=5)) == "x\\x07 … 5 more characters  (× 3)"
        )

    def test_lines_say_where_they_are_from(self, stepward):
        run = "/api/v1/runs/run_01k0000000aaaaaaaaaaaaaaaa/logs"
        streams = [
            {"id": "s0", "stream": "stdout", "attempt": 1, "rank": 0, "lines": 1},
            {"id": "s1", "stream": "stderr", "attempt": 1, "rank": 1, "lines": 1},
        ]
        more = {("GET", run): (200, streams)}
        for place, stream in enumerate(streams):
            lines = [{"n": 1, "text": f"line {place}", "at": instant(place)}]
            more[("GET", f"{run}/{stream['id']}")] = (200, {"stream": stream, "lines": lines})
        code, out, _ = stepward("logs", "run_01k0000000", more=more)
        assert (code, out) == (0, "[rank 0] line 0\n[rank 1 stderr] line 1\n")
        _, out, _ = stepward("logs", "run_01k0000000", "--rank", "1", more=more)
        assert out == "line 1\n"
        _, out, _ = stepward("logs", "run_01k0000000", "--format", "json", more=more)
        assert [(row["rank"], row["text"]) for row in json.loads(out)] == [(0, "line 0"), (1, "line 1")]
        code, _, err = stepward("logs", "run_01k0000000", "--rank", "9", more=more)
        assert code == 1 and "[no_output]" in err and "rank 0" in err


def test_leaves_that_differ():
    one = RunConfig(user={"a": 1, "b": {"c": [1, 2]}, "e": {}, "same": 1.5}, software={"x": None})
    two = RunConfig(user={"a": True, "b": {"c": [2, 1]}, "d.e": "new", "e": {}, "same": 1.5}, software={})
    rows = [tuple(row) for row in diff.config_differences(one, two, ["user", "software"])]
    assert rows == [
        ("user", "a", 1, True),
        ("user", "b.c", [1, 2], [2, 1]),
        ("user", "d.e", None, "new"),
        ("software", "x", None, None),
    ]


@pytest.mark.parametrize(("text", "seconds"), [("90m", 5400), ("12h", 43200), ("30d", 2592000), ("5s", 5)])
def test_spans(text, seconds):
    assert token.span(text) == seconds


@pytest.mark.parametrize("text", ["", "1", "-1d", "1w", "1d2h", "١d"])
def test_no_spans(text):
    with pytest.raises(UsageError):
        token.span(text)
