"""What waits for a run that was deleted on the server goes when somebody says so, and not before."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from stepward.client.api import Client
from stepward.model.identity import derived_run_id

pytestmark = pytest.mark.integration


@pytest.fixture
def client(home):
    return Client(home.url, Path(home.data, "token").read_text().strip())


def test_records_of_a_deleted_run_wait_until_somebody_throws_them_away(home, client):
    journal = home.journal("gone")
    run, keyset = journal.run, journal.define([("loss", "", None)])
    assert journal.row(keyset, 1, 1, [0.5])
    assert home("sync", "--run", run).code == 0
    client.delete_run(run)
    for step in range(2, 5):
        assert journal.row(keyset, step, step, [0.5])
    living = home("sync", "--discard", run, "--yes")
    assert living.code == 75 and "still writes, and stays" in living.err
    journal.close()

    kept = home("sync", "--run", run)
    assert kept.code == 75
    assert f"stepward sync --discard {run}" in kept.out
    unasked = home("sync", "--discard", run)
    assert (unasked.code, "not_confirmed" in unasked.err) == (2, True)
    assert "rank 0 on n1" in unasked.err and "3 points in 3 records" in unasked.err
    assert home("sync", "--run", run).code == 75, "nothing went without a yes"

    done = home("sync", "--discard", run, "--yes", "--format", "json")
    assert (done.code, done.json["left_bytes"], done.json["problem"]) == (0, 0, "")
    assert done.json["discarded_bytes"] > 0
    assert not os.path.exists(f"{home.spool}/{run}")
    assert home("sync", "--run", run).out == "nothing to deliver\n"
    again = home("sync", "--discard", run, "--yes")
    assert (again.code, "nothing_to_discard" in again.err) == (1, True)


def test_records_that_the_server_would_take_are_delivered_and_never_thrown_away(home):
    home.write("kept", [0.5])
    run = derived_run_id("llm", "kept")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    away = home("sync", "--discard", run, "--yes", STEPWARD_SERVER=f"http://127.0.0.1:{port}")
    assert away.code == 75 and "remain: " in away.out
    assert os.path.exists(f"{home.spool}/{run}")
    taken = home("sync", "--discard", run, "--yes")
    assert (taken.code, "nothing_to_discard" in taken.err) == (1, True)
    assert '"value":0.5' in home("show", run, "--format", "json").out.replace(" ", "")


@pytest.mark.parametrize(("answer", "code", "goes"), [("n", 75, False), ("y", 0, True)])
def test_a_terminal_is_asked_and_only_a_yes_throws_away(home, client, answer, code, goes):
    journal = home.journal(f"asked-{answer}")
    run, keyset = journal.run, journal.define([("loss", "", None)])
    assert journal.row(keyset, 1, 1, [0.5])
    assert home("sync", "--run", run).code == 0
    client.delete_run(run)
    assert journal.row(keyset, 2, 2, [0.5])
    journal.close()
    ours, theirs = os.openpty()
    os.write(ours, f"{answer}\n".encode())
    command = [sys.executable, "-m", "stepward", "sync", "--discard", run]
    done = subprocess.run(command, env=home.env, stdin=theirs, capture_output=True, text=True, timeout=120)
    os.close(ours)
    os.close(theirs)
    assert done.returncode == code, done
    assert f"Throw away these records of {run} for good?" in done.stderr
    assert os.path.exists(f"{home.spool}/{run}") is not goes
    assert home("sync", "--discard", run, "--yes").code == (1 if goes else 0)
