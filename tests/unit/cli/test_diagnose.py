"""``stepward diagnose --run``: what the server says of a run; with other inputs its output beside them, by ranks."""

import json

from stepward.cli import app, connection
from stepward.client.api import PAGE_LINES

LOG = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."


def test_the_logs_of_a_run_are_read_by_rank_and_node(recorded, run_json, monkeypatch, capfdbinary):
    run = run_json()
    streams = [
        {"id": f"s{rank}", "stream": "stdout", "attempt": 1, "rank": rank, "node": "gpu-07", "lines": 1}
        for rank in (0, 1)
    ]
    base = f"/api/v1/runs/{run['id']}"
    answers = {("GET", base): (200, run), ("GET", f"{base}/logs"): (200, streams)}
    for stream, text in zip(streams, ("step 1 loss 2.0 1.0 s", LOG), strict=True):
        path = f"{base}/logs/{stream['id']}"
        first = f"{path}?from_n=1&limit={PAGE_LINES}"
        answers["GET", first] = (200, {"stream": stream, "lines": [{"n": 1, "text": text}]})
        answers["GET", path] = (200, {"stream": stream, "lines": []})
    client = recorded(answers)
    monkeypatch.setattr(connection, "connect", lambda: client)
    assert app.outcome(["diagnose", "--run", run["id"], "--exit", "1=1", "--format", "json"]) == 0
    document = json.loads(capfdbinary.readouterr().out)
    (cause,) = document["causes"]
    assert (cause["label"], cause["suspects"]["ranks"]) == ("gpu_oom", [1])
    assert [(note["rank"], note["node"]) for note in document["inputs"]] == [(0, "gpu-07"), (1, "gpu-07")]


STORED = {
    "attempt": 2,
    "event": None,
    "made_at": "2026-12-01T10:00:00Z",
    "version": 1,
    "document": {"outcome": "failed"},
}


def test_of_a_run_that_is_over_the_server_is_asked_and_else_it_looks_again(
    recorded, run_json, monkeypatch, capfdbinary
):
    for state, outcome in (("failed", "failed"), ("running", "degraded")):
        run = run_json(state=state)
        base = f"/api/v1/runs/{run['id']}"
        stored = {**STORED, "run": run["id"]}
        anew = {**stored, "document": {"outcome": "degraded"}}
        answers = {("GET", base): run, ("GET", f"{base}/diagnosis"): stored, ("POST", f"{base}/diagnosis"): anew}
        client = recorded({asked: (200, answer) for asked, answer in answers.items()})
        monkeypatch.setattr(connection, "connect", lambda client=client: client)
        assert app.outcome(["diagnose", "--run", run["id"], "--format", "json", "--exit-code"]) == 1
        assert json.loads(capfdbinary.readouterr().out)["outcome"] == outcome
