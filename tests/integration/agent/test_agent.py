"""A real agent: what it tells of its node, how it dies, what it survives, and who may read what."""

import http.server
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from stepward.errors import NotFound, PermissionDenied, StepwardError

pytestmark = pytest.mark.integration

HOST = os.uname().nodename.partition(".")[0]


def the_node(server, name):
    return next((node for node in server.client.nodes() if node.name == name), None)


def is_state(server, name, state):
    return lambda: (node := the_node(server, name)) is not None and node.state == state and node


def test_a_node_is_known_by_its_agent_until_it_dies_and_again(server, agent, until):
    token = server.new_token("ingest", "_nodes")
    first = agent("--node", "n7", "--interval", "1", server=server, token=token)
    node = until(lambda: (one := the_node(server, "n7")) is not None and one.cpu is not None and one.checks and one)
    assert (node.cluster, node.name, node.state) == ("local", "n7", "live")
    results = {check.name: check for check in node.checks}
    assert results["disk_space"].result in ("ok", "bad")
    assert all(check.reason for check in node.checks if check.result != "ok")
    assert "slurmd" not in results

    second = agent("--node", "n7", server=server)
    assert second.wait(120) == 1
    assert f"process {first.pid} [agent_running]" in second.stderr.read()

    first.kill()
    until(is_state(server, "n7", "lost"))
    third = agent("--node", "n7", server=server, token=token)
    until(is_state(server, "n7", "live"))
    third.send_signal(signal.SIGTERM)
    assert third.wait(120) == 0
    until(is_state(server, "n7", "stopped"))
    run = server.client.run(node.run)
    assert (run.project, run.key, len(run.attempts)) == ("_nodes", "node:local:n7", 1)


class Counter(http.server.ThreadingHTTPServer):
    """An exporter whose only sample says how often it was asked: it knows what an agent has measured, server or not."""

    daemon_threads = True
    asked = 0

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Answer)
        self.instance = f"127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked += 1
        body = f"asked {self.server.asked}\n".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def test_what_is_measured_while_the_server_is_away_is_not_lost(own_server, agent, until):
    server = own_server
    with Counter() as exporter:
        agent("--node", "n7", "--interval", "1", "--scrape", f"http://{exporter.instance}/metrics", server=server)
        node = until(is_state(server, "n7", "live"))
        metric = f'system/scrape/asked{{instance="{exporter.instance}"}}'

        def told():
            lines = server.client.points(node.run, metric, x="time", buckets=2000).lines
            return lines[0].last if lines else []

        until(told)
        port = int(server.url.rpartition(":")[2])
        server.stop()
        away = exporter.asked
        until(lambda: exporter.asked >= away + 4)
        back = exporter.asked
        server.start(port)
        values = until(lambda: max(found := told(), default=0) > back and found)
        assert values == [float(number) for number in range(1, len(values) + 1)]
        until(is_state(server, "n7", "live"))
        exporter.shutdown()


SHIFTED = """
import os, time
_hours = float(os.environ["HOURS_OFF"]) * 3600
_time, _time_ns = time.time, time.time_ns
time.time = lambda: _time() + _hours
time.time_ns = lambda: _time_ns() + int(_hours * 1e9)
"""


HOURS_OFF = (1.0, -24.0) if os.environ.get("STEPWARD_TEST_SCALE") == "full" else (1.0,)


@pytest.mark.scaled
@pytest.mark.parametrize("hours", HOURS_OFF)
def test_a_node_whose_clock_is_wrong_is_alive_is_lost_and_is_charted_when_it_was(server, agent, until, tmp_path, hours):
    (tmp_path / "sitecustomize.py").write_text(SHIFTED)
    name = f"off{'-ahead' if hours > 0 else '-behind'}"
    there = {"PYTHONPATH": str(tmp_path), "HOURS_OFF": str(hours)}
    wrong = agent("--node", name, "--interval", "1", server=server, **there)
    node = until(lambda: (one := the_node(server, name)) is not None and one.cpu is not None and one.checks and one)
    assert node.state == "live"
    (source,) = server.client.sources(node.run)
    assert abs(source.clock_offset_s + hours * 3600) < 60
    # The clock of its points is its own, as it was sent; all that the server tells of it is on the server's.
    assert abs(loads(server, node.run)[-1] - time.time() - hours * 3600) < 60
    assert all(abs(seconds(at) - time.time()) < 60 for at in (node.last_heard_at, node.since))
    wrong.kill()
    wrong.wait()
    killed = time.time()
    lost = until(is_state(server, name, "lost"))
    assert abs(seconds(lost.since) - killed) < 60


def loads(server, run):
    lines = server.client.points(run, "system/host/load", x="time", buckets=2000).lines
    return lines[0].x if lines else []


def test_kernel_lines_are_kept_once_also_those_of_an_agent_that_was_away(server, agent, until):
    if not os.access("/dev/kmsg", os.W_OK):
        pytest.skip("/dev/kmsg cannot be written here")

    def say(words):
        with open("/dev/kmsg", "w") as file:
            file.write(f"stepward-test {os.getpid()} {words}\n")

    def heard():
        client, node = server.client, the_node(server, "n10")
        streams = [one for one in client.log_streams(node.run) if one.stream == "kernel"] if node else []
        lines = [line for one in streams for line in client.log_lines(node.run, one.id)]
        return [line.text for line in lines if f"stepward-test {os.getpid()}" in line.text]

    first = agent("--node", "n10", server=server)
    until(is_state(server, "n10", "live"))
    say("one")
    until(lambda: len(heard()) == 1)
    first.kill()
    first.wait()
    say("two")
    agent("--node", "n10", server=server)
    until(lambda: len(heard()) == 2)
    say("three")
    until(lambda: len(heard()) >= 3)
    assert [line.split()[-1] for line in heard()] == ["one", "two", "three"]


def test_an_exporter_that_hangs_costs_only_itself(server, agent, until):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        agent("--node", "n8", "--interval", "1", "--scrape", f"http://{address}/metrics", server=server)
        node = until(is_state(server, "n8", "live"))
        up = f'system/scrape/up{{instance="{address}"}}'
        latest = until(lambda: server.client.run(node.run).latest.get(up))
        assert latest.value == 0.0
        assert is_state(server, "n8", "live")()


def test_lists_of_runs_leave_nodes_out(server, agent, until):
    agent("--node", "n9", server=server)
    node = until(is_state(server, "n9", "live"))
    assert node.run not in [run.id for run in server.client.runs()]
    assert node.run in [run.id for run in server.client.runs(project="_nodes")]
    with pytest.raises(NotFound):
        server.client.run("n9")
    assert server.client.run(node.run).name == "n9"


def launch(server, project, seconds):
    """A run of a project on this host, to its end; its id."""
    environ = os.environ | {"STEPWARD_SERVER": server.url, "STEPWARD_TOKEN": server.token}
    command = [sys.executable, "-m", "stepward", "run", "-p", project, "--", "sleep", str(seconds)]
    subprocess.run(command, env=environ, check=True, timeout=180, stderr=subprocess.DEVNULL)
    return next(iter(server.client.runs(project=project))).id


def test_a_node_is_read_with_a_run_s_permissions_and_in_its_interval_alone(server, agent, until):
    agent("--node", HOST, "--interval", "1", server=server)
    node = until(is_state(server, HOST, "live"))
    ours, theirs = launch(server, "a", 3), launch(server, "b", 3)
    viewer = server.of(server.new_token("viewer", "a"))

    (had,) = viewer.run_nodes(ours)
    assert (had.node, had.cluster, had.attempt, had.known) == (HOST, "local", 1, True)
    assert "system/host/load" in [series.metric for series in had.series]
    attempt = viewer.run(ours).attempts[0]
    assert (had.started_at, had.ended_at) == (attempt.started_at, attempt.ended_at)

    chart = chart_of(viewer, ours, HOST, x="time", start="0", end="99999999999")
    first, last = seconds(had.started_at), seconds(had.ended_at)
    assert chart["lines"][0]["count"]
    assert all(first - 0.01 <= x <= last + 0.01 for line in chart["lines"] for x in (*line["x"], *line["x_last"]))
    assert len(loads(server, node.run)) > sum(chart["lines"][0]["count"])
    relative = chart_of(viewer, ours, HOST, x="relative", start="-1000")
    assert all(-0.01 <= x <= last - first + 0.01 for line in relative["lines"] for x in line["x"])
    outside = chart_of(viewer, ours, HOST, x="time", start=str(last + 1))
    assert outside["lines"] == []

    for refused in (
        lambda: viewer.run_nodes(theirs),
        lambda: chart_of(viewer, theirs, HOST),
        lambda: chart_of(viewer, ours, HOST, attempt="2"),
        lambda: chart_of(viewer, ours, "another"),
        lambda: chart_of(viewer, ours, HOST, metric="system/job/99/cpu"),
        lambda: viewer.series(node.run),
        lambda: viewer.run(node.run),
        lambda: list(viewer.runs(project="_nodes")),
    ):
        with pytest.raises((NotFound, PermissionDenied)):
            refused()
    with pytest.raises(StepwardError):
        chart_of(viewer, ours, HOST, x="step")


def chart_of(client, run, node, *, metric="system/host/load", **query):
    asked = {"metric": metric, **query}
    return client._get(f"/api/v1/runs/{run}/nodes/{node}/points", asked, dict)


def seconds(moment):
    from datetime import datetime

    return datetime.fromisoformat(moment).timestamp()
