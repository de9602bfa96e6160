"""What a watcher survives: its own death in a burst, a controller that is away, a server that is away."""

import glob
import os
import signal
import subprocess
import sys

import pytest

from .conftest import Rig, check_times, running

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
        go = tmp_path / "go"
        lives = rig.lab.submit(f"while [ ! -e {go} ]; do sleep 0.2; done; exit 4", "--mem=1", "-J", "lives")
        rig.until(lambda: (rig.run(lives) or {}).get("state") == "running", "the job")
        rig.kill_watcher()
        go.touch()
        missed = rig.lab.submit("exit 6", "--mem=1", "-J", "missed")
        # Accounting may hear of an end before it hears of the start. Its record then has neither name nor the time at which the
        # job might begin, and no question for a stretch of time finds it: if the controller dies now, it stays so.
        whole = [("lives", "FAILED"), ("missed", "FAILED")]
        both = lambda: [*rig.accounted(lives), *rig.accounted(missed)]  # noqa: E731
        rig.until(
            lambda: [(one["JobName"], one["State"]) for one in both() if one["End"] != "Unknown"] == whole, "them"
        )
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


def test_what_comes_and_goes_while_the_server_is_away_is_all_told_later(rig, tmp_path):
    submit, go, output = rig.lab.submit, tmp_path / "go", tmp_path / "before.txt"
    waits = f"echo begun before; while [ ! -e {go} ]; do sleep 0.2; done; echo said meanwhile; exit 3"
    before = submit(waits, "--mem=1", "-o", str(output))
    again = submit('test -n "$SLURM_RESTART_COUNT" || sleep 600', "--requeue", "--mem=1")
    for job in (before, again):
        running(rig, job)
    rig.stop_server()
    export = "--export=" + ",".join(["ALL", *(f"{name}={value}" for name, value in rig.inside().items() if value)])
    wrapped = submit(f"srun {sys.executable} -m stepward run -- sh -c 'echo kept; exit 5'", export, "--mem=500")
    array = submit("exit $SLURM_ARRAY_TASK_ID", "--array=0-2", "--mem=1")
    cancelled = submit("sleep 600", "--mem=1")
    rig.until(lambda: rig.lab.job_state(cancelled) == "RUNNING", "the job that is cancelled")
    rig.lab.run("scancel", cancelled)
    rig.lab.run("scontrol", "requeue", again)
    go.touch()
    ends = {before: ("failed", 3), again: ("finished", 0), wrapped: ("failed", 5), cancelled: ("cancelled", None)}
    ends |= {f"{array}_0": ("finished", 0), f"{array}_1": ("failed", 1), f"{array}_2": ("failed", 2)}
    rig.until(lambda: rig.ended_for_the_watcher() >= ends.keys(), "the watcher's word on all of them")
    rig.start_server()
    synced = [sys.executable, "-m", "stepward", "sync"]
    subprocess.run(synced, env=rig.inside(), check=True, timeout=120, stdout=subprocess.DEVNULL)
    for job, (state, code) in ends.items():
        run = rig.ended(job, state)
        assert len(run["attempts"]) == (2 if job == again else 1)
        assert run["attempts"][-1]["exit_code"] == code or state == "cancelled"
        check_times(rig, job)
    first = rig.run(again)["attempts"][0]
    assert (first["state"], rig.events(again, "requeued")[0]["data"]["by"]) == ("cancelled", "user")
    assert rig.run(wrapped)["attempts"][0]["key"].startswith("slurm.0/step.0/")
    logs = f"runs/{rig.run(before)['id']}/logs"
    stream = rig.until(lambda: rig.get(logs), "the output")[0]["id"]
    texts = lambda: [line["text"] for line in rig.get(f"{logs}/{stream}")["lines"]]  # noqa: E731
    rig.until(lambda: texts() == ["begun before", "said meanwhile"], "all lines")


def test_a_job_that_a_more_urgent_one_takes_the_nodes_from_was_preempted_and_goes_on(rig):
    tiers = ["PreemptType=preempt/partition_prio", "PreemptMode=REQUEUE"]
    urgent = f"PartitionName=urgent Nodes={','.join(rig.lab.nodes)} PriorityTier=10 MaxTime=60 DefMemPerCPU=10"
    with rig.lab.configured(*tiers, urgent):
        whole = ["-N4", "-n16", "--mem=100"]
        script = 'test -n "$SLURM_RESTART_COUNT" || sleep 600'
        job = rig.lab.submit(script, *whole, "--requeue")
        running(rig, job)
        taker = rig.lab.submit("sleep 2", *whole, "-p", "urgent")
        first, second = rig.ended(job, "finished")["attempts"]
        assert (first["state"], first["number"], second["number"], second["key"]) == ("preempted", 1, 2, "slurm.1")
        assert [launch["State"] for launch in rig.accounted(job)] == ["PREEMPTED", "COMPLETED"]
        (requeued,) = rig.events(job, "requeued")
        assert requeued["data"] == {"by": "slurm", "cause": "preempted"}
        check_times(rig, job)
        rig.ended(taker, "finished")


def test_the_watcher_goes_on_when_the_controller_comes_back(rig):
    failures = rig.said().count("asking Slurm fails")
    rig.kill_controller()
    rig.until(lambda: rig.said().count("asking Slurm fails") > failures, "the word on it")
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
