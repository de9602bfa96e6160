"""What a watcher survives: its own death in a burst, a controller that is away, a server that is away."""

import glob
import os
import signal
import time

import pytest

from .conftest import Rig

pytestmark = pytest.mark.integration


def test_none_of_a_burst_is_missed_though_the_watcher_is_killed_in_between(rig, full_scale):
    count = 500 if full_scale else 60
    every = []
    for number in range(count):
        every.append(rig.lab.submit(f"exit {number % 3}", "--mem=1", "-J", f"burst-{number}"))
        if number == count // 3:
            rig.kill_watcher()
        if number == 2 * count // 3:
            rig.start_watcher()
    over = lambda: [run for run in rig.runs(*every).values() if run["state"] in ("finished", "failed")]  # noqa: E731
    rig.until(lambda: len(over()) == count, "the last of the burst", 600)
    found = rig.runs(*every)
    for number, job in enumerate(every):
        (attempt,) = found[job]["attempts"]
        assert (found[job]["name"], attempt["exit_code"]) == (f"burst-{number}", number % 3)


def test_what_nobody_saw_and_slurm_forgot_is_found_in_accounting_and_an_id_that_is_used_again_is_another_run(
    new_slurm_cluster, tmp_path
):
    rig = Rig(new_slurm_cluster("forgetful", nodes=1), str(tmp_path))
    try:
        rig.start_server()
        rig.start_watcher()
        lives = rig.lab.submit("sleep 5; exit 4", "--mem=1", "-J", "lives")
        rig.until(lambda: (rig.run(lives) or {}).get("state") == "running", "the job")
        rig.kill_watcher()
        missed = rig.lab.submit("exit 6", "--mem=1")
        both = lambda: [*rig.accounted(lives), *rig.accounted(missed)]  # noqa: E731
        rig.until(lambda: [one["State"] for one in both() if one["End"] != "Unknown"] == ["FAILED"] * 2, "the record")
        time.sleep(2)  # what slurmdbd shows it has not always committed: a controller's death takes that back
        rig.kill_controller()
        for path in glob.glob(f"{rig.lab.folder}/**/job_state*", recursive=True):
            os.unlink(path)
        rig.start_controller()
        assert rig.lab.job_state(lives) == ""
        again = rig.lab.submit("exit 5", "--mem=1", "-J", "another")
        assert again == lives
        rig.start_watcher()
        assert rig.ended(missed, "failed")["attempts"][0]["exit_code"] == 6
        assert rig.ended(f"{again}@2", "failed")["attempts"][0]["exit_code"] == 5
        before = rig.ended(lives, "failed")
        assert (before["name"], [one["exit_code"] for one in before["attempts"]]) == ("lives", [4])
    finally:
        rig.stop()


def test_a_watcher_that_is_not_heard_leaves_its_jobs_as_they_were_known(rig):
    job = rig.lab.submit("sleep 600", "--mem=1")
    rig.until(lambda: (rig.run(job) or {}).get("state") == "running", "the job")
    rig.watcher.send_signal(signal.SIGSTOP)
    try:
        run = rig.until(
            lambda: "watcher not heard" in (rig.run(job)["state_reason"] or "") and rig.run(job), "the silence"
        )
        assert run["state"] == "running"
    finally:
        rig.watcher.send_signal(signal.SIGCONT)
    rig.until(lambda: rig.run(job)["state_reason"] is None, "the watcher's return")
    rig.lab.run("scancel", job)


def test_what_was_seen_while_the_server_was_away_comes_later(rig):
    rig.stop_server()
    job = rig.lab.submit("echo said meanwhile; exit 3", "--mem=1", "-o", f"{rig.folder}/meanwhile.txt")
    rig.until(lambda: rig.lab.job_state(job) == "FAILED", "the end")
    time.sleep(3)  # two polls: the watcher has seen it, and the server is still away
    rig.start_server()
    (attempt,) = rig.ended(job, "failed")["attempts"]
    assert attempt["exit_code"] == 3
    rig.until(lambda: rig.get(f"runs/{rig.run(job)['id']}/logs"), "the output")


def test_the_watcher_goes_on_when_the_controller_comes_back(rig):
    rig.kill_controller()
    time.sleep(3)  # some polls fail
    assert rig.watcher.poll() is None
    rig.start_controller()
    job = rig.lab.submit("exit 2", "--mem=1")
    rig.ended(job, "failed")


def test_the_watcher_goes_on_when_slurm_answers_nonsense(rig):
    fake = f"{rig.front}/squeue"
    with open(fake, "w") as file:
        file.write("#!/bin/sh\necho '\xff no table at all'\n")
    os.chmod(fake, 0o755)
    rig.until(lambda: "asking Slurm fails" in rig.said(), "the word on it")
    os.unlink(fake)
    job = rig.lab.submit("exit 9", "--mem=1")
    assert rig.ended(job, "failed")["attempts"][0]["exit_code"] == 9


def test_a_run_that_is_deleted_holds_up_no_other(rig):
    gone = rig.lab.submit("sleep 600", "--mem=1")
    rig.until(lambda: (rig.run(gone) or {}).get("state") == "running", "the job")
    rig.delete(f"runs/{rig.run(gone)['id']}")
    rig.lab.run("scancel", gone)
    rig.until(lambda: "run_deleted" in rig.said(), "the refusal")
    job = rig.lab.submit("exit 8", "--mem=1")
    assert rig.ended(job, "failed")["attempts"][0]["exit_code"] == 8
    assert rig.run(gone) is None


def test_a_second_watcher_of_a_cluster_is_refused(rig):
    first = rig.watcher
    rig.start_watcher()
    second, rig.watcher = rig.watcher, first
    assert second.wait(60) == 1
    assert "watcher_running" in rig.said()
    assert f"process {first.pid}" in rig.said()
